/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instruction sets may be used. A CPUID bit alone is not enough: the operating system must
 * save the wider registers (XGETBV). Built without instruction set flags.
 */
#include "detect.h"

#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stddef.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* XCR0 state components. */
enum {
    STATE_YMM = 0x6,  /* SSE and AVX */
    STATE_ZMM = 0xe6, /* and opmask, upper halves, upper registers */
    STATE_TILES = 0x60000,
};

typedef struct cpuid_leaf {
    unsigned a, b, c, d;
} cpuid_leaf;

static cpuid_leaf read_leaf(unsigned leaf, unsigned subleaf)
{
    cpuid_leaf r = {0};
    if ((unsigned)__get_cpuid_max(0, NULL) >= leaf)
        __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
    return r;
}

/* Needs the OSXSAVE bit, else the instruction is not allowed. */
static unsigned read_xcr0(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

static int has(unsigned reg, unsigned mask)
{
    return (reg & mask) == mask;
}

/* Linux hands out the memory for tiles only to a process that has asked for it. */
static int may_use_tiles(void)
{
#if defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
#else
    return 0;
#endif
}

unsigned nib_cpu_detect(void)
{
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 };          /* 1.ecx */
    enum { AVX2 = 1 << 5, AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30 }; /* 7.0.ebx */
    enum { AVX512_VNNI = 1 << 11 };                                                    /* 7.0.ecx */
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 };               /* 7.0.edx */
    enum { AVX_VNNI = 1 << 4 };                                                        /* 7.1.eax */
    const unsigned AVX512VL = 1u << 31;                                                /* 7.0.ebx */
    const cpuid_leaf basic = read_leaf(1, 0), wide = read_leaf(7, 0);
    const cpuid_leaf more = wide.a >= 1 ? read_leaf(7, 1) : (cpuid_leaf){0};
    if (!has(basic.c, OSXSAVE))
        return 0;
    const unsigned state = read_xcr0();
    unsigned bits = 0;
    if (has(state, STATE_YMM) && has(basic.c, FMA | AVX | F16C) && has(wide.b, AVX2)) {
        bits |= NIB_CPU_AVX2;
        if (has(more.a, AVX_VNNI))
            bits |= NIB_CPU_AVX_VNNI;
    }
    if ((bits & NIB_CPU_AVX2) && has(state, STATE_ZMM) &&
        has(wide.b, AVX512F | AVX512DQ | AVX512BW | AVX512VL)) {
        bits |= NIB_CPU_AVX512;
        if (has(wide.c, AVX512_VNNI))
            bits |= NIB_CPU_AVX512_VNNI;
    }
    if ((bits & NIB_CPU_AVX512) && has(state, STATE_TILES) &&
        has(wide.d, AMX_BF16 | AMX_TILE | AMX_INT8) && may_use_tiles())
        bits |= NIB_CPU_AMX;
    return bits;
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

unsigned nib_cpu_detect(void)
{
    enum { HWCAP_DOTPROD = 1 << 20 };
    return getauxval(AT_HWCAP) & HWCAP_DOTPROD ? NIB_CPU_NEON_DOT : 0;
}

#else

unsigned nib_cpu_detect(void)
{
    return 0;
}

#endif
