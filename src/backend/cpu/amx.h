/* amx.h — the AMX operations that the kernels use, under names of our own.
 *
 * The tests define AMX_EMULATED and supply the same names in software
 * (tests/amx_emulated.c), so that gemm_amx.c and tiled_amx.c are tested on machines without AMX.
 * Intel calls the registers tiles; here that word means weights (tile.h). Numbers of registers must
 * be literals: they are part of the instruction. */
#ifndef BACKEND_CPU_AMX_H
#define BACKEND_CPU_AMX_H

#include <stdint.h>

/* The 64 bytes ldtilecfg reads: per register a number of rows (at most 16) and bytes per row (at
 * most 64). */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#ifndef AMX_EMULATED

/* Not the compiler's intrinsics: GCC 12's tell the optimiser that ldtilecfg reads eight bytes and
 * that tileloadd reads no memory at all, so the stores that fill a configuration or a panel may
 * vanish. */
#define amx_configure(config)                                                                      \
    __asm__ volatile("ldtilecfg %0" : : "m"(*(const struct amx_config *)(config)))
#define amx_release() __asm__ volatile("tilerelease")
#define amx_zero(reg) __asm__ volatile("tilezero %%tmm" #reg : :)
#define amx_load(reg, base, stride)                                                                \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #reg                                             \
                     :                                                                             \
                     : "r"(base), "r"((int64_t)(stride))                                           \
                     : "memory")
#define amx_store(reg, base, stride)                                                               \
    __asm__ volatile("tilestored %%tmm" #reg ", (%0,%1,1)"                                         \
                     :                                                                             \
                     : "r"(base), "r"((int64_t)(stride))                                           \
                     : "memory")
#define amx_multiply(sum, a, b)                                                                    \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)
#define amx_multiply_i8(sum, a, b)                                                                 \
    __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)

#endif

#endif
