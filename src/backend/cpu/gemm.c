/* gemm.c — blocking, packing and threads for the products of gemm.h.
 *
 * Four nested cuts of the product, outermost first:
 *
 *   chunk   what of B is packed at a time, by all threads and for all: ns columns, ks deep. Sized
 *           to stay in the shared cache, and so that the workspace stays some MiB.
 *           Between chunks of depth the running sums rest in C, or, as they must be f32, for a bf16
 *           C in the workspace; then a chunk has ms rows only.
 *   block   one task of one thread: mc rows of the chunk and all its columns. The thread packs the
 *           rows' part of A for itself, into its own cache, where it stays while B panels pass by.
 *           Nothing that is packed of A ever moves between cores, which may not share a cache.
 *           A product much wider than high goes the other way: all pack A together, and a block
 *           packs some columns of B for itself. Where rows are too few for all threads, all pack
 *           both, and a block has some of the columns.
 *   strip   columns of the block whose sums are under way together: depth advances by kc for a
 *           strip at a time. Where all depths of the block's A stay in the core's cache a strip is
 *           one panel of B, so sums kept are few; otherwise it is BLOCK_COLS, so that kc depths
 *           of A serve many columns.
 *   patch   one call of the kernel: mr x nr sums in registers, kc deep.
 *
 * Threads own disjoint blocks of C; depth is never divided among threads. A chunk is two parallel
 * steps, packing and multiplying. None of the cuts changes the order in which an element of C is
 * summed (gemm.h), so sizes can follow shape and thread count freely.
 *
 * Cost of packing: every element of A is moved once per ns columns of products and every element of
 * B once per M rows, so it shows only when M or N is small; tiled weights (tiled.h) need none. */
#include "backend/cpu/gemm.h"

#include "backend/cpu/gemm_store.h"
#include "base/num.h"

enum {
    /* Chunk: packed B within the shared cache, and what rests of a bf16 C. */
    CHUNK_B_BYTES = 16 << 20,
    CHUNK_DEPTH = 2048, /* a multiple of every kc */
    REST_BYTES = 4 << 20,
    /* Block: rows as the kernel says; less towards the end, but blocks of fewer panels would read
     * all of B for too few sums. Threads pack their own A where there is so much of it for each. */
    LEAST_PANELS = 2,
    OWN_PANELS = 4,
    /* So much of A may wait for blocks that pack their own B. */
    WIDE_A_BYTES = 2 << 20,
    /* Where rows are too few: rows x columns, columns halved until every thread has a few tasks. */
    BLOCK_COLS = 512,
    TASKS_PER_THREAD = 8,
    /* One task of packing: some panels of all depths where depth is contiguous in memory; a range
     * of depths of many panels where panels are side by side, so that whole rows are read in
     * turn. */
    PACK_PANELS = 4,
    PACK_PANELS_ACROSS = 64,
    PACK_DEPTHS_ACROSS = 64, /* a multiple of every k_unit */
    /* Of a product that a kernel runs from end to end: sides of a task, and tasks. */
    RANGE_LEAST = 64,
    RANGES_PER_THREAD = 2,
};

struct plan {
    const struct gemm_kernel *kernel;
    int m_panels, n_panels, k_pad; /* the whole product, in panels and padded depth */
    int ms, ns, ks;                /* chunk: panels of A, panels of B, depth */
    int own, wide;                 /* a block packs its own A; its own B */
    int mc, nc;                    /* block: at most so many panels of A, panels of B */
    int n_thread;
    int strip;                 /* panels of B */
    size_t a_stride, b_stride; /* bytes of a packed panel */
    size_t block_size;         /* bytes of a block's own A or B */
    size_t a_size, b_size, sum_size, rest_size;
};

/* How the packing of a chunk's A or B is cut into tasks. */
struct cut {
    int panels, depths; /* per task */
    int n_depth;        /* tasks along depth */
    int n_task;
};

