/* gemm_tiles.h — the AMX operations that the kernels use, under names of our own.
 *
 * The tests define GEMM_TILES_EMULATED and supply the same names in software
 * (tests/amx_emulated.c), so that gemm_amx.c and tiled_amx.c are tested on machines without AMX.
 * Tile numbers must be literals: they are part of the instruction. */
#ifndef BACKEND_CPU_GEMM_TILES_H
#define BACKEND_CPU_GEMM_TILES_H

#include <stdint.h>

/* The 64 bytes ldtilecfg reads: per tile a number of rows (at most 16) and bytes per row (at most
 * 64). */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#ifndef GEMM_TILES_EMULATED

/* Not the compiler's intrinsics: GCC 12's tell the optimiser that ldtilecfg reads eight bytes and
 * that tileloadd reads no memory at all, so the stores that fill a configuration or a panel may
 * vanish. */
#define tile_configure(config)                                                                     \
    __asm__ volatile("ldtilecfg %0" : : "m"(*(const struct tile_config *)(config)))
#define tile_release()  __asm__ volatile("tilerelease")
#define tile_zero(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define tile_load(tile, base, stride)                                                              \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                                            \
                     :                                                                             \
                     : "r"(base), "r"((int64_t)(stride))                                           \
                     : "memory")
#define tile_store(tile, base, stride)                                                             \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)"                                        \
                     :                                                                             \
                     : "r"(base), "r"((int64_t)(stride))                                           \
                     : "memory")
#define tile_multiply(sum, a_tile, b_tile)                                                         \
    __asm__ volatile("tdpbf16ps %%tmm" #b_tile ", %%tmm" #a_tile ", %%tmm" #sum : :)
#define tile_multiply_i8(sum, a_tile, b_tile)                                                      \
    __asm__ volatile("tdpbssd %%tmm" #b_tile ", %%tmm" #a_tile ", %%tmm" #sum : :)

#endif

#endif
