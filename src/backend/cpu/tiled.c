/* tiled.c — staging, cutting and threads for the products of tiled.h.
 *
 * A chunk of rows of x is staged (where a kernel can multiply x as it lies this is skipped), then
 * the chunk's product is cut into tasks: a block of rows, small enough that staged they fill at
 * most half of a core's second-level cache, by a range of tiles. While decoding there is one block
 * of rows, so tasks are ranges of tiles and every thread streams its own part of w.
 *
 * Where every thread has hundreds of rows and w fits in a core's cache beside them, a kernel that
 * can do so stages rows itself, while it multiplies: tasks are then blocks of rows.
 *
 * A sink makes of a task as many parts as it wants pieces: a piece of w's tiles stays in the cache
 * while all rows of the task pass by it, and what they give goes into a buffer of the thread.
 *
 * Waking threads costs about a microsecond, so a product is cut into no more tasks than it has some
 * thousands of vector operations for; the smallest run on the calling thread alone. */
#include "backend/cpu/tiled.h"

#include "backend/tile.h"
#include "base/mem.h"
#include "base/num.h"

enum {
    CHUNK_BYTES = 4 << 20,   /* staged at a time, which bounds the workspace */
    BLOCK_BYTES = 512 << 10, /* of x in a task */
    BLOCK_ROWS = 128,        /* at least, so that w is read seldom however wide x is; */
    OWN_ROWS = 64,           /* but a thread may have as few to itself, */
    OWN_UNIT = 32,           /* in whole patches of the widest kernel */
    ROW_SPARE = 64,          /* bytes behind a staged row, so that rows do not share cache sets */
    TILE_UNIT = 4,           /* ranges of tiles are multiples of what kernels take side by side */
    TASKS_PER_THREAD = 8,    /* at most, so that threads end at about the same time */
    TASK_LINES = 8192,       /* at least: rows x lines of a task, counting 4 rows or more */
    STAGE_ROWS = 8,          /* rows of a task of staging */
    STAGE_ELEMENTS = 16384,  /* to be worth more than one task */
    PASS_ROWS = 256,         /* of a task, at least, that stages its rows itself */
    PASS_BYTES = 1 << 20,    /* of w, at most, then */
    PIECE_TILES = TILED_PIECE_COLS / TILE_ROWS,
};

/* A product under way. */
struct job {
    const struct tiled *t;
    const struct tiled_kernel *kernel;
    char *x; /* of the chunk: staged, or as it lies */
    char *stage;
    int passing; /* tasks stage their rows, each thread in a part of `stage` */
    float *factor;
    char *piece; /* [threads, piece_bytes] for a sink */
    size_t piece_bytes;
    int64_t ldx, ldw;
    int lines, tiles;
    int row0, rows;        /* the chunk */
    int block_rows, range; /* a task's rows and tiles */
    int n_range;
};

