/* tile.c — making tiled weights and reading them back: see tile.h.
 *
 * A matrix is moved in squares of 16 rows x 16 words of 4 bytes, that is 16 lines of a tile, which
 * begin as 16 cache lines of f32 (or as the quantised or rounded words made of them) and end as 16
 * lines: both sides are touched while in the first-level cache. Loops are plain C that any x86-64
 * compiler vectorises; a model of 60 M parameters is packed once per start or conversion, at the
 * speed of memory or nearly so. */
#include "backend/tile.h"
#include "base/err.h"
#include "base/num.h"

#include <math.h>
#include <string.h>

enum { WORDS = TILE_LINES }; /* of a row in a square */

union bits {
    float f;
    uint32_t u;
};

static size_t tile_size(const struct mat *m) {
    return tiled_lines(m->cols, m->type) * TILE_LINE_BYTES;
}

/* line[g][i] = square[i][g]. */
static void transpose_square(uint32_t *restrict line, uint32_t square[restrict][WORDS]) {
    for (int g = 0; g < WORDS; g++)
        for (int i = 0; i < TILE_ROWS; i++) line[g * TILE_ROWS + i] = square[i][g];
}

struct mat tile_slice(const struct mat *m, int first, int last) {
    BUG_ON(!m->tiled || m->type == DTYPE_F64);
    BUG_ON(first % TILE_ROWS || first < 0 || last > m->rows || last <= first);
    struct mat part = *m;
    part.data = (char *)m->data + tiled_at(m, first, 0);
    part.rows = last - first;
    if (m->scale) part.scale = m->scale + first;
    if (m->sum) part.sum = m->sum + first;
    if (m->unit) part.unit = m->unit + first;
    if (m->zero) part.zero = m->zero + first;
    return part;
}

/* ---- to tiles -------------------------------------------------------------------------------- */

static void round_words(uint32_t *restrict word, const float *restrict src, int n) {
    uint16_t half[WORDS * 2] = {0};
    for (int j = 0; j < n; j++) half[j] = bf16_store(src[j]);
    memcpy(word, half, sizeof half);
}

/* rint for |x| < 2^22, in the rounding mode every program starts with: to nearest, ties to even.
 * The sum's last bits hold the integer. */
static int8_t round_small(float x) {
    const union bits sum = {.f = x + 12582912.0f};
    return (int8_t)sum.u;
}

static void quantise_words(uint32_t *restrict word, const float *restrict src, int n, float factor,
                           int32_t *sum) {
    int8_t q[WORDS * 4] = {0};
    int32_t s = 0;
    if (factor == 0) n = 0; /* src may hold what is no number */
    for (int j = 0; j < n; j++) q[j] = round_small(src[j] * factor);
    for (int j = 0; j < n; j++) s += q[j];
    *sum += s;
    memcpy(word, q, sizeof q);
}

/* One tile of dst. factor and sum are per row, of I8 only. */
static void pack_tile(const struct mat *dst, int tile, const float *src, int64_t ld,
                      const float *factor, int32_t *sum) {
    uint32_t square[TILE_ROWS][WORDS] = {0};
    const int deep = WORDS * tiled_depths(dst->type);
    const int rows = min_int(TILE_ROWS, dst->rows - tile * TILE_ROWS);
    char *line = (char *)dst->data + (size_t)tile * tile_size(dst);
    src += (int64_t)tile * TILE_ROWS * ld;
    for (int j = 0; j < dst->cols; j += deep, line += (size_t)TILE_LINES * TILE_LINE_BYTES) {
        const int n = min_int(deep, dst->cols - j);
        for (int i = 0; i < rows; i++) {
            const float *from = src + i * ld + j;
            if (dst->type == DTYPE_I8) {
                quantise_words(square[i], from, n, factor[i], &sum[i]);
            } else if (dst->type == DTYPE_BF16) {
                round_words(square[i], from, n);
            } else {
                memcpy(square[i], from, (size_t)n * 4);
                memset(square[i] + n, 0, (size_t)(WORDS - n) * 4);
            }
        }
        transpose_square((uint32_t *)line, square);
    }
}

/* As integers, the bits of absolute values order as they do, infinity above all numbers and NaN
 * above infinity. */
float tile_largest(const float *row, int n) {
    int32_t most = 0;
    for (int j = 0; j < n; j++) {
        const union bits x = {.f = row[j]};
        const int32_t size = (int32_t)(x.u & 0x7fffffffu);
        most = size > most ? size : most;
    }
    return (union bits){.u = (uint32_t)most}.f;
}

