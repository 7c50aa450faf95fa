/* tile.h — the tiled layout of weights: what it is, making it on the host, and reading it back.
 *
 * A weight may be tiled (F32, BF16 or I8; `w` of linear_fwd and topk, `table` of embed_fwd):
 * the form that products with few rows read in one stream, the same for every instruction set, so
 * that a file can hold it and be mapped. Rows come in tiles of TILE_ROWS, and a tile is a sequence
 * of 64-byte lines: line g holds, row after row, the 4 bytes of depth that are elements
 * [g * e, (g + 1) * e) of that row, where e is 4 / dtype_size. Rows are padded with zeros to a
 * multiple of TILE_ROWS, depth to TILE_LINES lines. I8 stands for w[i,j] = q[i,j] * scale[i] with
 * any int8 q, -128 among them, between f32 activations; sum[i] is the sum of q[i,:]. Both have an
 * entry for every padded row. "Tile" means this layout everywhere in heed, and nothing else.
 *
 * Every function below that packs or unpacks works on the tiles [first, last) of a matrix of
 * tile_count(rows) tiles, each of which it reads and writes alone, so that a caller can spread a
 * large matrix over a pool; the result does not depend on the cut. Nothing is allocated and nothing
 * can fail: shapes are the caller's promise. Memory is host memory, and owned by the caller.
 *
 * Quantising: with a_i = max_j |w_ij|, scale[i] = a_i / 127 and q_ij = rint(w_ij * (127 / a_i)), so
 * the largest weight of a row is 127 steps. A row of zeros (or of numbers so small that 127 / a_i
 * overflows) gets scale 1 and q = 0. A row with a weight that is not finite gets scale NaN and q =
 * 0: products with it are NaN instead of wrong. Padding rows are as rows of zeros. */
#ifndef BACKEND_TILE_H
#define BACKEND_TILE_H

#include "backend/mat.h"

enum { TILE_ROWS = 16, TILE_LINES = 16, TILE_LINE_BYTES = 64 };
enum { TILE_I8_COLS = 65536 }; /* at most, so that integer sums stay below 2^31 */

/* The type of activations, and of vectors, beside tiled matrices of this type. */
static inline enum dtype tile_act_type(enum dtype type) {
    return type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
}

/* Depths of a line, lines of a tile, and bytes of a whole tiled matrix. */
static inline int tiled_depths(enum dtype type) {
    return type == DTYPE_I8 ? 4 : type == DTYPE_BF16 ? 2 : 1;
}
static inline size_t tiled_lines(int cols, enum dtype type) {
    size_t deep = (size_t)TILE_LINES * (size_t)tiled_depths(type);
    return ((size_t)cols + deep - 1) / deep * TILE_LINES;
}
static inline size_t tiled_rows(int rows) {
    return ((size_t)rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
}
static inline size_t tiled_bytes(int rows, int cols, enum dtype type) {
    return tiled_rows(rows) / TILE_ROWS * tiled_lines(cols, type) * TILE_LINE_BYTES;
}

/* Where element (i, j) of a tiled matrix lies, in bytes. */
static inline size_t tiled_at(const struct mat *m, int i, int j) {
    size_t size = dtype_size(m->type), e = (size_t)tiled_depths(m->type);
    size_t line = (size_t)(i / TILE_ROWS) * tiled_lines(m->cols, m->type) + (size_t)j / e;
    return line * TILE_LINE_BYTES + (size_t)(i % TILE_ROWS) * 4 + (size_t)j % e * size;
}

/* Element (i, j) of what a tiled matrix stands for. */
static inline double tile_value(const struct mat *m, int i, int j) {
    const char *at = (const char *)m->data + tiled_at(m, i, j);
    if (m->type == DTYPE_I8) return (double)*(const int8_t *)at * (double)m->scale[i];
    return (double)f32_load(at, m->type, 0);
}

/* The whole tiles that hold the rows [first, last) of a tiled matrix, as a matrix; first is a
 * multiple of TILE_ROWS. */
struct mat tile_slice(const struct mat *m, int first, int last);

static inline int tile_count(int rows) { return (int)(tiled_rows(rows) / TILE_ROWS); }

/* dst (tiled) = src [dst->rows, dst->cols], rows ld elements apart; rounded to BF16, or quantised
 * to I8, where what dst->scale and dst->sum point to is written, too. */
void tile_pack(const struct mat *dst, const float *src, int64_t ld, int first, int last);

/* The largest |w| of n weights; not finite if one of them is not. */
float tile_largest(const float *w, int n);

/* dst (tiled I8) = what is int8 already: q [dst->rows, dst->cols], rows ld elements apart, with
 * these scales [dst->rows], bit for bit; sums are added up. */
void tile_place(const struct mat *dst, const int8_t *q, int64_t ld, const float *scale, int first,
                int last);

/* The reverse: dst [src->rows, src->cols], rows ld elements apart, = what any tiled src stands
 * for. */
void tile_values(float *dst, int64_t ld, const struct mat *src, int first, int last);

#endif
