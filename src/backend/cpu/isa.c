/* isa.c — which instruction sets this machine can run, and the choice among them.
 *
 * A set is usable when the processor has the instructions (CPUID) and the operating system saves
 * the registers they use (XCR0, read by XGETBV): a processor with AVX-512 under an OS that does not
 * save zmm registers must not run it. AMX's registers are 8 KiB of state per thread, so Linux also
 * wants to be asked once per process (arch_prctl) before it lets a thread touch them. */
#include "backend/cpu/isa.h"

#include <cpuid.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    HAS_AVX2 = 1,       /* AVX2, FMA and F16C */
    HAS_AVX512 = 2,     /* F, BW, DQ, VL */
    HAS_AVX512VNNI = 4, /* vpdpbusd */
    HAS_AVX512BF16 = 8, /* vdpbf16ps */
    HAS_AMX = 16,       /* registers, tdpbf16ps, tdpbssd, and the kernel's permission */
};

/* Up to here w's way from memory is the limit, and VNNI has less to do besides; with 16 rows AMX is
 * as fast or faster. */
enum { AMX_FEW_ROWS = 8 };

/* From <asm/prctl.h>, which is too old on some systems that run new kernels. */
enum { REQ_XCOMP_PERM = 0x1023, XFEATURE_TILE_DATA = 18 };

extern const struct row_kernels rows_generic, rows_avx2, rows_avx512;

static const struct isa generic = {
    .name = "generic",
    .gemm_f32 = &gemm_f32_generic,
    .gemm_fused = &gemm_fused_generic,
    .gemm_bf16 = &gemm_f32_generic,
    .tiled_f32 = &tiled_f32_generic,
    .tiled_bf16 = &tiled_bf16_generic,
    .tiled_i8 = &tiled_i8_generic,
    .rows = &rows_generic,
};
static const struct isa avx2 = {
    .name = "avx2",
    .needs = HAS_AVX2,
    .gemm_f32 = &gemm_f32_avx2,
    .gemm_fused = &gemm_f32_avx2,
    .gemm_bf16 = &gemm_f32_avx2,
    .tiled_f32 = &tiled_f32_avx2,
    .tiled_bf16 = &tiled_bf16_avx2,
    .tiled_i8 = &tiled_i8_avx2,
    .rows = &rows_avx2,
};
static const struct isa avx512 = {
    .name = "avx512",
    .needs = HAS_AVX2 | HAS_AVX512,
    .gemm_f32 = &gemm_f32_avx512,
    .gemm_fused = &gemm_f32_avx512,
    .gemm_bf16 = &gemm_f32_avx512,
    .tiled_f32 = &tiled_f32_avx512,
    .tiled_bf16 = &tiled_bf16_avx512,
    .tiled_i8 = &tiled_i8_avx512,
    .rows = &rows_avx512,
    .little = &little_avx512,
    .little_bf16 = INT_MAX,
};
static const struct isa avx512vnni = {
    .name = "avx512vnni",
    .needs = HAS_AVX2 | HAS_AVX512 | HAS_AVX512VNNI,
    .gemm_f32 = &gemm_f32_avx512,
    .gemm_fused = &gemm_f32_avx512,
    .gemm_bf16 = &gemm_f32_avx512,
    .tiled_f32 = &tiled_f32_avx512,
    .tiled_bf16 = &tiled_bf16_avx512,
    .tiled_i8 = &tiled_i8_avx512vnni,
    .rows = &rows_avx512,
    .little = &little_avx512,
    .little_bf16 = INT_MAX,
};
static const struct isa avx512bf16 = {
    .name = "avx512bf16", /* every processor with it has VNNI */
    .needs = HAS_AVX2 | HAS_AVX512 | HAS_AVX512VNNI | HAS_AVX512BF16,
    .gemm_f32 = &gemm_f32_avx512,
    .gemm_fused = &gemm_f32_avx512,
    .gemm_bf16 = &gemm_bf16_avx512bf16,
    .tiled_f32 = &tiled_f32_avx512,
    .tiled_bf16 = &tiled_bf16_avx512bf16,
    .tiled_i8 = &tiled_i8_avx512vnni,
    .rows = &rows_avx512,
    .little = &little_avx512,
    .little_bf16 = 128,
};
static const struct isa amx = {
    .name = "amx",
    .needs = HAS_AVX2 | HAS_AVX512 | HAS_AVX512VNNI | HAS_AMX,
    .gemm_f32 = &gemm_f32_avx512,
    .gemm_fused = &gemm_f32_avx512,
    .gemm_bf16 = &gemm_bf16_amx,
    .tiled_f32 = &tiled_f32_avx512,
    .tiled_bf16 = &tiled_bf16_amx,
    .tiled_i8 = &tiled_i8_amx,
    .tiled_i8_few = &tiled_i8_avx512vnni,
    .few_rows = AMX_FEW_ROWS,
    .rows = &rows_avx512,
    .little = &little_avx512,
    .little_bf16 = 32,
};

const struct isa *const isa_table[] = {&generic,    &avx2, &avx512, &avx512vnni,
                                       &avx512bf16, &amx,  NULL};

static uint64_t xcr0(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static unsigned features(void) {
    unsigned a, b, c, d, has = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    const unsigned more = bit_FMA | bit_F16C, both = (c & more) == more;
    const uint64_t saved = xcr0();
    const int ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6;
    const int amx_saved = (saved & 0x60000) == 0x60000;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    const unsigned avx512_bits = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    /* registers, bf16, int8; compilers disagree on the names */
    const unsigned amx_bits = 1u << 24 | 1u << 22 | 1u << 25;
    const unsigned amx_there = (d & amx_bits) == amx_bits;
    if (ymm && both && (b & bit_AVX2)) has |= HAS_AVX2;
    if (zmm && (b & avx512_bits) == avx512_bits) has |= HAS_AVX512;
    if (zmm && (c & bit_AVX512VNNI)) has |= HAS_AVX512VNNI;

    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && zmm && (a & bit_AVX512BF16))
        has |= HAS_AVX512BF16;
    if (amx_saved && amx_there &&
        syscall(SYS_arch_prctl, REQ_XCOMP_PERM, (unsigned long)XFEATURE_TILE_DATA) == 0)
        has |= HAS_AMX;
    return has;
}

int isa_usable(const struct isa *isa) { return (isa->needs & ~features()) == 0; }

int isa_select(const struct isa **isa, const char *name, struct err *err) {
    const unsigned has = features();
    const int any = !name || strcmp(name, "auto") == 0;
    char list[128] = "";
    *isa = NULL;
    for (const struct isa *const *i = isa_table; *i; i++) {
        if ((*i)->needs & ~has) continue;
        if (any || strcmp((*i)->name, name) == 0) *isa = *i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, " %s", (*i)->name);
    }
    if (*isa) return 0;
    return err_set(err, HEED_EINVAL, "isa: '%s' cannot be used on this machine; these can:%s", name,
                   list);
}
