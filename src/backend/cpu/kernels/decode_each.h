/* SPDX-License-Identifier: Apache-2.0
 *
 * Included by a kernel after its decode_as(w, codebook, bits, arranged, m, n0, n1, y, y_stride),
 * which is compiled anew for each number of rows and each format.
 */
/* A function for each m and format, so that each has its sums in registers. */
typedef void (*decode_function)(const nib_cpu_weights *w, const float *arranged, size_t n0,
                                size_t n1, float *y, size_t y_stride);

#define DEFINE_DECODE(name, codebook, bits, m)                                                     \
    static void name##_##m(const nib_cpu_weights *w, const float *arranged, size_t n0, size_t n1,  \
                           float *y, size_t y_stride)                                              \
    {                                                                                              \
        decode_as(w, codebook, bits, arranged, m, n0, n1, y, y_stride);                            \
    }
#define DEFINE_DECODES(name, codebook, bits)                                                       \
    DEFINE_DECODE(name, codebook, bits, 1)                                                         \
    DEFINE_DECODE(name, codebook, bits, 2)                                                         \
    DEFINE_DECODE(name, codebook, bits, 3)                                                         \
    DEFINE_DECODE(name, codebook, bits, 4)                                                         \
    DEFINE_DECODE(name, codebook, bits, 5)                                                         \
    DEFINE_DECODE(name, codebook, bits, 6)                                                         \
    DEFINE_DECODE(name, codebook, bits, 7)                                                         \
    DEFINE_DECODE(name, codebook, bits, 8)                                                         \
    static const decode_function name[] = {name##_1, name##_2, name##_3, name##_4,                 \
                                           name##_5, name##_6, name##_7, name##_8};