/* One product under way. */
struct job {
    const struct gemm *g;
    struct plan plan;
    char *a, *b, *rest, *sums; /* workspace */
    int i0, j0, k0;            /* the chunk's origin: panel of A, panel of B, depth */
    int ni, nj;                /* the chunk's size in panels */
    int depth, depth_pad;      /* its depth, and that rounded up to k_unit */
    struct cut a_cut, b_cut;
    int n_block; /* along rows; along columns of a wide product */
};

static size_t round64(size_t size) { return (size + 63) & ~(size_t)63; }

static const struct gemm_kernel *kernel_for(const struct isa *isa, enum dtype a, enum dtype b) {
    return a == DTYPE_BF16 && b == DTYPE_BF16 ? isa->gemm_bf16 : isa->gemm_f32;
}

static size_t panel_size(const struct gemm_kernel *kernel, int width, int depth) {
    return round64((size_t)depth * (size_t)width * dtype_size(kernel->type));
}

/* ---- plan ------------------------------------------------------------------------------------ */

/* Panels to take together: as many as fit in `bytes`, but at least `least`, unless there are
 * fewer. */
static int fit_panels(int total, size_t bytes, size_t panel, int least) {
    const size_t fit = bytes / (panel ? panel : 1);
    const int most = fit > (size_t)total ? total : (int)fit;
    return min_int(total, max_int(most, least));
}

/* At least fit_panels * panel, and never less for a larger total or panel. */
static size_t bound_size(int total, size_t bytes, size_t panel, int least) {
    const size_t all = (size_t)total * panel, some = (size_t)least * panel;
    return min_size(all, max_size(bytes, some));
}

static int even_share(int total, int most) { return ceil_div(total, ceil_div(total, most)); }

/* Rows, or the columns of a wide product, are cut into equal parts, one for each thread, and these
 * into blocks, which shrink towards the end: threads that are done take the last ones of others
 * (pool.h), so that all end at about the same time, whatever disturbs them. */
static int part_count(const struct plan *p) { return p->own || p->wide ? p->n_thread : 1; }

/* Where the block after that from panel i on ends, of a part of n_panels. */
static int next_block(const struct plan *p, int n_panels, int i) {
    const int rest = n_panels - i, most = p->wide ? p->nc : p->mc;
    const int share = part_count(p) == 1 ? rest : ceil_div(rest, 2);
    return i + min_int(rest, min_int(most, max_int(LEAST_PANELS, share)));
}

/* Blocks of every part; those at the ends of smaller parts are empty. */
static int blocks_per_part(const struct plan *p, int n_panels) {
    const int part = ceil_div(n_panels, part_count(p));
    int n = 0;
    for (int i = 0; i < part; i = next_block(p, part, i)) n++;
    return n;
}

/* Whether blocks shall pack their own B; then they have all rows of a chunk that is the product. */
static void plan_wide(struct plan *p, const struct gemm *g) {
    const struct gemm_kernel *kernel = p->kernel;
    const size_t a_size = min_size((size_t)p->m_panels * p->a_stride, WIDE_A_BYTES);
    const size_t own = max_size(kernel->block_bytes, p->b_stride);
    const size_t b_size = min_size((size_t)p->n_panels * p->b_stride, own * (size_t)p->n_thread);
    p->a_size = max_size(p->a_size, a_size);
    p->b_size = max_size(p->b_size, b_size);
    p->wide = g->n > 2 * (int64_t)g->m && p->n_panels >= OWN_PANELS * p->n_thread && p->k_pad > 0 &&
              p->k_pad <= kernel->kc && (size_t)p->m_panels * p->a_stride <= WIDE_A_BYTES;
    if (!p->wide) return;
    p->own = 0;
    p->ms = p->m_panels;
    p->ns = p->n_panels;
    p->nc =
        max_int(1, (int)min_size(own / p->b_stride, b_size / p->b_stride / (size_t)p->n_thread));
    p->block_size = (size_t)p->nc * p->b_stride;
}

