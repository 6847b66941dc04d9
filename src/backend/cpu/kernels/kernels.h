/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row of CPU kernels is: plain functions over raw pointers for one instruction set. Kernels
 * allocate nothing, report nothing and see no tensors; project.c calls them in the right order. How
 * to write a row: docs/adding-a-kernel.md.
 */
#ifndef NIB_BACKEND_CPU_KERNELS_H
#define NIB_BACKEND_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Instruction sets a row may need, each with the operating system's support for its registers. */
enum {
    NIB_CPU_AVX2 = 1u << 0,        /* AVX2, FMA, F16C */
    NIB_CPU_AVX512 = 1u << 1,      /* F, BW, DQ, VL */
    NIB_CPU_AVX512_VNNI = 1u << 2, /* byte dot products on zmm */
    NIB_CPU_AVX_VNNI = 1u << 3,    /* byte dot products on ymm, VEX-encoded */
    NIB_CPU_NEON_DOT = 1u << 4,    /* AArch64 with the dot product extension */
    NIB_CPU_AMX = 1u << 5,         /* tiles of bytes and of bfloat16 */
};

/* Decode kernels take at most this many activation rows. */
enum { NIB_CPU_DECODE_ROWS = 8 };
enum { NIB_CPU_MAX_GEMV = 4, NIB_CPU_MAX_GEMM = 3 };

/* One packed weight matrix [N,K] in one of the two formats of nibble/quant.h. Pointers may have any
 * alignment. */
typedef struct nib_cpu_weights {
    const uint8_t *codes;
    const void *scales;    /* nbits: [N,blocks]; bnb4: absmax [ceil(N*K/block)] */
    bool half_scales;      /* float16, else float32 */
    const float *codebook; /* bnb4: 16 values. NULL: nbits, value = code - 2^(bits-1) */
    int bits;              /* 2, 4, 8; bnb4: 4 */
    size_t N, K;
    size_t block;     /* weights of one scale */
    size_t blocks;    /* nbits: blocks of one row */
    size_t row_bytes; /* nbits: bytes of one row */
} nib_cpu_weights;

/* One row of the activations on its way to float32. */
typedef struct nib_cpu_norm {
    const void *a, *skip; /* [K]; skip NULL: none */
    void *residual;       /* [K]: a + skip rounded to the tensor type; NULL: not wanted */
    const void *gain;     /* [K]; NULL: no normalization */
    bool half;            /* a, skip, residual and gain are float16, else float32 */
    double epsilon;
    size_t K;
} nib_cpu_norm;

/* What happens to finished sums of one row before they are stored. */
typedef struct nib_cpu_finish {
    const float *up; /* gated: out = silu(sum + bias) * (up + up_bias); NULL: out = sum + bias */
    const void *bias, *up_bias; /* NULL: none; same type as the output */
    void *out;
    bool half; /* output and biases are float16, else float32 */
} nib_cpu_finish;

/* A few activation rows times weights that are streamed once. */
typedef struct nib_cpu_gemv {
    /* Whether these kernels are for such weights. */
    bool (*takes)(const nib_cpu_weights *w);
    /* Put the m (1..8) activation rows x [m][K] into the order that decode() wants, in m *
     * arranged_bytes(w) bytes aligned to 64. */
    size_t (*arranged_bytes)(const nib_cpu_weights *w);
    void (*arrange)(const nib_cpu_weights *w, const float *x, size_t m, void *arranged);
    /* y[i*y_stride + n - n0] = dot product of activation row i and weight row n, for n0 <= n < n1.
     */
    void (*decode)(const nib_cpu_weights *w, const void *arranged, size_t m, size_t n0, size_t n1,
                   float *y, size_t y_stride);
} nib_cpu_gemv;

/* Many activation rows, in tiles of tile_m of them by tile_n weight rows, along slices of K of
 * tile_k columns (the last one is shorter). Blocks do not cross slices where that matters. Memory
 * is aligned to 64 bytes. */
