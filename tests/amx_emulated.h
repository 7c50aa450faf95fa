/* amx_emulated.h — AMX's operations done in software, so that the kernels, their staging and
 * their layout are tested on machines without AMX. Included by amx_emulated.c and
 * amx_emulated_tiled.c, which then include the kernels.
 *
 * The operations follow the architecture's definition: shapes come from the loaded configuration;
 * loads zero what lies beyond a register's rows and bytes per row; tdpbf16ps sums the even and the
 * odd products of a row apart, each by fused multiply-add, adds the two sums, then adds that to the
 * destination; denormal operands and results count as zero; tdpbssd adds products of signed bytes,
 * exactly. Using registers without a configuration, or with one whose shapes do not fit together,
 * is a bug as it is a fault on the real thing. */
#define AMX_EMULATED

#include <math.h>
#include <string.h>

#include "backend/cpu/amx.h"
#include "backend/mat.h"
#include "base/err.h"

static _Thread_local struct {
    struct amx_config config; /* palette 0: not configured */
    unsigned char data[8][16][64];
} amx;

static void amx_configure(const struct amx_config *config) {
    memset(&amx, 0, sizeof amx);
    BUG_ON(config->palette != 1 || config->start_row != 0);
    for (int i = 0; i < 8; i++) BUG_ON(config->rows[i] > 16 || config->row_bytes[i] > 64);
    amx.config = *config;
}

static void amx_release(void) { memset(&amx, 0, sizeof amx); }

static void amx_zero(int reg) {
    BUG_ON(amx.config.palette == 0);
    memset(amx.data[reg], 0, sizeof amx.data[reg]);
}

static void amx_load(int reg, const void *base, int64_t stride) {
    amx_zero(reg);
    for (int i = 0; i < amx.config.rows[reg]; i++)
        memcpy(amx.data[reg][i], (const char *)base + i * stride, amx.config.row_bytes[reg]);
}

#define amx_load_stream amx_load

static void amx_store(int reg, void *base, int64_t stride) {
    BUG_ON(amx.config.palette == 0);
    for (int i = 0; i < amx.config.rows[reg]; i++)
        memcpy((char *)base + i * stride, amx.data[reg][i], amx.config.row_bytes[reg]);
}

static float flush(float x) { return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x; }

static float half(int reg, int row, int i) {
    uint16_t h;
    memcpy(&h, &amx.data[reg][row][2 * i], 2);
    return flush(bf16_load(h));
}

static void amx_check(int sum, int a, int b) {
    const struct amx_config *config = &amx.config;
    BUG_ON(config->palette == 0 || sum == a || sum == b || a == b);
    BUG_ON(config->rows[sum] != config->rows[a] || config->row_bytes[sum] != config->row_bytes[b]);
    BUG_ON(config->rows[b] != config->row_bytes[a] / 4);
}

/* sum[m][n] += a[m][2k] b[k][2n] + a[m][2k+1] b[k][2n+1], over k */
static void amx_multiply(int sum, int a, int b) {
    const struct amx_config *config = &amx.config;
    const int pairs = config->row_bytes[a] / 4, cols = config->row_bytes[b] / 4;
    amx_check(sum, a, b);
    for (int m = 0; m < config->rows[sum]; m++)
        for (int n = 0; n < cols; n++) {
            float even = 0, odd = 0, old;
            for (int k = 0; k < pairs; k++) {
                even = flush(fmaf(half(a, m, 2 * k), half(b, k, 2 * n), even));
                odd = flush(fmaf(half(a, m, 2 * k + 1), half(b, k, 2 * n + 1), odd));
            }
            memcpy(&old, &amx.data[sum][m][4 * n], 4);
            old = flush(flush(old) + flush(even + odd));
            memcpy(&amx.data[sum][m][4 * n], &old, 4);
        }
}

/* sum[m][n] += the four a[m][4k + i] b[k][4n + i], over k */
__attribute__((unused)) static void amx_multiply_i8(int sum, int a, int b) {
    const struct amx_config *config = &amx.config;
    const int fours = config->row_bytes[a] / 4, cols = config->row_bytes[b] / 4;
    amx_check(sum, a, b);
    for (int m = 0; m < config->rows[sum]; m++)
        for (int n = 0; n < cols; n++) {
            int32_t old;
            memcpy(&old, &amx.data[sum][m][4 * n], 4);
            for (int k = 0; k < 4 * fours; k++)
                old += (int8_t)amx.data[a][m][k] * (int8_t)amx.data[b][k / 4][4 * n + k % 4];
            memcpy(&amx.data[sum][m][4 * n], &old, 4);
        }
}
