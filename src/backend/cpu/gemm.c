/* gemm.c — blocking, packing and threads for the products of gemm.h.
 *
 * Four nested cuts of the product, outermost first:
 *
 *   chunk   what is packed at a time: ms rows of A and ns columns of B, ks deep. Sized so that
 *           packed A and B stay in the shared cache and the workspace stays some MiB whatever the
 *           shape. Between chunks of depth the running sums rest in C, which therefore must be f32;
 *           for a bf16 C a chunk is as deep as K.
 *   block   one task of one thread: mc rows x nc columns of the chunk. Its part of A and its sums
 *           stay in the core's own cache while B panels pass by.
 *   strip   columns of the block whose sums are under way together: depth advances by kc for a
 *           strip at a time. Where all depths of the block's A stay in the core's cache a strip is
 *           one panel of B, so sums kept are few; otherwise it is the block, so that kc depths of A
 *           serve all columns.
 *   patch   one call of the kernel: mr x nr sums in registers, kc deep.
 *
 * Threads share packed panels and own disjoint blocks of C; depth is never divided among threads. A
 * chunk is two parallel steps, packing and multiplying. None of the cuts changes the order in which
 * an element of C is summed (gemm.h), so sizes can follow shape and thread count freely.
 *
 * Cost of packing: every element of A is moved once per N columns of products and every element of
 * B once per M rows, so it shows only when M or N is small; tiled weights (tiled.h) need none. */
#include "backend/cpu/gemm.h"

#include <string.h>

#include "base/num.h"

enum {
    /* Chunk: packed A and B within the shared cache. */
    CHUNK_A_BYTES = 4 << 20,
    CHUNK_B_BYTES = 16 << 20,
    CHUNK_DEPTH = 2048, /* a multiple of every kc */
    /* Block: rows as the kernel says. The longer side is halved until every thread has a few tasks,
     * so that threads end at about the same time. */
    BLOCK_COLS = 512,
    TASKS_PER_THREAD = 8,
    /* One task of packing: some panels of all depths where depth is contiguous in memory; a range
     * of depths of many panels where panels are side by side, so that whole rows are read in
     * turn. */
    PACK_PANELS = 4,
    PACK_PANELS_ACROSS = 64,
    PACK_DEPTHS_ACROSS = 64, /* a multiple of every k_unit */
};

struct plan {
    const struct gemm_kernel *kernel;
    int m_panels, n_panels, k_pad; /* the whole product, in panels and padded depth */
    int ms, ns, ks;                /* chunk: panels of A, panels of B, depth */
    int mc, nc;                    /* block: panels of A, panels of B */
    int strip;                     /* panels of B */
    size_t a_stride, b_stride;     /* bytes of a packed panel */
    size_t a_size, b_size, sum_size;
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
    char *a, *b, *sums;   /* workspace */
    int i0, j0, k0;       /* the chunk's origin: panel of A, panel of B, depth */
    int ni, nj;           /* the chunk's size in panels */
    int depth, depth_pad; /* its depth, and that rounded up to k_unit */
    struct cut a_cut, b_cut;
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

/* The chunk's rows and columns into blocks. */
static void plan_blocks(struct plan *p, int mc_least, int mc_most, int nc_most, int n_thread) {
    p->mc = even_share(p->ms, mc_most);
    p->nc = min_int(nc_most, p->ns);
    while (ceil_div(p->ms, p->mc) * ceil_div(p->ns, p->nc) < TASKS_PER_THREAD * n_thread) {
        const int rows = p->mc * p->kernel->mr, cols = p->nc * p->kernel->nr;
        if (p->mc > mc_least && (rows > cols || p->nc <= 2))
            p->mc = (p->mc + 1) / 2;
        else if (p->nc > 2)
            p->nc = (p->nc + 1) / 2;
        else
            break;
    }
}

static struct plan plan_make(const struct gemm_kernel *kernel, const struct gemm *g, int n_thread) {
    struct plan p = {.kernel = kernel};
    p.m_panels = ceil_div(g->m, kernel->mr);
    p.n_panels = ceil_div(g->n, kernel->nr);
    p.k_pad = ceil_div(g->k, kernel->k_unit) * kernel->k_unit;
    p.ks = g->c_type == DTYPE_F32 ? min_int(p.k_pad, CHUNK_DEPTH) : p.k_pad;
    p.a_stride = panel_size(kernel, kernel->mr, p.ks);
    p.b_stride = panel_size(kernel, kernel->nr, p.ks);
    const int least = kernel->rows_least / kernel->mr, most = kernel->rows_most / kernel->mr;
    const int mc_most = fit_panels(most, kernel->block_bytes, p.a_stride, least);
    const int nc_most = BLOCK_COLS / kernel->nr;
    const int ms_most = fit_panels(p.m_panels, CHUNK_A_BYTES, p.a_stride, least);
    const int ns_most = fit_panels(p.n_panels, CHUNK_B_BYTES, p.b_stride, nc_most);
    const int resident = (size_t)mc_most * p.a_stride <= kernel->block_bytes;

