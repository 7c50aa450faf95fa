/* embed.cu — token embedding plus position, and its reverse.        PAPER: 3.4 and 3.5.
 *
 * Backward, rows of dy with the same index meet in one row of the gradient, and floats added in any
 * order would differ from run to run. So the row numbers are sorted by index (stable: equal indices
 * stay in ascending order), and the sorted sequence is cut into pieces of PIECE rows. A piece adds
 * up its runs of equal index; a run that lies inside one piece is added to the gradient at once,
 * one that reaches over the edge leaves partial sums, which the piece where the run begins collects
 * in a second launch. Every row of the gradient has one writer, and frequent tokens do not keep one
 * block busy for the whole batch.
 *
 * Bound by memory, but for the sort, which is a handful of small launches. */
#include "backend/cuda/cuda.h"

#include <cub/device/device_radix_sort.cuh>

enum {
    LANES = 32,
    ROWS = 8,
    COLS = 8 * LANES,
    PIECE = 32,
    PIECE_LANES = 64,
    PIECE_RUNS = 4,
    EDGE_THREADS = 128
};

/* ---- forward --------------------------------------------------------------------------------- */

template <class T, bool WIDE>
static __global__ void embed_fwd_kernel(T *y, int64_t y_ld, const T *table, int64_t table_ld,
                                        const T *pos_table, int64_t pos_ld, const int32_t *ids,
                                        const int32_t *pos, float scale, int rows, int cols,
                                        struct cuda_dropout d) {
    int col = blockIdx.y * COLS + threadIdx.x * 8, row = blockIdx.x * ROWS + threadIdx.y;
    float v[8] = {}, p[8];
    chain_wait();
    if (col >= cols || row >= rows) return;
    int id = ids[row], n = cols - col;
    if (id >= 0) load8<WIDE>(v, table + id * table_ld + col, n);
    load8<WIDE>(p, pos_table + pos[row] * pos_ld + col, n);
    uint32_t keep = 0xff;
    if (d.threshold) keep = dropout_keep8(d, (uint32_t)row, (uint32_t)col / 8);
#pragma unroll
    for (int j = 0; j < 8; j++) v[j] = keep >> j & 1u ? d.scale * (scale * v[j] + p[j]) : 0.0f;
    store8<WIDE>(y + row * y_ld + col, v, n);
}

void cuda_embed_fwd(struct backend *base, const struct embed_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_plain(be, &a->table, "embed") || !cuda_workspace(be, 0)) return;
    int rows = a->y.rows, cols = a->y.cols;
    dim3 grid(cuda_blocks(rows, ROWS), cuda_blocks(cols, COLS)), block(LANES, ROWS);
    bool wide = cuda_wide(&a->y) && cuda_wide(&a->table) && cuda_wide(&a->pos_table);
    cuda_with_type(a->y.type, [&](auto t) {
        using T = decltype(t);
        auto kernel = wide ? embed_fwd_kernel<T, true> : embed_fwd_kernel<T, false>;
        CHAIN_AS(be, "embed_fwd_kernel", kernel, grid, block, 0, cuda_data<T>(&a->y), a->y.ld,
                 cuda_data<T>(&a->table), a->table.ld, cuda_data<T>(&a->pos_table), a->pos_table.ld,
                 a->ids, a->pos, a->scale, rows, cols, cuda_dropout_of(&a->drop));
    });
}

/* ---- sorting --------------------------------------------------------------------------------- */

/* Keys and row numbers, before and after the sort; ids < 0 get the key `n_key` and sort last. */
struct order {
    uint32_t *key, *key_sorted;
    int32_t *row, *row_sorted;
    void *temp;
    size_t temp_size;
    /* [pieces][2][cols]: sums of a run that came from the left, and one that goes on */
    float *edge;
};

static __global__ void order_kernel(uint32_t *key, int32_t *row, const int32_t *index, int n,
                                    int n_key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    chain_wait();
    if (i >= n) return;
    key[i] = index[i] < 0 ? (uint32_t)n_key : (uint32_t)index[i];
    row[i] = i;
}

static int bits_of(int n_key) {
    int bits = 1;
    while (bits < 32 && (uint32_t)n_key >> bits) bits++;
    return bits;
}

