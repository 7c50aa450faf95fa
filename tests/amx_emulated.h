/* amx_emulated.h — AMX's tile operations done in software, so that the kernels, their staging and
 * their tile layout are tested on machines without AMX. Included by amx_emulated.c and
 * amx_emulated_tiled.c, which then include the kernels.
 *
 * The operations follow the architecture's definition: shapes come from the loaded configuration;
 * loads zero what lies beyond a tile's rows and bytes per row; tdpbf16ps sums the even and the odd
 * products of a tile row apart, each by fused multiply-add, adds the two sums, then adds that to
 * the destination; denormal operands and results count as zero; tdpbssd adds products of signed
 * bytes, exactly. Using tiles without a configuration, or with one whose shapes do not fit
 * together, is a bug as it is a fault on the real thing. */
#define GEMM_TILES_EMULATED

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/gemm_tiles.h"
#include "base/err.h"

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

static void tile_check(int sum, int a, int b) {
    const struct tile_config *config = &tiles.config;
    BUG_ON(config->palette == 0 || sum == a || sum == b || a == b);
    BUG_ON(config->rows[sum] != config->rows[a] || config->row_bytes[sum] != config->row_bytes[b]);
    BUG_ON(config->rows[b] != config->row_bytes[a] / 4);
}

/* sum[m][n] += a[m][2k] b[k][2n] + a[m][2k+1] b[k][2n+1], over k */
static void tile_multiply(int sum, int a, int b) {
    const struct tile_config *config = &tiles.config;
    const int pairs = config->row_bytes[a] / 4, cols = config->row_bytes[b] / 4;
    tile_check(sum, a, b);
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

/* sum[m][n] += the four a[m][4k + i] b[k][4n + i], over k */
__attribute__((unused)) static void tile_multiply_i8(int sum, int a, int b) {
    const struct tile_config *config = &tiles.config;
    const int fours = config->row_bytes[a] / 4, cols = config->row_bytes[b] / 4;
    tile_check(sum, a, b);
    for (int m = 0; m < config->rows[sum]; m++)
        for (int n = 0; n < cols; n++) {
            int32_t old;
            memcpy(&old, &tiles.data[sum][m][4 * n], 4);
            for (int k = 0; k < 4 * fours; k++)
                old += (int8_t)tiles.data[a][m][k] * (int8_t)tiles.data[b][k / 4][4 * n + k % 4];
            memcpy(&tiles.data[sum][m][4 * n], &old, 4);
        }
}