/* Scales of the rows of an I8 tile, and what their weights are multiplied by. */
static void scale_rows(const struct mat *dst, int tile, const float *src, int64_t ld,
                       float factor[TILE_ROWS]) {
    float *scale = (float *)(uintptr_t)dst->scale;
    for (int i = 0; i < TILE_ROWS; i++) {
        const int row = tile * TILE_ROWS + i;
        const float most = row < dst->rows ? tile_largest(src + row * ld, dst->cols) : 0;
        const float inverse = 127 / most;
        const int usable = isfinite(most) && isfinite(inverse);
        scale[row] = usable ? most / 127 : isfinite(most) ? 1 : NAN;
        factor[i] = usable ? inverse : 0;
    }
}

void tile_pack(const struct mat *dst, const float *src, int64_t ld, int first, int last) {
    for (int t = first; t < last; t++) {
        float factor[TILE_ROWS] = {0};
        int32_t sum[TILE_ROWS] = {0};
        if (dst->type == DTYPE_I8) scale_rows(dst, t, src, ld, factor);
        pack_tile(dst, t, src, ld, factor, sum);
        if (dst->type == DTYPE_I8)
            memcpy((int32_t *)(uintptr_t)dst->sum + (ptrdiff_t)t * TILE_ROWS, sum, sizeof sum);
    }
}

/* Tile t of I8, whose sums and scales follow. */
static void place_tile(const struct mat *dst, int tile, const int8_t *q, int64_t ld,
                       int32_t sum[TILE_ROWS]) {
    uint32_t square[TILE_ROWS][WORDS] = {0};
    const int deep = WORDS * tiled_depths(DTYPE_I8);
    const int rows = min_int(TILE_ROWS, dst->rows - tile * TILE_ROWS);
    char *line = (char *)dst->data + (size_t)tile * tile_size(dst);
    q += (int64_t)tile * TILE_ROWS * ld;
    for (int j = 0; j < dst->cols; j += deep, line += (size_t)TILE_LINES * TILE_LINE_BYTES) {
        const int n = min_int(deep, dst->cols - j);
        for (int i = 0; i < rows; i++) {
            const int8_t *from = q + i * ld + j;
            int32_t s = 0;
            for (int k = 0; k < n; k++) s += from[k];
            sum[i] += s;
            memcpy(square[i], from, (size_t)n);
            memset((char *)square[i] + n, 0, (size_t)(deep - n));
        }
        transpose_square((uint32_t *)line, square);
    }
}

void tile_place(const struct mat *dst, const int8_t *q, int64_t ld, const float *scale, int first,
                int last) {
    float *to = (float *)(uintptr_t)dst->scale;
    for (int t = first; t < last; t++) {
        int32_t sum[TILE_ROWS] = {0};
        place_tile(dst, t, q, ld, sum);
        memcpy((int32_t *)(uintptr_t)dst->sum + (ptrdiff_t)t * TILE_ROWS, sum, sizeof sum);
        for (int row = t * TILE_ROWS; row < (t + 1) * TILE_ROWS; row++)
            to[row] = row < dst->rows ? scale[row] : 1;
    }
}

/* ---- and back -------------------------------------------------------------------------------- */

static void word_values(float *dst, const uint32_t *word, int n, enum dtype type, float scale) {
    if (type == DTYPE_F32) {
        memcpy(dst, word, (size_t)n * 4);
    } else if (type == DTYPE_BF16) {
        uint16_t half[WORDS * 2];
        memcpy(half, word, sizeof half);
        for (int j = 0; j < n; j++) dst[j] = bf16_load(half[j]);
    } else {
        int8_t q[WORDS * 4];
        memcpy(q, word, sizeof q);
        for (int j = 0; j < n; j++) dst[j] = (float)q[j] * scale;
    }
}

void tile_values(float *dst, int64_t ld, const struct mat *src, int first, int last) {
    const int deep = WORDS * tiled_depths(src->type);
    for (int t = first; t < last; t++) {
        const char *line = (const char *)src->data + (size_t)t * tile_size(src);
        const int rows = min_int(TILE_ROWS, src->rows - t * TILE_ROWS);
        for (int j = 0; j < src->cols; j += deep, line += (size_t)TILE_LINES * TILE_LINE_BYTES) {
            uint32_t square[TILE_ROWS][WORDS];
            transpose_square(square[0], (uint32_t(*)[WORDS])(uintptr_t)line);
            for (int i = 0; i < rows; i++) {
                const int row = t * TILE_ROWS + i;
                word_values(dst + row * ld + j, square[i], min_int(deep, src->cols - j), src->type,
                            src->type == DTYPE_I8 ? src->scale[row] : 0);
            }
        }
    }
}