static size_t sort_size(int n, int n_key) {
    size_t size = 0;
    cub::DeviceRadixSort::SortPairs(nullptr, size, (const uint32_t *)nullptr, (uint32_t *)nullptr,
                                    (const int32_t *)nullptr, (int32_t *)nullptr, n, 0,
                                    bits_of(n_key));
    return size;
}

static struct order carve(struct cuda_carve *c, int n, int cols, size_t temp_size) {
    struct order o;
    o.key = cuda_take<uint32_t>(c, (size_t)n);
    o.key_sorted = cuda_take<uint32_t>(c, (size_t)n);
    o.row = cuda_take<int32_t>(c, (size_t)n);
    o.row_sorted = cuda_take<int32_t>(c, (size_t)n);
    o.temp = cuda_take<char>(c, temp_size);
    o.temp_size = temp_size;
    o.edge = cuda_take<float>(c, (size_t)cuda_blocks(n, PIECE) * 2 * (size_t)cols);
    return o;
}

/* ---- backward -------------------------------------------------------------------------------- */

struct scatter_args {
    float *grad;
    int64_t grad_ld;
    const void *dy;
    int64_t dy_ld;
    float scale;
    int n, cols, n_key;
    struct cuda_dropout drop;
};

/* Sum of rows [begin, end) of the sorted sequence, eight columns from col. Four rows are under way
 * at a time: their addresses are known beforehand. */
template <class T, bool WIDE>
static __device__ __forceinline__ void sum_run(float (&sum)[8], const struct scatter_args &a,
                                               const int32_t *row_of, int begin, int end, int col) {
    int n = a.cols - col;
#pragma unroll
    for (int j = 0; j < 8; j++) sum[j] = 0;
#pragma unroll 4
    for (int p = begin; p < end; p++) {
        int row = row_of[p];
        float v[8];
        load8<WIDE>(v, (const T *)a.dy + row * a.dy_ld + col, n);
        uint32_t keep = 0xff;
        if (a.drop.threshold) keep = dropout_keep8(a.drop, (uint32_t)row, (uint32_t)col / 8);
#pragma unroll
        for (int j = 0; j < 8; j++) sum[j] += keep >> j & 1u ? a.drop.scale * v[j] : 0.0f;
    }
}

/* One piece of the sorted sequence per block. A thread has eight columns at a time; the runs of the
 * piece are dealt out to the rows of threads, since rare tokens make many short ones. */
template <class T, bool WIDE>
static __global__ void __launch_bounds__(PIECE_LANES *PIECE_RUNS, 4)
    scatter_kernel(struct scatter_args a, struct order o) {
    __shared__ uint32_t key[PIECE + 2]; /* with a neighbour on either side */
    __shared__ int32_t row[PIECE];
    __shared__ int32_t begin_of[PIECE + 1], n_run; /* where each run begins, and the end */
    const uint32_t none = 0xffffffffu;
    int first = blockIdx.x * PIECE, n = min(PIECE, a.n - first);
    int i = threadIdx.y * PIECE_LANES + threadIdx.x;
    chain_wait();
    if (i < PIECE + 2) {
        int p = first + i - 1;
        key[i] = p >= 0 && p < a.n ? o.key_sorted[p] : none;
    }
    if (i < n) row[i] = o.row_sorted[first + i];
    __syncthreads();
    if (i < PIECE) { /* one warp; ignored ids sort last and make no run */
        bool counts = i < n && key[i + 1] < (uint32_t)a.n_key;
        bool begins = counts && (i == 0 || key[i] != key[i + 1]);
        uint32_t all = __ballot_sync(0xffffffffu, begins),
                 used = __ballot_sync(0xffffffffu, counts);
        if (begins) begin_of[__popc(all & ((1u << i) - 1))] = i;
        if (i == 0) {
            n_run = __popc(all);
            begin_of[n_run] = __popc(used);
        }
    }
    __syncthreads();
    float *edge = o.edge + (int64_t)blockIdx.x * 2 * a.cols;
    for (int run = threadIdx.y; run < n_run; run += PIECE_RUNS) {
        int begin = begin_of[run], end = begin_of[run + 1];
        uint32_t k = key[begin + 1];
        bool from_left = begin == 0 && key[0] == k, goes_on = end == n && key[n + 1] == k;
        for (int col = threadIdx.x * 8; col < a.cols; col += PIECE_LANES * 8) {
            int left = a.cols - col;
            float sum[8], was[8] = {}, *grad = a.grad + k * a.grad_ld + col;
            bool whole = !from_left && !goes_on;
            if (whole) load8<WIDE>(was, grad, left); /* on its way together with the rows */
            sum_run<T, WIDE>(sum, a, row, begin, end, col);
            if (!whole) {
                store8<WIDE>((from_left ? edge : edge + a.cols) + col, sum, left);
                continue;
            }
#pragma unroll
            for (int c = 0; c < 8; c++) was[c] += a.scale * sum[c];
            store8<WIDE>(grad, was, left);
        }
    }
}

