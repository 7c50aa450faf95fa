/* amx_emulated.c — gemm_amx.c with its six tile operations done in software, so that the kernel, its
 * packing and its tile layout are tested on machines without AMX.
 *
 * The operations follow the architecture's definition: shapes come from the loaded configuration; loads zero
 * what lies beyond a tile's rows and bytes per row; tdpbf16ps sums the even and the odd products of a tile
 * row apart, each by fused multiply-add, adds the two sums, then adds that to the destination; denormal
 * operands and results count as zero. Using tiles without a configuration, or with one whose shapes do
 * not fit together, is a bug as it is a fault on the real thing. */
#define GEMM_TILES_EMULATED
#define GEMM_AMX_KERNEL gemm_bf16_amx_emulated

#include <math.h>
#include <string.h>

#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/isa.h"
#include "base/err.h"

extern const struct gemm_kernel gemm_bf16_amx_emulated;

static _Thread_local struct {
    struct tile_config config; /* palette 0: not configured */
    unsigned char data[8][16][64];
} tiles;

static void tile_configure(const struct tile_config *config) {
    memset(&tiles, 0, sizeof tiles);
    BUG_ON(config->palette != 1 || config->start_row != 0);
    for (int i = 0; i < 8; i++) BUG_ON(config->rows[i] > 16 || config->row_bytes[i] > 64);
    tiles.config = *config;
}

static void tile_release(void) { memset(&tiles, 0, sizeof tiles); }

static void tile_zero(int tile) {
    BUG_ON(tiles.config.palette == 0);
    memset(tiles.data[tile], 0, sizeof tiles.data[tile]);
}

static void tile_load(int tile, const void *base, int64_t stride) {
    tile_zero(tile);
    for (int i = 0; i < tiles.config.rows[tile]; i++)
        memcpy(tiles.data[tile][i], (const char *)base + i * stride, tiles.config.row_bytes[tile]);
}

static void tile_store(int tile, void *base, int64_t stride) {
    BUG_ON(tiles.config.palette == 0);
    for (int i = 0; i < tiles.config.rows[tile]; i++)
        memcpy((char *)base + i * stride, tiles.data[tile][i], tiles.config.row_bytes[tile]);
}

static float flush(float x) { return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x; }

static float half(int tile, int row, int i) {
    uint16_t h;
    memcpy(&h, &tiles.data[tile][row][2 * i], 2);
    return flush(bf16_load(h));
}

/* sum[m][n] += a[m][2k] b[k][2n] + a[m][2k+1] b[k][2n+1], over k */
static void tile_multiply(int sum, int a, int b) {
    const struct tile_config *config = &tiles.config;
    const int pairs = config->row_bytes[a] / 4, cols = config->row_bytes[b] / 4;
    BUG_ON(config->palette == 0 || sum == a || sum == b || a == b);
    BUG_ON(config->rows[sum] != config->rows[a] || config->row_bytes[sum] != config->row_bytes[b]);
    BUG_ON(config->rows[b] != pairs);
    for (int m = 0; m < config->rows[sum]; m++)
        for (int n = 0; n < cols; n++) {
            float even = 0, odd = 0, old;
            for (int k = 0; k < pairs; k++) {
                even = flush(fmaf(half(a, m, 2 * k), half(b, k, 2 * n), even));
                odd = flush(fmaf(half(a, m, 2 * k + 1), half(b, k, 2 * n + 1), odd));
            }
            memcpy(&old, &tiles.data[sum][m][4 * n], 4);
            old = flush(flush(old) + flush(even + odd));
            memcpy(&tiles.data[sum][m][4 * n], &old, 4);
        }
}

#include "backend/cpu/gemm_amx.c"
