/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of the AMX row: what the float32 and the int8 kernels share. A product of tiles takes 16
 * cycles whatever its depth, so that a block of 32 is as dear as one of 64; storing a tile takes 16
 * cycles, loading it 8. Sums of a block leave the tiles through memory (the first-level cache), are
 * scaled there and added up in vector registers, while the tiles of the next block are multiplied.
 */
#ifndef NIB_BACKEND_CPU_AMX_H
#define NIB_BACKEND_CPU_AMX_H

#include "words_512.h"

/* Activation rows, and weight rows, of a tile of sums; k of a group; bytes of a whole tile. */
enum { SIDE = 16, GROUP_K = 32, TILE_BYTES = 1024 };
/* Weight rows of an item of work: see nib_cpu_gemm. */
enum { AMX_GROUP_N = 512 };

/* LDTILECFG: bytes of a row, and rows, of each tile register. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Not _tile_loadconfig: gcc 12 takes it to read 8 bytes. */
static inline void load_config(const tile_config *config)
{
    __asm__ volatile("ldtilecfg %0" : : "m"(*config));
}

static inline void release_tiles(void)
{
    _tile_release();
}

static inline size_t group_count(size_t kc)
{
    return (kc + GROUP_K - 1) / GROUP_K;
}

#endif
