/* gemm_tiles.h — the six AMX operations the bf16 kernel uses, under names of our own.
 *
 * The tests define GEMM_TILES_EMULATED and supply the same names in software (tests/amx_emulated.c), so that
 * gemm_amx.c is tested on machines without AMX. Tile numbers must be literals: they are part of the
 * instruction. */
#ifndef BACKEND_CPU_GEMM_TILES_H
#define BACKEND_CPU_GEMM_TILES_H

#include <stdint.h>

/* The 64 bytes ldtilecfg reads: per tile a number of rows (at most 16) and bytes per row (at most 64). */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#ifndef GEMM_TILES_EMULATED

#include <immintrin.h>

#define tile_configure(config)             _tile_loadconfig(config)
#define tile_release()                     _tile_release()
#define tile_zero(tile)                    _tile_zero(tile)
#define tile_load(tile, base, stride)      _tile_loadd(tile, base, stride)
#define tile_store(tile, base, stride)     _tile_stored(tile, base, stride)
#define tile_multiply(sum, a_tile, b_tile) _tile_dpbf16ps(sum, a_tile, b_tile)

#endif

#endif