/* The chunk's rows and columns into blocks. */
static void plan_blocks(struct plan *p, int nc_most) {
    const int wanted = TASKS_PER_THREAD * p->n_thread, n_row = ceil_div(p->ms, p->mc);
    p->nc = p->own ? p->ns : min_int(nc_most, p->ns);
    if (p->own) return;
    while (p->nc > 2 && n_row * ceil_div(p->ns, p->nc) < wanted) p->nc = (p->nc + 1) / 2;
}

static struct plan plan_make(const struct gemm_kernel *kernel, const struct gemm *g, int n_thread) {
    struct plan p = {.kernel = kernel, .n_thread = n_thread};
    p.m_panels = ceil_div(g->m, kernel->mr);
    p.n_panels = ceil_div(g->n, kernel->nr);
    p.k_pad = ceil_div(g->k, kernel->k_unit) * kernel->k_unit;
    p.ks = min_int(p.k_pad, CHUNK_DEPTH);
    p.a_stride = panel_size(kernel, kernel->mr, p.ks);
    p.b_stride = panel_size(kernel, kernel->nr, p.ks);
    const int few = OWN_PANELS * n_thread;
    const int least = kernel->rows_least / kernel->mr, most = kernel->rows_most / kernel->mr;
    const int mc_most = fit_panels(most, kernel->block_bytes, p.a_stride, least);
    const int nc_most = BLOCK_COLS / kernel->nr;
    const int ns_most = fit_panels(p.n_panels, CHUNK_B_BYTES, p.b_stride, nc_most);
    const int resident = (size_t)mc_most * p.a_stride <= kernel->block_bytes;
    const size_t patch = (size_t)kernel->mr * (size_t)kernel->nr * 4;

    /* What a product needs must not shrink when m, n or k grow: callers ask for their largest one.
     * So sizes come from upper bounds, not from the even shares. Sums are those of one patch, then
     * of one strip of most rows, then of a block of least rows. */
    const int column = min_int(most, p.m_panels);
    const int block = min_int(least, p.m_panels) * min_int(nc_most, p.n_panels);
    p.block_size = (size_t)min_int(most, p.m_panels) * p.a_stride;
    p.a_size =
        max_size(p.block_size * (size_t)n_thread, (size_t)min_int(few, p.m_panels) * p.a_stride);
    p.b_size = bound_size(p.n_panels, CHUNK_B_BYTES, p.b_stride, nc_most);
    p.sum_size = patch * (size_t)(p.ks <= kernel->kc           ? 1
                                  : resident || column > block ? column
                                                               : block);
    p.ms = p.m_panels;
    if (g->c_type != DTYPE_F32 && p.ks < p.k_pad) {
        p.rest_size = bound_size(p.m_panels, REST_BYTES, patch * (size_t)ns_most, few);
        p.ms = fit_panels(p.m_panels, REST_BYTES, patch * (size_t)ns_most, few);
        p.ms = even_share(p.m_panels, p.ms);
    }
    p.ns = even_share(p.n_panels, ns_most);
    p.own = p.ms >= few;
    p.mc = mc_most;
    plan_blocks(&p, nc_most);
    p.strip = resident ? 1 : min_int(nc_most, p.nc);
    plan_wide(&p, g);
    return p;
}

static size_t plan_size(const struct plan *p) {
    return p->a_size + p->b_size + p->rest_size + p->sum_size * (size_t)p->n_thread;
}

/* ---- packing --------------------------------------------------------------------------------- */

static int along_k(const struct gemm_operand *o, int is_b) { return is_b ? o->trans : !o->trans; }

static struct cut cut_make(const struct gemm_operand *from, int is_b, int panels, int depth) {
    struct cut cut = {.panels = PACK_PANELS, .depths = depth, .n_depth = 1};
    if (!along_k(from, is_b)) {
        cut.panels = PACK_PANELS_ACROSS;
        cut.depths = PACK_DEPTHS_ACROSS;
        cut.n_depth = ceil_div(depth, cut.depths);
    }
    cut.n_task = ceil_div(panels, cut.panels) * cut.n_depth;
    return cut;
}