/* I8 sums are exact, so that the choice changes no bits. */
const struct tiled_kernel *tiled_kernel_of(const struct isa *isa, enum dtype w_type, int rows) {
    if (w_type == DTYPE_I8 && isa->tiled_i8_few && rows <= isa->few_rows) return isa->tiled_i8_few;
    return w_type == DTYPE_I8     ? isa->tiled_i8
           : w_type == DTYPE_BF16 ? isa->tiled_bf16
                                  : isa->tiled_f32;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Bytes of a staged row: whole lines of w's depth, and the spare. */
static size_t staged_row(const struct tiled_kernel *kernel, const struct mat *w) {
    const size_t depth = tiled_lines(w->cols, w->type) * (size_t)tiled_depths(w->type);
    return depth * (size_t)kernel->stage_bytes + ROW_SPARE;
}

/* Rows staged at a time, a multiple of the block's. */
static int chunk_rows(const struct tiled_kernel *kernel, const struct mat *w) {
    const size_t fit = CHUNK_BYTES / staged_row(kernel, w);
    return max_int((int)fit / BLOCK_ROWS, 1) * BLOCK_ROWS;
}

/* A narrower w has more rows to a chunk, so the size is bounded by bytes, not by this product's
 * chunk. A staged row is 128 bytes at least: its factor is a 32nd of that at most. */
static size_t staging(const struct tiled_kernel *kernel, const struct tiled *t) {
    const size_t row = staged_row(kernel, &t->w);
    const size_t rows = (size_t)ceil_div(t->x.rows, kernel->row_unit) * (size_t)kernel->row_unit;
    const size_t all = size_mul(rows, row), block = (size_t)BLOCK_ROWS * row;
    const size_t stage = min_size(all, max_size(block, CHUNK_BYTES));
    return (stage + stage / 32) / MEM_ALIGN * MEM_ALIGN + 2 * (size_t)MEM_ALIGN;
}

/* What a thread needs to stage rows itself. */
static size_t pass_bytes(const struct tiled_kernel *kernel, const struct mat *w) {
    return (size_t)kernel->row_unit * 2 * (staged_row(kernel, w) + sizeof(float));
}

static int passes(const struct job *j, int n_thread) {
    return j->kernel->pass && !j->t->sink && j->t->x.rows >= PASS_ROWS * n_thread &&
           j->tiles * j->ldw <= PASS_BYTES;
}

/* A thread's buffer for a sink. */
static size_t piece_bytes(const struct tiled *t) {
    const size_t row = TILED_PIECE_COLS * dtype_size(t->y.type);
    return t->sink ? (size_t)min_int(t->x.rows, TILED_PIECE_ROWS) * row : 0;
}

size_t tiled_workspace(const struct cpu_backend *be, const struct tiled *t) {
    const struct tiled_kernel *kernel = tiled_kernel_of(be->isa, t->w.type, t->x.rows);
    const size_t n_thread = (size_t)pool_size(be->pool),
                 pieces = size_mul(piece_bytes(t), n_thread);
    const size_t pass = kernel->pass ? size_mul(pass_bytes(kernel, &t->w), n_thread) : 0;
    return size_add(max_size(staging(kernel, t), pass), pieces);
}

/* A share of n: the smallest multiple of `unit` of which `parts` are enough. */
static int shared_out(int n, int parts, int unit) {
    return ceil_div(ceil_div(n, parts), unit) * unit;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void stage_task(void *ctx, int task, int thread) {
    const struct job *j = ctx;
    (void)thread;
    const int unit = j->kernel->row_unit, padded = ceil_div(j->rows, unit) * unit;
    const int first = task * STAGE_ROWS;
    struct mat x = mat_rows(j->t->x, j->row0, j->rows);
    x.x_scale = j->t->w.x_scale;
    j->kernel->stage(j->stage, j->ldx, j->factor, &x, first, min_int(first + STAGE_ROWS, padded));
}

/* Rows and tiles of the chunk. */
struct range {
    int row, rows, tile, tiles;
};

/* The part of the chunk, whose results go to c. */
static struct tiled_part part_of(const struct job *j, struct range at, void *c, int64_t ldc) {
    const struct tiled *t = j->t;
    const int col = at.tile * TILE_ROWS;
    struct tiled_part p = {
        .x = j->x + at.row * j->ldx,
        .ldx = j->ldx,
        .w = (const char *)t->w.data + at.tile * j->ldw,
        .ldw = j->ldw,
        .lines = j->lines,
        .rows = at.rows,
        .tiles = at.tiles,
        .cols = min_int(at.tiles * TILE_ROWS, t->w.rows - col),
        .to = {.c = c, .ldc = ldc, .type = t->y.type, .bias_type = t->b.type, .relu = t->relu},
    };
    if (!mat_empty(&t->b))
        p.to.bias = (const char *)t->b.data + (size_t)col * dtype_size(t->b.type);
    if (t->w.type == DTYPE_I8) {
        p.factor = j->factor + at.row;
        p.scale = (t->w.x_scale > 0 ? t->w.unit : t->w.scale) + col;
        if (t->w.x_scale > 0) p.zero = t->w.zero + col;
        p.sum = t->w.sum + col;
    }
    return p;
}

static void run_stored(const struct job *j, struct range at, int thread) {
    const struct mat *y = &j->t->y;
    char *c = (char *)mat_row(y, j->row0 + at.row);
    struct tiled_part p =
        part_of(j, at, c + (size_t)at.tile * TILE_ROWS * dtype_size(y->type), y->ld);
    if (!j->passing) {
        j->kernel->run(&p);
        return;
    }
    struct mat x = mat_rows(j->t->x, at.row, at.rows);
    x.x_scale = j->t->w.x_scale;
    p.x = j->stage + (size_t)thread * pass_bytes(j->kernel, &j->t->w);
    p.factor = (float *)(p.x + 2 * j->kernel->row_unit * j->ldx);
    j->kernel->pass(&p, &x);
}

static void run_taken(const struct job *j, struct range all, int thread) {
    const struct tiled_sink *sink = j->t->sink;
    const int n = ceil_div(all.rows, TILED_PIECE_ROWS), unit = j->kernel->row_unit;
    const int rows = shared_out(all.rows, n, unit);
    char *c = j->piece + (size_t)thread * j->piece_bytes;
    for (int tile = 0; tile < all.tiles; tile += PIECE_TILES)
        for (int row = 0; row < all.rows; row += rows) {
            struct range at = {all.row + row, min_int(rows, all.rows - row), all.tile + tile,
                               min_int(PIECE_TILES, all.tiles - tile)};
            struct tiled_part p = part_of(j, at, c, TILED_PIECE_COLS);
            j->kernel->run(&p);
            struct mat piece = mat_of(c, p.rows, p.cols, p.to.type);
            piece.ld = TILED_PIECE_COLS;
            sink->take(sink->ctx, &piece, j->row0 + at.row, at.tile * TILE_ROWS, thread);
        }
}

static void part_task(void *ctx, int task, int thread) {
    const struct job *j = ctx;
    const int tile = task % j->n_range * j->range, row = task / j->n_range * j->block_rows;
    struct range at = {row, min_int(j->block_rows, j->rows - row), tile,
                       min_int(j->range, j->tiles - tile)};
    if (j->kernel->enter) j->kernel->enter();
    if (j->t->sink)
        run_taken(j, at, thread);
    else
        run_stored(j, at, thread);
    if (j->kernel->leave) j->kernel->leave();
}

/* ---- driver ---------------------------------------------------------------------------------- */

static void run_stage(struct cpu_backend *be, struct job *j) {
    const int unit = j->kernel->row_unit, padded = ceil_div(j->rows, unit) * unit;
    const int n_task = ceil_div(padded, STAGE_ROWS);
    if ((int64_t)j->rows * j->t->x.cols >= STAGE_ELEMENTS)
        pool_run(be->pool, stage_task, j, n_task);
    else
        for (int i = 0; i < n_task; i++) stage_task(j, i, 0);
}

/* All rows into blocks, as many for every thread. */
static int cut_rows(struct job *j, int n_thread) {
    const int unit = j->kernel->row_unit, n_block = j->rows / (PASS_ROWS * n_thread) * n_thread;
    j->block_rows = shared_out(j->rows, n_block, unit);
    j->range = j->tiles;
    j->n_range = 1;
    return ceil_div(j->rows, j->block_rows);
}

/* The chunk into tasks. */
static int cut(struct job *j, int n_thread) {
    if (j->passing) return cut_rows(j, n_thread);
    const int fit = (int)(BLOCK_BYTES / j->ldx) / BLOCK_ROWS * BLOCK_ROWS;
    j->block_rows = max_int(fit, BLOCK_ROWS);
    /* Rows that are a thread's own, in this product and the next op, stay in its cache; with
     * columns shared out it would find half of each row in another's. Every thread reads w then,
     * which costs less: int8, 128 rows, two threads, takes a tenth less in all. */
    if (!j->t->sink && j->rows >= OWN_ROWS * n_thread)
        j->block_rows = min_int(j->block_rows, shared_out(j->rows, n_thread, OWN_UNIT));
    const int n_block = ceil_div(j->rows, j->block_rows);
    const int64_t lines = (int64_t)max_int(j->rows, 4) * j->lines * j->tiles;
    const int64_t worth = lines / TASK_LINES;
    const int wanted =
        worth < TASKS_PER_THREAD * n_thread ? (int)worth : TASKS_PER_THREAD * n_thread;
    const int n_range = max_int(ceil_div(wanted, n_block), 1);
    const int unit = j->t->sink ? PIECE_TILES : TILE_UNIT;
    j->range = shared_out(j->tiles, n_range, unit);
    j->n_range = ceil_div(j->tiles, j->range);
    return n_block * j->n_range;
}

/* Where rows are some pages apart, a line of each, as a block of rows reads them, falls into few
 * sets of the first-level cache and they push each other out: 14 rows of 2048 f32 lose an eighth of
 * the speed. Staged rows do not. */
static int lies_well(const struct tiled *t) {
    return t->x.rows <= 4 || t->x.ld * (int64_t)dtype_size(t->x.type) % 4096 != 0;
}

void tiled_run(struct cpu_backend *be, const struct tiled *t, void *workspace) {
    const struct tiled_kernel *kernel = tiled_kernel_of(be->isa, t->w.type, t->x.rows);
    struct job j = {.t = t,
                    .kernel = kernel,
                    .piece = (char *)workspace + staging(kernel, t),
                    .piece_bytes = piece_bytes(t),
                    .ldw = (int64_t)tiled_lines(t->w.cols, t->w.type) * TILE_LINE_BYTES,
                    .lines = ceil_div(t->w.cols, tiled_depths(t->w.type)),
                    .tiles = ceil_div(t->w.rows, TILE_ROWS)};
    j.passing = passes(&j, pool_size(be->pool));
    const int in_place = kernel->in_place && lies_well(t), staged = !j.passing && !in_place;
    const int chunk = staged ? chunk_rows(kernel, &t->w) : t->x.rows;
    const size_t factors = j.passing ? 0 : (size_t)min_int(chunk, t->x.rows) * sizeof(float);
    j.factor = workspace;
    j.stage = (char *)workspace + (factors + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
    j.ldx =
        in_place ? t->x.ld * (int64_t)dtype_size(t->x.type) : (int64_t)staged_row(kernel, &t->w);
    for (j.row0 = 0; j.row0 < t->x.rows; j.row0 += chunk) {
        j.rows = min_int(chunk, t->x.rows - j.row0);
        j.x = staged ? j.stage : (char *)mat_row(&t->x, j.row0);
        if (staged) run_stage(be, &j);
        pool_run(be->pool, part_task, &j, cut(&j, pool_size(be->pool)));
    }
}
