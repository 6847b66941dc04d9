/* SPDX-License-Identifier: Apache-2.0
 *
 * As much of cmocka as test_kernels.c uses, for processors that are emulated and have no cmocka
 * library: the first failed assertion ends the program.
 */
#ifndef NIB_TESTS_CPU_CROSS_CMOCKA_H
#define NIB_TESTS_CPU_CROSS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*function)(void **state);
};

#define cmocka_unit_test(function)                                                                 \
    {                                                                                              \
#function, function                                                                        \
    }
#define print_message printf
#define print_error   printf

static inline void assert_that(int holds, const char *text, const char *file, int line)
{
    if (holds)
        return;
    printf("%s:%d: FAILED: %s\n", file, line, text);
    exit(1);
}

#define assert_true(condition)           assert_that(!!(condition), #condition, __FILE__, __LINE__)
#define assert_null(pointer)             assert_true((pointer) == NULL)
#define assert_non_null(pointer)         assert_true((pointer) != NULL)
#define assert_int_equal(a, b)           assert_true((long long)(a) == (long long)(b))
#define assert_ptr_equal(a, b)           assert_true((const void *)(a) == (const void *)(b))
#define assert_string_equal(a, b)        assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, bytes) assert_true(memcmp(a, b, bytes) == 0)

static inline int run_all(const struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        tests[i].function(&state);
        printf("ok %s\n", tests[i].name);
    }
    printf("%zu passed, 0 failed\n", count);
    return 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    run_all(tests, sizeof(tests) / sizeof *(tests))

#endif