/* `panels` panels of the chunk's A or B from `panel` on, `depths` deep from k on, to where the
 * first of them has its depth 0. */
static void pack_range(const struct job *job, int is_b, char *to, int panel, int panels, int k,
                       int depths) {
    const struct plan *p = &job->plan;
    const struct gemm_kernel *kernel = p->kernel;
    const struct gemm_operand *from = is_b ? &job->g->b : &job->g->a;
    const int width = is_b ? kernel->nr : kernel->mr;
    const int first = ((is_b ? job->j0 : job->i0) + panel) * width; /* row of A, column of B */
    struct gemm_pack pack = {
        .stride = is_b ? p->b_stride : p->a_stride,
        .ld = from->ld,
        .type = from->type,
        .along_k = along_k(from, is_b),
        .n = min_int(panels * width, (is_b ? job->g->n : job->g->m) - first),
        .k = min_int(depths, job->depth - k),
    };
    const int64_t depth = job->k0 + k;
    const int64_t at = pack.along_k ? first * from->ld + depth : depth * from->ld + first;
    pack.src = (const char *)from->data + at * (int64_t)dtype_size(from->type);
    pack.dst = to + (size_t)k * (size_t)width * dtype_size(kernel->type);
    (is_b ? kernel->pack_b : kernel->pack_a)(&pack);
}

static void pack_part(const struct job *job, int is_b, int task) {
    const struct cut *cut = is_b ? &job->b_cut : &job->a_cut;
    const int panel = task / cut->n_depth * cut->panels, k = task % cut->n_depth * cut->depths;
    const int panels = min_int(cut->panels, (is_b ? job->nj : job->ni) - panel);
    char *to = is_b ? job->b + (size_t)panel * job->plan.b_stride
                    : job->a + (size_t)panel * job->plan.a_stride;
    pack_range(job, is_b, to, panel, panels, k, cut->depths);
}