typedef struct nib_cpu_gemm {
    bool (*takes)(const nib_cpu_weights *w);
    size_t tile_m, tile_n, tile_k;
    /* Weight rows that are worked on together at most: enough of them that the activations, which
     * come from the last cache, cost little, few enough that the sums of 512 activation rows stay
     * in the second-level cache. */
    size_t group_n;
    /* One slice of tile_m activation rows: from x [rows][stride], which points at its first column.
     * rows <= tile_m. */
    size_t (*packed_bytes)(size_t kc);
    void (*pack)(const nib_cpu_weights *w, const float *x, size_t rows, size_t stride, size_t kc,
                 void *packed);
    /* One slice of tile_n weight rows from row n0 and column k0 on; rows from N on give zeros. */
    size_t (*panel_bytes)(size_t kc);
    void (*panel)(const nib_cpu_weights *w, size_t n0, size_t k0, size_t kc, void *panel);
    /* c[i*tile_n + j] = (accumulate ? c[...] : 0) + their product, for i < rows and all j. Rows of
     * c from `rows` to tile_m may be overwritten. */
    void (*tile)(size_t rows, size_t kc, const void *packed, const void *panel, float *c,
                 bool accumulate);
    /* NULL, or what a thread must do before its first tile, and after the last one. */
    void (*begin)(void);
    void (*end)(void);
} nib_cpu_gemm;

typedef struct nib_cpu_row {
    const char *name;
    unsigned needs;
    /* x[K] in float32: widened, summed with skip, normalized. */
    void (*normalize)(const nib_cpu_norm *norm, float *x);
    /* Finish `count` sums. */
    void (*finish)(const nib_cpu_finish *finish, const float *sums, size_t count);
    /* Dequantize weights [k0, k0+count) of row n; every row gives the same bits. */
    void (*dequantize)(const nib_cpu_weights *w, size_t n, size_t k0, size_t count, float *out);
    /* The first that takes the weights is used; NULL behind the last gemv. The last gemm takes all
     * weights. gemv8 and gemm8 quantize the activations to int8 (accuracy_level 4). */
    const nib_cpu_gemv *gemv[NIB_CPU_MAX_GEMV], *gemv8;
    const nib_cpu_gemm *gemm[NIB_CPU_MAX_GEMM], *gemm8;
} nib_cpu_row;

/* The rows that this build has, best first; the last one is scalar and needs nothing. */
extern const nib_cpu_row *const nib_cpu_rows[];
extern const size_t nib_cpu_row_count;

extern const nib_cpu_row nib_cpu_amx;
extern const nib_cpu_row nib_cpu_avx512vnni;
extern const nib_cpu_row nib_cpu_avx512;
extern const nib_cpu_row nib_cpu_avxvnni;
extern const nib_cpu_row nib_cpu_avx2;
extern const nib_cpu_row nib_cpu_neondot;
extern const nib_cpu_row nib_cpu_scalar;

/* What rows share. */
extern const nib_cpu_gemv nib_cpu_avx2_gemv, nib_cpu_avx2_words_gemv, nib_cpu_avx2_rows_gemv,
    nib_cpu_avx512_gemv, nib_cpu_avx512vnni_gemv8;
extern const nib_cpu_gemm nib_cpu_avx2_gemm, nib_cpu_avx512_gemm, nib_cpu_amx_gemm,
    nib_cpu_amx_codebook_gemm, nib_cpu_amx_gemm8;
void nib_avx2_dequantize(const nib_cpu_weights *w, size_t n, size_t k0, size_t count, float *out);
void nib_avx2_normalize(const nib_cpu_norm *norm, float *x);
void nib_avx2_finish(const nib_cpu_finish *finish, const float *sums, size_t count);
void nib_avx512_normalize(const nib_cpu_norm *norm, float *x);
void nib_avx512_finish(const nib_cpu_finish *finish, const float *sums, size_t count);

/* The numeric truth for one output: dequantize, multiply, sum in float32 by blocks. */
float nib_scalar_dot(const nib_cpu_weights *w, size_t n, const float *x);
void nib_scalar_dequantize(const nib_cpu_weights *w, size_t n, size_t k0, size_t count, float *out);

#endif
