/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs cases/requests.txt; its head says what a case holds.
 */
#include "support.h"

enum { MAX_CASES = 128, MAX_WORDS = 48 };

typedef struct request_case {
    const char *name, *package, *change, *caps, *status, *message, *variant, *output;
} request_case;

typedef struct base_request {
    const char *package, *request;
} base_request;

static request_case cases[MAX_CASES];
static size_t case_count;
static base_request bases[8];
static size_t base_count;

/* "key rest" in place; NULL when the line has no blank. */
static char *split(char *line)
{
    char *blank = strchr(line, ' ');
    if (blank)
        *blank++ = '\0';
    return blank;
}

static void set_field(request_case *c, const char *key, const char *value)
{
    const struct {
        const char *key;
        const char **field;
    } fields[] = {{"package", &c->package}, {"change", &c->change},   {"caps", &c->caps},
                  {"status", &c->status},   {"message", &c->message}, {"variant", &c->variant},
                  {"output", &c->output}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].key, key) == 0) {
            *fields[i].field = value;
            return;
        }
    }
    fail_msg("unknown key '%s' in case '%s'", key, c->name);
}

static void read_line(char *line)
{
    if (line[0] == '\0' || line[0] == '#')
        return;
    if (line[0] == '[') {
        assert_true(case_count < MAX_CASES);
        line[strlen(line) - 1] = '\0';
        cases[case_count++].name = line + 1;
        return;
    }
    char *rest = split(line);
    assert_non_null(rest);
    if (strcmp(line, "base") == 0) {
        assert_true(base_count < 8);
        char *request = split(rest);
        bases[base_count++] = (base_request){rest, request};
        return;
    }
    assert_true(case_count > 0);
    set_field(&cases[case_count - 1], line, rest);
}

static void read_cases(char *text)
{
    for (char *line = text; line;) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        read_line(line);
        line = next;
    }
}

/* ---- changing the base ---- */

static size_t key_length(const char *word)
{
    return strcspn(word, "= ");
}

typedef struct words {
    const char *items[MAX_WORDS];
    size_t lengths[MAX_WORDS];
    size_t count;
} words;

static size_t find_word(const words *w, const char *key, size_t length)
{
    for (size_t i = 0; i < w->count; i++) {
        if (key_length(w->items[i]) == length && strncmp(w->items[i], key, length) == 0)
            return i;
    }
    return w->count;
}

static void put_word(words *w, const char *word, size_t length)
{
    if (word[0] == '-') {
        const size_t at = find_word(w, word + 1, length - 1);
        assert_true(at < w->count);
        w->count--;
        for (size_t i = at; i < w->count; i++) {
            w->items[i] = w->items[i + 1];
            w->lengths[i] = w->lengths[i + 1];
        }
        return;
    }
    const bool again = word[0] == '@' && word[1] == '@'; /* a second time, on purpose */
    const char *kept = again ? word + 1 : word;
    const size_t at = again ? w->count : find_word(w, word, key_length(word));
    assert_true(at < MAX_WORDS);
    w->items[at] = kept;
    w->lengths[at] = length - (again ? 1 : 0);
    w->count += at == w->count;
}

static void put_words(words *w, const char *text)
{
    while (*text) {
        const size_t length = strcspn(text, " ");
        if (length)
            put_word(w, text, length);
        text += length + strspn(text + length, " ");
    }
}

static void build_request(const request_case *c, char *out, size_t size)
{
    words w = {.count = 0};
    for (size_t i = 0; i < base_count; i++) {
        if (strcmp(bases[i].package, c->package) == 0)
            put_words(&w, bases[i].request);
    }
    assert_true(w.count > 0);
    put_words(&w, c->change ? c->change : "");
    size_t used = 0;
    for (size_t i = 0; i < w.count; i++)
        used += (size_t)snprintf(out + used, size - used, "%.*s ", (int)w.lengths[i], w.items[i]);
    assert_true(used < size);
}

/* ---- running ---- */

static void expect_output(const request_case *c, const nib_plan *plan, const char *word,
                          size_t length)
{
    char text[128], key[64], desc[64];
    const size_t name = key_length(word);
    snprintf(key, sizeof key, "%.*s", (int)name, word);
    snprintf(desc, sizeof desc, "%.*s", (int)(length - name - 1), word + name + 1);
    const nib_plan_tensor *tensor = nib_plan_find_tensor(plan, nib_str_from(key));
    if (!tensor)
        fail_msg("%s: the plan has no %s", c->name, key);
    nib_tensor_desc_format(&tensor->desc, text, sizeof text);
    if (strcmp(text, desc) != 0)
        fail_msg("%s: %s is %s and not %s", c->name, key, text, desc);
}

static void check_plan(const request_case *c, const nib_plan *plan)
{
    const char *variant = nib_plan_variant(plan) ? nib_plan_variant(plan) : "none";
    if (c->variant && strcmp(variant, c->variant) != 0)
        fail_msg("%s: variant %s and not %s", c->name, variant, c->variant);
    for (const char *word = c->output ? c->output : ""; *word;) {
        const size_t length = strcspn(word, " ");
        expect_output(c, plan, word, length);
        word += length + strspn(word + length, " ");
    }
}

static void run_case(const request_case *c)
{
    char path[512], request[2048];
    snprintf(path, sizeof path, NIB_SOURCE_DIR "/kernels/%s/build/webgpu/manifest.json",
             c->package);
    nib_package *package = package_from_file(path);
    assert_non_null(package);
    build_request(c, request, sizeof request);
    planned result = plan_text(package, request, c->caps);
    const char *status = nib_status_name(result.status) + strlen("NIB_");
    if (strcmp(status, c->status ? c->status : "OK") != 0)
        fail_msg("%s: %s: %s", c->name, status, result.error.message);
    if (result.plan)
        check_plan(c, result.plan);
    else
        expect_message(&result.error, c->message);
    /* what is wrong with a request fits in one line; a caret is for authors of manifests */
    if (result.error.excerpt[0] || strchr(result.error.message, '\n'))
        fail_msg("%s: more than one line: %s", c->name, result.error.message);
    nib_plan_free(result.plan);
    free_package(package);
}

static void requests(void **state)
{
    (void)state;
    char *text = read_text_file(NIB_SOURCE_DIR "/tests/plan/cases/requests.txt");
    assert_non_null(text);
    read_cases(text);
    for (size_t i = 0; i < case_count; i++)
        run_case(&cases[i]);
    printf("%zu requests\n", case_count);
    assert_true(case_count > 70);
    free(text);
}

/* A count without its list is the caller's slip, not a crash. */
static void lists_that_are_missing(void **state)
{
    (void)state;
    nib_package *package = package_from_file(
        NIB_SOURCE_DIR "/kernels/com.microsoft.MatMulBnb4/build/webgpu/manifest.json");
    assert_non_null(package);
    nib_caps *caps;
    assert_int_equal(nib_caps_parse(test_context(), NULL, &caps, NULL), NIB_OK);
    const nib_request slips[] = {{.tensor_count = 1},
                                 {.attribute_count = 1},
                                 {.argument_count = 1},
                                 {.tunable_count = 1},
                                 {.want_count = 1}};
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++) {
        nib_plan *plan = NULL;
        nib_error error = {0};
        assert_int_equal(nib_plan_create(package, &slips[i], caps, &plan, &error),
                         NIB_INVALID_ARGUMENT);
        assert_null(plan);
        expect_message(&error, "a list of the request is NULL");
    }
    nib_caps_free(caps);
    free_package(package);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests),
                                       cmocka_unit_test(lists_that_are_missing)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free_test_context();
    return failed;
}