/* Collects runs over several pieces, at the piece where one begins: its right edge, then the left
 * edges of those that follow. A piece that lies in the middle of a run has it all in its left
 * edge. */
static __global__ void scatter_edges_kernel(struct scatter_args a, struct order o) {
    int first = blockIdx.x * PIECE, last = first + PIECE - 1;
    chain_wait();
    if (last + 1 >= a.n) return;
    uint32_t k = o.key_sorted[last];
    if (k >= (uint32_t)a.n_key || o.key_sorted[last + 1] != k) return; /* nothing goes on */
    if (first > 0 && o.key_sorted[first] == k && o.key_sorted[first - 1] == k)
        return; /* or begins */
    for (int col = threadIdx.x; col < a.cols; col += EDGE_THREADS) {
        float sum = o.edge[((int64_t)blockIdx.x * 2 + 1) * a.cols + col];
        int piece = blockIdx.x + 1;
        do {
            sum += o.edge[(int64_t)piece * 2 * a.cols + col];
            piece++;
        } while ((int64_t)piece * PIECE < a.n && o.key_sorted[piece * PIECE] == k &&
                 o.key_sorted[piece * PIECE - 1] == k);
        a.grad[k * a.grad_ld + col] += a.scale * sum;
    }
}

static void scatter(struct cuda_backend *be, const struct embed_args *a, const struct mat *grad,
                    const int32_t *index, float scale, struct order *o) {
    struct scatter_args k = {};
    k.grad = cuda_data<float>(grad), k.grad_ld = grad->ld;
    k.dy = a->dy.data, k.dy_ld = a->dy.ld;
    k.scale = scale;
    k.n = a->dy.rows, k.cols = a->dy.cols, k.n_key = grad->rows;
    k.drop = cuda_dropout_of(&a->drop);
    CHAIN(be, order_kernel, cuda_blocks(k.n, 256), 256, 0, o->key, o->row, index, k.n, k.n_key);
    if (be->base.err.code || !cuda_ok(be,
                                      cub::DeviceRadixSort::SortPairs(
                                          o->temp, o->temp_size, o->key, o->key_sorted, o->row,
                                          o->row_sorted, k.n, 0, bits_of(k.n_key), be->stream),
                                      "sorting token ids"))
        return;
    int pieces = cuda_blocks(k.n, PIECE);
    cuda_with_type(a->dy.type, [&](auto t) {
        using T = decltype(t);
        bool wide = cuda_wide(&a->dy) && cuda_wide(grad);
        auto kernel = wide ? scatter_kernel<T, true> : scatter_kernel<T, false>;
        CHAIN_AS(be, "scatter_kernel", kernel, pieces, dim3(PIECE_LANES, PIECE_RUNS), 0, k, *o);
    });
    CHAIN(be, scatter_edges_kernel, pieces, EDGE_THREADS, 0, k, *o);
}

void cuda_embed_bwd(struct backend *base, const struct embed_args *a) {
    struct cuda_backend *be = cuda_of(base);
    int n = a->dy.rows, with_pos = !mat_empty(&a->dpos);
    size_t temp = sort_size(n, a->dtable.rows),
           temp_pos = with_pos ? sort_size(n, a->dpos.rows) : 0;
    if (temp_pos > temp) temp = temp_pos;
    struct cuda_carve c = {};
    carve(&c, n, a->dy.cols, temp);
    c.base = (char *)cuda_workspace(be, c.used);
    if (!c.base) return;
    c.used = 0;
    struct order o = carve(&c, n, a->dy.cols, temp);
    scatter(be, a, &a->dtable, a->ids, a->scale, &o);
    if (with_pos) scatter(be, a, &a->dpos, a->pos, 1.0f, &o);
}
