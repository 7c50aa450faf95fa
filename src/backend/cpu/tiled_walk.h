/* tiled_walk.h — how a kernel for tiled weights goes over its rectangle; included by the
 * tiled_<isa>.c files.
 *
 * A kernel is a function `block` on a few rows of x and one or more tiles side by side, both
 * constants, with all their sums in registers over the whole depth. Few rows go with many tiles, so
 * that there are always enough chains of sums in flight to fill the multipliers.
 *
 * The walk takes some tiles and passes all rows of x by them before it takes the next, so w is read
 * from memory once. x, at a few hundred KiB (tiled.c sees to it), stays in the core's second-level
 * cache, as do the tiles at hand: a step of depth does 2 * 14 * 2 vector operations' worth of work
 * on 2 lines of w and 14 words of x, so even that cache need only deliver 5 bytes per cycle.
 * Meanwhile the next tiles are asked for, so that they are near when their turn comes.
 *
 * Rows are shared out evenly: 16 rows are twice 8, not 14 and 2, which would leave multipliers
 * idle. */
#ifndef BACKEND_CPU_TILED_WALK_H
#define BACKEND_CPU_TILED_WALK_H

#include "backend/cpu/gemm_store.h"
#include "backend/tile.h"

/* Lines that will be wanted next: with every line it multiplies, a block asks for what is at `at`,
 * in every tile, and moves on by `step`. */
struct tiled_next {
    const char *at;
    int64_t step;
};

/* Rows row .. of the part against tiles tile .. . */
typedef void tiled_block_fn(const struct tiled_part *p, int row, int tile, struct tiled_next next);

/* The blocks of a kernel: f[n - 1] is for n rows, n at most rows_most, and `across` tiles. */
struct tiled_blocks {
    int across, rows_most;
    tiled_block_fn *f[14];
};

/* TILED_BLOCK defines the function of a kernel's inline function `block` for n rows; TILED_ENTRY is
 * its place in the table. The lists are what registers allow. */
#define TILED_BLOCK(block, n, across)                                                              \
    static void block##_##n##_##across(const struct tiled_part *p, int row, int tile,              \
                                       struct tiled_next next) {                                   \
        block(p, row, tile, next, n, across);                                                      \
    }
#define TILED_ENTRY(block, n, across) block##_##n##_##across,
#define TILED_1(X, block, across)     X(block, 1, across)
#define TILED_2(X, block, across)     TILED_1(X, block, across) X(block, 2, across)
#define TILED_3(X, block, across)     TILED_2(X, block, across) X(block, 3, across)
#define TILED_4(X, block, across)     TILED_3(X, block, across) X(block, 4, across)
#define TILED_6(X, block, across)                                                                  \
    TILED_4(X, block, across)                                                                      \
    X(block, 5, across)                                                                            \
    X(block, 6, across)
#define TILED_12(X, block, across)                                                                 \
    TILED_6(X, block, across)                                                                      \
    X(block, 7, across)                                                                            \
    X(block, 8, across)                                                                            \
    X(block, 9, across) X(block, 10, across) X(block, 11, across) X(block, 12, across)
#define TILED_14(X, block, across)                                                                 \
    TILED_12(X, block, across) X(block, 13, across) X(block, 14, across)

/* The table `block_blocks`, widest first, of three lists: of up to r4 rows 4 across, r2 rows 2
 * across, and r1 rows with a single tile; all rows of a product must find a list, so r1 is the
 * largest or equals r2. */
#define TILED_TABLE(block, r4, r2, r1)                                                             \
    TILED_##r4(TILED_BLOCK, block, 4) TILED_##r2(TILED_BLOCK, block, 2)                            \
        TILED_##r1(TILED_BLOCK, block, 1) static const struct tiled_blocks block##_blocks[] = {    \
            {4, r4, {TILED_##r4(TILED_ENTRY, block, 4)}},                                          \
            {2, r2, {TILED_##r2(TILED_ENTRY, block, 2)}},                                          \
            {1, r1, {TILED_##r1(TILED_ENTRY, block, 1)}}};

/* All rows by the tiles from `tile` on, and the number of those tiles. The next tiles are asked for
 * bit by bit: each block of rows sees to its share of their lines. */
GEMM_INLINE int tiled_pass(const struct tiled_part *p, const struct tiled_blocks *b, int rows,
                           int n_block, int tile) {
    const char *next = p->w + (tile + b->across) * p->ldw;
    const int64_t step = (TILE_LINE_BYTES + n_block - 1) / n_block, share = p->lines * step;
    for (int row = 0; row < p->rows; row += rows, next += share) {
        const int left = p->rows - row;
        b->f[(left < rows ? left : rows) - 1](p, row, tile, (struct tiled_next){next, step});
    }
    return b->across;
}

GEMM_INLINE void tiled_walk(const struct tiled_part *p, const struct tiled_blocks *table) {
    const int most = table[2].rows_most, n_block = (p->rows + most - 1) / most;
    const int rows = (p->rows + n_block - 1) / n_block;
    for (int tile = 0; tile < p->tiles;) {
        const struct tiled_blocks *b = table;
        while (rows > b->rows_most || b->across > p->tiles - tile) b++;
        tile += tiled_pass(p, b, rows, n_block, tile);
    }
}

/* Row i of x, three rows to a pointer: the others are at one and two strides from it, which an
 * address can say, so that pointers do not run out of registers. */
#define X_ROW(x, i, ldx) ((x)[(i) / 3] + (i) % 3 * (ldx))

/* Asks for the lines of y that the block will write: stores that had to fetch them would hold up
 * the next block when y is too large for the caches, as scores over a vocabulary are. */
GEMM_INLINE void tiled_expect(const struct tiled_part *p, int row, int tile, const int rows,
                              const int across) {
    const int64_t size = (int64_t)dtype_size(p->to.type);
    const char *y = (const char *)p->to.c + (row * p->to.ldc + tile * TILE_ROWS) * size;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, y += p->to.ldc * size)
#pragma GCC unroll 4
        for (int t = 0; t < across; t++) __builtin_prefetch(y + t * 64, 1, 3);
}

/* Where a block's results go: columns of the tiles from `tile` on. Returns their number. */
GEMM_INLINE int tiled_target(struct gemm_store *to, const struct tiled_part *p, int row, int tile,
                             const int across) {
    const int col = tile * TILE_ROWS, left = p->cols - col;
    *to = p->to;
    to->c = (char *)p->to.c + (row * p->to.ldc + col) * (int64_t)dtype_size(p->to.type);
    if (p->to.bias) to->bias = (const char *)p->to.bias + (size_t)col * dtype_size(p->to.bias_type);
    return left < across * TILE_ROWS ? left : across * TILE_ROWS;
}

#endif
