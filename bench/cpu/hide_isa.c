/* SPDX-License-Identifier: Apache-2.0
 *
 * CPUID is made to fault (arch_prctl ARCH_SET_CPUID); the handler of the fault executes it, clears
 * the bits to be hidden and steps over the instruction. What XGETBV says is not changed: programs
 * must ask CPUID too.
 */
#include "hide_isa.h"

#include <stddef.h>

#if defined(__linux__) && defined(__x86_64__)

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012 };

/* Registers of CPUID, in the order of `hidden`. */
enum { EAX, EBX, ECX, EDX, REGISTERS };

typedef struct hidden_bits {
    unsigned leaf, subleaf;
    unsigned mask[REGISTERS];
} hidden_bits;

#define BIT(n) (1u << (n))
enum { ALL_SUBLEAVES = 0xffff };

static const hidden_bits hidden[] = {
    {7,
     0,
     {0,
      /* AVX512F, DQ, IFMA, PF, ER, CD, BW, VL */
      BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31),
      /* AVX512_VBMI, VBMI2, GFNI, VNNI, BITALG, VPOPCNTDQ */
      BIT(1) | BIT(6) | BIT(8) | BIT(11) | BIT(12) | BIT(14),
      /* AVX512_4VNNIW, 4FMAPS, VP2INTERSECT; AMX_BF16; AVX512_FP16; AMX_TILE, INT8 */
      BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25)}},
    {7,
     1,
     {/* AVX_VNNI, AVX512_BF16, AMX_FP16, AVX_IFMA */
      BIT(4) | BIT(5) | BIT(21) | BIT(23), 0, 0,
      /* AVX_VNNI_INT8, AVX_NE_CONVERT, AMX_COMPLEX, AVX_VNNI_INT16, AVX10 */
      BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19)}},
    /* Opmask, upper halves, upper registers; tile configuration and data. */
    {0xd, 0, {BIT(5) | BIT(6) | BIT(7) | BIT(17) | BIT(18), 0, 0, 0}},
    {0x1d, ALL_SUBLEAVES, {~0u, ~0u, ~0u, ~0u}}, /* tiles */
    {0x1e, ALL_SUBLEAVES, {~0u, ~0u, ~0u, ~0u}}, /* tile products */
    {0x24, ALL_SUBLEAVES, {~0u, ~0u, ~0u, ~0u}}, /* AVX10 */
};

/* 0, or -1 with errno. */
static long let_cpuid_run(unsigned long yes)
{
    return syscall(SYS_arch_prctl, ARCH_SET_CPUID, yes);
}

static void hide(unsigned leaf, unsigned subleaf, unsigned *registers)
{
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        const hidden_bits *h = &hidden[i];
        if (h->leaf != leaf || (h->subleaf != subleaf && h->subleaf != ALL_SUBLEAVES))
            continue;
        for (int r = 0; r < REGISTERS; r++)
            registers[r] &= ~h->mask[r];
    }
}

/* Whether the instruction there is CPUID. Only for an address whose execution has faulted. */
static int is_cpuid(greg_t address)
{
    unsigned char bytes[2];
    memcpy(bytes, (const void *)address, sizeof bytes);
    return bytes[0] == 0x0f && bytes[1] == 0xa2;
}

static void answer(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    /* A fault by a bad address has that address; the fault of CPUID has none. */
    if (info->si_code != SI_KERNEL || !is_cpuid(registers[REG_RIP])) {
        signal(number, SIG_DFL); /* and the instruction faults again */
        return;
    }
    const unsigned leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX];
    unsigned r[REGISTERS];
    const int before = errno;
    let_cpuid_run(1);
    __cpuid_count(leaf, subleaf, r[EAX], r[EBX], r[ECX], r[EDX]);
    let_cpuid_run(0);
    errno = before;
    hide(leaf, subleaf, r);
    registers[REG_RAX] = r[EAX];
    registers[REG_RBX] = r[EBX];
    registers[REG_RCX] = r[ECX];
    registers[REG_RDX] = r[EDX];
    registers[REG_RIP] += 2;
}

const char *bench_hide_isa(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
    action.sa_sigaction = answer;
    if (sigaction(SIGSEGV, &action, NULL) != 0)
        return strerror(errno);
    if (let_cpuid_run(0) != 0)
        return errno == ENODEV ? "this processor (or its hypervisor) cannot make CPUID fault"
                               : "the kernel does not make CPUID fault";
    return NULL;
}

#else

const char *bench_hide_isa(void)
{
    return "only Linux on x86-64 can hide instruction sets";
}

#endif