static void pack_task(void *ctx, int task, int thread) {
    (void)thread;
    const struct job *job = ctx;
    const int is_b = task >= job->a_cut.n_task;
    pack_part(job, is_b, is_b ? task - job->a_cut.n_task : task);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

/* Where sums are, at an end of a chunk of depth. */
struct place {
    char *at;
    int64_t ld;
    enum dtype type;
};

static struct place place_c(const struct job *job, int row, int col) {
    const struct gemm *g = job->g;
    return (struct place){(char *)g->c +
                              ((int64_t)row * g->ldc + col) * (int64_t)dtype_size(g->c_type),
                          g->ldc, g->c_type};
}

/* Between chunks. */
static struct place place_rest(const struct job *job, int row, int col) {
    const struct gemm_kernel *kernel = job->plan.kernel;
    if (job->g->c_type == DTYPE_F32) return place_c(job, row, col);
    const int64_t ld = (int64_t)job->plan.ns * kernel->nr;
    const int64_t at = (row - job->i0 * kernel->mr) * ld + col - job->j0 * kernel->nr;
    return (struct place){job->rest + at * 4, ld, DTYPE_F32};
}

/* Lines that will be written when the patch is done: they come while it is multiplied. */
static void expect_patch(struct place to, int rows, int cols) {
    const size_t wide = (size_t)cols * dtype_size(to.type);
    for (int i = 0; i < rows; i++) {
        const char *row = to.at + (size_t)i * (size_t)to.ld * dtype_size(to.type);
        for (size_t j = 0; j < wide; j += 64) __builtin_prefetch(row + j, 1);
        __builtin_prefetch(row + wide - 1, 1);
    }
}

/* One patch, for depths [k, k + kc) of the chunk; a and b are its panels. The first block of depths
 * of all starts from the old C or from zero, the last block of a chunk puts the sums where they
 * rest until the next, the last of all into C with the epilogue. A whole patch that needs none is
 * summed up where it rests, the others in t. */
static void patch_block(const struct job *job, const char *a, const char *b, float *t, int i, int j,
                        int k) {
    const struct gemm *g = job->g;
    const struct gemm_kernel *kernel = job->plan.kernel;
    const size_t size = dtype_size(kernel->type);
    const int kc = min_int(kernel->kc, job->depth_pad - k), ends = k + kc == job->depth_pad;
    const int row = (job->i0 + i) * kernel->mr, col = (job->j0 + j) * kernel->nr;
    const int rows = min_int(kernel->mr, g->m - row), cols = min_int(kernel->nr, g->n - col);
    const int resume = g->add || job->k0 > 0, last = job->k0 + job->depth == g->k;
    const struct place from = job->k0 > 0 ? place_rest(job, row, col) : place_c(job, row, col);
    const struct place to = last ? place_c(job, row, col) : place_rest(job, row, col);
    const int whole = rows == kernel->mr && cols == kernel->nr;
    const int plain = to.type == DTYPE_F32 && !(last && (g->bias || g->relu));

    a += (size_t)k * (size_t)kernel->mr * size;
    b += (size_t)k * (size_t)kernel->nr * size;
    if (ends) expect_patch(to, rows, cols);
    if (kernel->into && whole && plain && (!resume || from.at == to.at)) {
        kernel->into(kc, a, b, (float *)to.at, to.ld, resume || k > 0);
        return;
    }
    if (resume && k == 0) gemm_load_patch(t, kernel->nr, from.at, from.ld, from.type, rows, cols);
    kernel->patch(kc, rows, a, b, t, resume || k > 0);
    if (!ends) return;

    struct gemm_store store = {.c = to.at, .ldc = to.ld, .type = to.type};
    if (last) {
        store.relu = g->relu;
        store.bias_type = g->bias_type;
        if (g->bias) store.bias = (const char *)g->bias + (size_t)col * dtype_size(g->bias_type);
    }
    kernel->store(&store, t, rows, cols);
}

/* Where a block begins and ends. */
struct span {
    int first, end;
};

static struct span span_of(const struct plan *p, int n_panels, int block) {
    const int parts = part_count(p), n = blocks_per_part(p, n_panels);
    const int first = (int)((int64_t)n_panels * (block / n) / parts);
    const int size = (int)((int64_t)n_panels * (block / n + 1) / parts) - first;
    struct span s = {0, 0};
    for (int i = 0; i <= block % n; i++)
        s = (struct span){s.end, next_block(p, ceil_div(n_panels, parts), s.end)};
    return (struct span){first + min_int(s.first, size), first + min_int(s.end, size)};
}

/* Some columns, whose depths are all summed at a time, and all rows: A panels pass by, each staying
 * in the first cache for all columns. */
static void wide_task(void *ctx, int task, int thread) {
    const struct job *job = ctx;
    const struct plan *p = &job->plan;
    const struct gemm_kernel *kernel = p->kernel;
    const struct span at = span_of(p, job->nj, task);
    float *t = (float *)(job->sums + (size_t)thread * p->sum_size);
    char *b = job->b + (size_t)thread * p->block_size;

    if (at.first == at.end) return;
    pack_range(job, 1, b, at.first, at.end - at.first, 0, job->depth);
    if (kernel->enter) kernel->enter();
    for (int i = 0; i < job->ni; i++)
        for (int j = at.first; j < at.end; j++)
            patch_block(job, job->a + (size_t)i * p->a_stride,
                        b + (size_t)(j - at.first) * p->b_stride, t, i, j, 0);
    if (kernel->leave) kernel->leave();
}

static void block_task(void *ctx, int task, int thread) {
    const struct job *job = ctx;
    const struct plan *p = &job->plan;
    const struct gemm_kernel *kernel = p->kernel;
    const struct span at = span_of(p, job->ni, task % job->n_block);
    const int j0 = task / job->n_block * p->nc, j1 = min_int(j0 + p->nc, job->nj);
    const int i0 = at.first, i1 = at.end;
    float *sums = (float *)(job->sums + (size_t)thread * p->sum_size);
    const int patch = kernel->mr * kernel->nr;
    const int keep = p->ks > kernel->kc; /* sums of the whole strip, else of one patch */
    char *a = p->own ? job->a + (size_t)thread * p->block_size : job->a + (size_t)i0 * p->a_stride;

    if (i0 == i1) return;
    if (kernel->enter) kernel->enter();
    for (int strip = j0; strip < j1; strip += p->strip) {
        const int end = min_int(strip + p->strip, j1);
        int k = 0;
        do { /* once also for a depth of zero */
            if (p->own && strip == j0) pack_range(job, 0, a, i0, i1 - i0, k, kernel->kc);
            for (int j = strip; j < end; j++)
                for (int i = i0; i < i1; i++)
                    patch_block(
                        job, a + (size_t)(i - i0) * p->a_stride, job->b + (size_t)j * p->b_stride,
                        sums + (keep ? ((j - strip) * (i1 - i0) + i - i0) * patch : 0), i, j, k);
            k += kernel->kc;
        } while (k < job->depth);
    }
    if (kernel->leave) kernel->leave();
}

/* ---- kernels that run a rectangle from end to end -------------------------------------------- */

struct range_job {
    const struct gemm *g;
    const struct gemm_kernel *kernel;
    char *workspace;
    size_t size;           /* per thread */
    int rows, cols, n_row; /* of a task; tasks along rows */
};

static void range_task(void *ctx, int task, int thread) {
    const struct range_job *j = ctx;
    const int row = task % j->n_row * j->rows, col = task / j->n_row * j->cols;
    const struct gemm_range at = {row, min_int(j->rows, j->g->m - row), col,
                                  min_int(j->cols, j->g->n - col)};
    j->kernel->run(j->g, at, j->workspace + (size_t)thread * j->size);
}

static size_t range_size(const struct gemm_kernel *kernel, const struct gemm *g) {
    return round64(kernel->workspace(g->m, g->n, g->k));
}

/* A side of n in equal shares that are multiples of the kernel's patch. */
static int range_side(int n, int shares, int unit) {
    return ceil_div(ceil_div(n, shares), unit) * unit;
}

/* Sides are halved until every thread has its tasks: a task reads rows + columns of operands for
 * rows x columns of products. What it packs, columns or rows, is packed once more for every cut
 * through the other side, which must therefore be twice as long to be cut. */
static void run_ranges(struct pool *pool, const struct gemm_kernel *kernel, const struct gemm *g,
                       void *workspace) {
    struct range_job j = {.g = g, .kernel = kernel, .workspace = workspace};
    const int wanted = pool && pool_size(pool) > 1 ? RANGES_PER_THREAD * pool_size(pool) : 1;
    const int packs_rows = kernel->packs_rows && kernel->packs_rows(g);
    int across = 1;
    j.n_row = 1;
    j.size = range_size(kernel, g);
    while (j.n_row * across < wanted) {
        const int rows = g->m / j.n_row, cols = g->n / across;
        if (max_int(rows, cols) < 2 * RANGE_LEAST) break;
        const int cut_rows = packs_rows ? cols < 2 * rows : rows >= 2 * cols;
        *(cut_rows ? &j.n_row : &across) *= 2;
    }
    j.rows = range_side(g->m, j.n_row, kernel->mr);
    j.cols = range_side(g->n, across, kernel->nr);
    j.n_row = ceil_div(g->m, j.rows);
    const int n_task = j.n_row * ceil_div(g->n, j.cols);
    if (pool)
        pool_run(pool, range_task, &j, n_task);
    else
        for (int i = 0; i < n_task; i++) range_task(&j, i, 0);
}

/* ---- driver ---------------------------------------------------------------------------------- */

static void run_tasks(struct pool *pool, pool_fn *fn, struct job *job, int n_task) {
    if (pool)
        pool_run(pool, fn, job, n_task);
    else
        for (int i = 0; i < n_task; i++) fn(job, i, 0);
}

static void run_chunk(struct pool *pool, struct job *job, int pack_b) {
    const struct plan *p = &job->plan;
    job->a_cut = job->b_cut = (struct cut){0};
    if (!p->own) job->a_cut = cut_make(&job->g->a, 0, job->ni, job->depth);
    if (pack_b && !p->wide) job->b_cut = cut_make(&job->g->b, 1, job->nj, job->depth);
    run_tasks(pool, pack_task, job, job->a_cut.n_task + job->b_cut.n_task);
    job->n_block = part_count(p) * blocks_per_part(p, p->wide ? job->nj : job->ni);
    if (p->wide)
        run_tasks(pool, wide_task, job, job->n_block);
    else
        run_tasks(pool, block_task, job, job->n_block * ceil_div(job->nj, p->nc));
}

static void run(struct pool *pool, const struct isa *isa, const struct gemm *g, void *workspace) {
    if (g->m <= 0 || g->n <= 0) return;
    const struct gemm_kernel *kernel = kernel_for(isa, g->a.type, g->b.type);
    if (!pool && kernel == isa->gemm_f32) kernel = isa->gemm_fused;
    if (kernel->run) {
        run_ranges(pool, kernel, g, workspace);
        return;
    }
    struct job job = {.g = g};
    job.plan = plan_make(kernel, g, pool ? pool_size(pool) : 1);
    const struct plan *p = &job.plan;
    job.a = workspace;
    job.b = job.a + p->a_size;
    job.rest = job.b + p->b_size;
    job.sums = job.rest + p->rest_size;

    for (job.j0 = 0; job.j0 < p->n_panels; job.j0 += p->ns)
        for (job.i0 = 0; job.i0 < p->m_panels; job.i0 += p->ms) {
            job.nj = min_int(p->ns, p->n_panels - job.j0);
            job.ni = min_int(p->ms, p->m_panels - job.i0);
            job.k0 = 0;
            do { /* once also for a depth of zero */
                job.depth = min_int(p->ks, g->k - job.k0);
                job.depth_pad = ceil_div(job.depth, kernel->k_unit) * kernel->k_unit;
                run_chunk(pool, &job, job.i0 == 0 || p->ks < p->k_pad);
                job.k0 += p->ks;
            } while (job.k0 < g->k);
        }
}

static size_t workspace_size(const struct gemm_kernel *kernel, const struct gemm *g, int n_thread) {
    if (kernel->run) return range_size(kernel, g) * (size_t)n_thread;
    const struct plan p = plan_make(kernel, g, n_thread);
    return plan_size(&p);
}

size_t gemm_workspace(const struct cpu_backend *be, const struct gemm *g) {
    if (g->m <= 0 || g->n <= 0) return 0;
    return workspace_size(kernel_for(be->isa, g->a.type, g->b.type), g, pool_size(be->pool));
}

void gemm_run(struct cpu_backend *be, const struct gemm *g, void *workspace) {
    run(be->pool, be->isa, g, workspace);
}

size_t gemm_serial_workspace(const struct isa *isa, int m, int n, int k) {
    const struct gemm_kernel *kernel[2] = {isa->gemm_f32, isa->gemm_bf16};
    size_t most = 0;
    if (m <= 0 || n <= 0) return 0;
    for (int i = 0; i < 4; i++) {
        struct gemm g = {.m = m, .n = n, .k = k, .c_type = i & 1 ? DTYPE_BF16 : DTYPE_F32};
        most = max_size(most, workspace_size(kernel[i / 2], &g, 1));
    }
    return most;
}

void gemm_serial(const struct isa *isa, const struct gemm *g, void *workspace) {
    run(NULL, isa, g, workspace);
}
