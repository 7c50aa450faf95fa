/* tile.h — making tiled weights on the host, and reading them back. The form is struct mat's in
 * backend.h.
 *
 * Every function works on the tiles [first, last) of a matrix of tile_count(rows) tiles, each of
 * which it reads and writes alone, so that a caller can spread a large matrix over a pool; the
 * result does not depend on the cut. Nothing is allocated and nothing can fail: shapes are the
 * caller's promise. Memory is host memory, and owned by the caller.
 *
 * Quantising: with a_i = max_j |w_ij|, scale[i] = a_i / 127 and q_ij = rint(w_ij * (127 / a_i)), so
 * the largest weight of a row is 127 steps. A row of zeros (or of numbers so small that 127 / a_i
 * overflows) gets scale 1 and q = 0. A row with a weight that is not finite gets scale NaN and q =
 * 0: products with it are NaN instead of wrong. Padding rows are as rows of zeros. */
#ifndef BACKEND_TILE_H
#define BACKEND_TILE_H

#include "backend/backend.h"

static inline int tile_count(int rows) { return (int)(tiled_rows(rows) / TILE_ROWS); }

/* dst (F32 or BF16, tiled) = src [dst->rows, dst->cols], rows ld elements apart. */
void tile_pack(const struct mat *dst, const float *src, int64_t ld, int first, int last);

/* dst (I8, tiled) = src, quantised. scale and sum have tiled_rows(dst->rows) entries; dst's own
 * pointers to them are not used. */
void tile_quantise(const struct mat *dst, float *scale, int32_t *sum, const float *src, int64_t ld,
                   int first, int last);

/* The reverse: dst [src->rows, src->cols], rows ld elements apart, = what any tiled src stands
 * for. */
void tile_values(float *dst, int64_t ld, const struct mat *src, int first, int last);

#endif