    /* What a product needs must not shrink when m, n or k grow: callers ask for their largest one.
     * So sizes come from upper bounds, not from the even shares. Sums are those of one patch, then
     * of one strip of most rows, then of a block of least rows. */
    const size_t patch = (size_t)kernel->mr * (size_t)kernel->nr * 4;
    const int column = min_int(most, p.m_panels);
    const int block = min_int(least, p.m_panels) * min_int(nc_most, p.n_panels);
    p.a_size = bound_size(p.m_panels, CHUNK_A_BYTES, p.a_stride, least);
    p.b_size = bound_size(p.n_panels, CHUNK_B_BYTES, p.b_stride, nc_most);
    p.sum_size = patch * (size_t)(p.ks <= kernel->kc           ? 1
                                  : resident || column > block ? column
                                                               : block);

    p.ms = even_share(p.m_panels, ms_most);
    p.ns = even_share(p.n_panels, ns_most);
    plan_blocks(&p, least, mc_most, nc_most, n_thread);
    p.strip = resident ? 1 : p.nc;
    return p;
}

static size_t plan_size(const struct plan *p, int n_thread) {
    return p->a_size + p->b_size + p->sum_size * (size_t)n_thread;
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

static void pack_part(const struct job *job, int is_b, int task) {
    const struct plan *p = &job->plan;
    const struct gemm_kernel *kernel = p->kernel;
    const struct gemm_operand *from = is_b ? &job->g->b : &job->g->a;
    const struct cut *cut = is_b ? &job->b_cut : &job->a_cut;
    const int width = is_b ? kernel->nr : kernel->mr;
    const int panel = task / cut->n_depth * cut->panels, k = task % cut->n_depth * cut->depths;
    const int panels = min_int(cut->panels, (is_b ? job->nj : job->ni) - panel);
    const int first = ((is_b ? job->j0 : job->i0) + panel) * width; /* row of A, column of B */
    struct gemm_pack pack = {
        .stride = is_b ? p->b_stride : p->a_stride,
        .ld = from->ld,
        .type = from->type,
        .along_k = along_k(from, is_b),
        .n = min_int(panels * width, (is_b ? job->g->n : job->g->m) - first),
        .k = min_int(cut->depths, job->depth - k),
    };
    const int64_t depth = job->k0 + k;
    const int64_t at = pack.along_k ? first * from->ld + depth : depth * from->ld + first;
    pack.src = (const char *)from->data + at * (int64_t)dtype_size(from->type);
    pack.dst = (is_b ? job->b : job->a) + (size_t)panel * pack.stride +
               (size_t)k * (size_t)width * dtype_size(kernel->type);
    (is_b ? kernel->pack_b : kernel->pack_a)(&pack);
}

static void pack_task(void *ctx, int task, int thread) {
    (void)thread;
    const struct job *job = ctx;
    const int is_b = task >= job->a_cut.n_task;
    pack_part(job, is_b, is_b ? task - job->a_cut.n_task : task);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

static void load_patch(float *t, const struct gemm *g, const char *c, int rows, int cols, int nr) {
    for (int i = 0; i < rows; i++, t += nr) {
        const char *row = c + (size_t)i * (size_t)g->ldc * dtype_size(g->c_type);
        if (g->c_type == DTYPE_F32)
            memcpy(t, row, (size_t)cols * 4);
        else
            for (int j = 0; j < cols; j++) t[j] = bf16_load(((const uint16_t *)row)[j]);
        for (int j = cols; j < nr; j++) t[j] = 0;
    }
}

/* One patch, for depths [k, k + kc) of the chunk. The first block of depths of all starts from the
 * old C or from zero, the last block of a chunk puts the sums into C, the last of all with the
 * epilogue. */
static void patch_block(const struct job *job, float *t, int i, int j, int k) {
    const struct gemm *g = job->g;
    const struct plan *p = &job->plan;
    const struct gemm_kernel *kernel = p->kernel;
    const size_t size = dtype_size(kernel->type);
    const int depth = job->depth_pad;
    const int kc = min_int(kernel->kc, depth - k);
    const int row = (job->i0 + i) * kernel->mr, col = (job->j0 + j) * kernel->nr;
    const int rows = min_int(kernel->mr, g->m - row), cols = min_int(kernel->nr, g->n - col);
    char *c = (char *)g->c + ((int64_t)row * g->ldc + col) * (int64_t)dtype_size(g->c_type);

    const int resume = g->add || job->k0 > 0;
    if (resume && k == 0) load_patch(t, g, c, rows, cols, kernel->nr);
    kernel->patch(kc, rows,
                  job->a + (size_t)i * p->a_stride + (size_t)k * (size_t)kernel->mr * size,
                  job->b + (size_t)j * p->b_stride + (size_t)k * (size_t)kernel->nr * size, t,
                  resume || k > 0);
    if (k + kc < depth) return;

    struct gemm_store to = {.c = c, .ldc = g->ldc, .type = g->c_type};
    if (job->k0 + job->depth == g->k) {
        to.relu = g->relu;
        to.bias_type = g->bias_type;
        if (g->bias) to.bias = (const char *)g->bias + (size_t)col * dtype_size(g->bias_type);
    }
    kernel->store(&to, t, rows, cols);
}

static void block_task(void *ctx, int task, int thread) {
    const struct job *job = ctx;
    const struct plan *p = &job->plan;
    const struct gemm_kernel *kernel = p->kernel;
    const int m_blocks = ceil_div(job->ni, p->mc);
    const int i0 = task % m_blocks * p->mc, i1 = min_int(i0 + p->mc, job->ni);
    const int j0 = task / m_blocks * p->nc, j1 = min_int(j0 + p->nc, job->nj);
    float *sums = (float *)(job->sums + (size_t)thread * p->sum_size);
    const int patch = kernel->mr * kernel->nr;
    const int keep = p->ks > kernel->kc; /* sums of the whole strip, else of one patch */

    if (kernel->enter) kernel->enter();
    for (int strip = j0; strip < j1; strip += p->strip) {
        const int end = min_int(strip + p->strip, j1);
        int k = 0;
        do { /* once also for a depth of zero */
            for (int j = strip; j < end; j++)
                for (int i = i0; i < i1; i++)
                    patch_block(job, sums + (keep ? ((j - strip) * p->mc + i - i0) * patch : 0), i,
                                j, k);
            k += kernel->kc;
        } while (k < job->depth);
    }
    if (kernel->leave) kernel->leave();
}

/* ---- driver ---------------------------------------------------------------------------------- */

static void run_tasks(struct pool *pool, pool_fn *fn, struct job *job, int n_task) {
    if (pool)
        pool_run(pool, fn, job, n_task);
    else
        for (int i = 0; i < n_task; i++) fn(job, i, 0);
}

static void run_chunk(struct pool *pool, struct job *job) {
    const struct plan *p = &job->plan;
    job->a_cut = cut_make(&job->g->a, 0, job->ni, job->depth);
    job->b_cut = (struct cut){0};
    if (job->i0 == 0) job->b_cut = cut_make(&job->g->b, 1, job->nj, job->depth);
    run_tasks(pool, pack_task, job, job->a_cut.n_task + job->b_cut.n_task);
    run_tasks(pool, block_task, job, ceil_div(job->ni, p->mc) * ceil_div(job->nj, p->nc));
}

static void run(struct pool *pool, const struct isa *isa, const struct gemm *g, void *workspace) {
    if (g->m <= 0 || g->n <= 0) return;
    const struct gemm_kernel *kernel = kernel_for(isa, g->a.type, g->b.type);
    if (!pool && kernel == isa->gemm_f32) kernel = isa->gemm_fused;
    struct job job = {.g = g};
    job.plan = plan_make(kernel, g, pool ? pool_size(pool) : 1);
    const struct plan *p = &job.plan;
    job.a = workspace;
    job.b = job.a + p->a_size;
    job.sums = job.a + p->a_size + p->b_size;

    for (job.j0 = 0; job.j0 < p->n_panels; job.j0 += p->ns) {
        job.nj = min_int(p->ns, p->n_panels - job.j0);
        job.k0 = 0;
        do { /* once also for a depth of zero */
            job.depth = min_int(p->ks, g->k - job.k0);
            job.depth_pad = ceil_div(job.depth, kernel->k_unit) * kernel->k_unit;
            for (job.i0 = 0; job.i0 < p->m_panels; job.i0 += p->ms) {
                job.ni = min_int(p->ms, p->m_panels - job.i0);
                run_chunk(pool, &job);
            }
            job.k0 += p->ks;
        } while (job.k0 < g->k);
    }
}

static size_t workspace_size(const struct gemm_kernel *kernel, const struct gemm *g, int n_thread) {
    const struct plan p = plan_make(kernel, g, n_thread);
    return plan_size(&p, n_thread);
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
