/* few_rows.cu — c = act(a b^T + bias) for few rows of a: the products of a search for one or a few
 * sentences. bf16, sums in f32.
 *
 * Such a product reads b [n,k] once and hardly computes; what counts is how soon the whole device
 * has its share of b under way, and how soon the next kernel may begin. A block has eight columns
 * of c (or 32, where there are thousands) and its warps share the depth in chunks of 32: a lane
 * reads 16 bytes, eight neighbours along the depth, of a row of b, and the same places of rows of
 * a. Both go into the tensor cores as they come. That permutes the depth inside of a chunk, alike
 * for a and b, so that no number has to change lanes and a warp reads whole sectors of 64 bytes.
 * All of a warp's b is asked for before anything is used. At the end the warps' sums are added in
 * order. More than 32 rows are as many blocks as they have 32s, of 32 columns each: both operands
 * are then read several times over, from the second-level cache.
 *
 * In a recorded step b is the model's, which nothing in it writes: there it is asked for before the
 * kernel before has ended (chain_wait).
 *
 * Off unless HEED_CUDA_FEW is set, to the most rows it is to take (1: 32), until a GPU has said
 * what it is worth (docs/notes/gpu.md). */
#include "backend/cuda/mma.h"

enum { CHUNK = 32, MOST_WARPS = 8, TILE_ROWS = 16, TILE_COLS = 8, MANY_COLS = 8192 };

struct few_rows {
    const bf16 *a, *b, *bias;
    bf16 *c;
    int64_t lda, ldb, ldc;
    int m, n, n_chunk;
    int relu, early; /* early: b may be read before the kernel before has ended */
};

/* The next PRE chunks of b that this warp has, from `first` on; zeros beyond the depth. */
template <int PRE, int GROUPS>
static __device__ __forceinline__ void fetch_b(uint4 (&b)[GROUPS][PRE], const struct few_rows &p,
                                               int col, int first) {
    int lane = threadIdx.x % 32, step = blockDim.x / 32;
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int i = 0; i < PRE; i++) {
            int chunk = first + i * step, row = col + g * TILE_COLS + lane / 4;
            const bf16 *from = p.b + row * p.ldb + chunk * CHUNK + lane % 4 * 8;
            b[g][i] = chunk < p.n_chunk && row < p.n ? *reinterpret_cast<const uint4 *>(from)
                                                     : make_uint4(0, 0, 0, 0);
        }
}

/* The same place of rows `row` of a. */
static __device__ __forceinline__ uint4 fetch_a(const struct few_rows &p, int row, int chunk) {
    const bf16 *from = p.a + row * p.lda + chunk * CHUNK + threadIdx.x % 4 * 8;
    return row < p.m && chunk < p.n_chunk ? *reinterpret_cast<const uint4 *>(from)
                                          : make_uint4(0, 0, 0, 0);
}

/* sum += a b^T over PRE chunks. */
template <int TILES, int GROUPS, int PRE>
static __device__ __forceinline__ void multiply(float (&sum)[GROUPS][TILES][4],
                                                const uint4 (&b)[GROUPS][PRE],
                                                const struct few_rows &p, int row, int first) {
    int g = row + threadIdx.x % 32 / 4, step = blockDim.x / 32;
    uint4 low[TILES][PRE], high[TILES][PRE]; /* rows g and g + 8 */
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < PRE; i++) {
            low[tile][i] = fetch_a(p, tile * TILE_ROWS + g, first + i * step);
            high[tile][i] = fetch_a(p, tile * TILE_ROWS + g + 8, first + i * step);
        }
    __syncwarp(); /* or the assembler asks for two, waits, multiplies, asks for the next two */
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int i = 0; i < PRE; i++) {
            uint4 l = low[tile][i], h = high[tile][i];
            uint32_t near[4] = {l.x, h.x, l.y, h.y}, far[4] = {l.z, h.z, l.w, h.w};
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                mma_add(sum[group][tile], near, b[group][i].x, b[group][i].y);
                mma_add(sum[group][tile], far, b[group][i].z, b[group][i].w);
            }
        }
}

/* The warps' sums of 16 rows and eight columns, in order, by one warp; then bias, ReLU and c. */
static __device__ __forceinline__ void finish(const float4 *part, int stride,
                                              const struct few_rows &p, int row, int col) {
    int lane = threadIdx.x % 32;
    float4 sum = part[lane];
    for (int w = 1; w < (int)blockDim.x / 32; w++) {
        float4 x = part[w * stride + lane];
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    row += lane / 4, col += lane % 4 * 2;
    if (col >= p.n) return;
    float bias[2] = {p.bias ? to_f32(p.bias[col]) : 0, p.bias ? to_f32(p.bias[col + 1]) : 0};
    float z[2][2] = {{sum.x + bias[0], sum.y + bias[1]}, {sum.z + bias[0], sum.w + bias[1]}};
#pragma unroll
    for (int y = 0; y < 2; y++) {
        if (row + 8 * y >= p.m) continue;
        for (int x = 0; x < 2; x++)
            if (p.relu && z[y][x] <= 0) z[y][x] = 0; /* a NaN stays one */
        *reinterpret_cast<uint32_t *>(p.c + (row + 8 * y) * p.ldc + col) =
            pack_bf16(z[y][0], z[y][1]);
    }
}

template <int TILES, int GROUPS, int PRE>
static __global__ void __launch_bounds__(32 * MOST_WARPS) few_rows_kernel(const struct few_rows p) {
    __shared__ float4 part[MOST_WARPS][GROUPS][TILES][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warp = blockDim.x / 32;
    int col = blockIdx.x * GROUPS * TILE_COLS, row = blockIdx.y * TILES * TILE_ROWS;
    float sum[GROUPS][TILES][4] = {};
    uint4 b[GROUPS][PRE];
    if (!p.early) chain_wait();
    fetch_b(b, p, col, warp);
    if (p.early) chain_wait();
    for (int first = warp; first < p.n_chunk; first += PRE * n_warp) {
        if (first > warp) fetch_b(b, p, col, first);
        multiply(sum, b, p, row, first);
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            part[warp][g][t][lane] =
                make_float4(sum[g][t][0], sum[g][t][1], sum[g][t][2], sum[g][t][3]);
    __syncthreads();
    for (int at = warp; at < GROUPS * TILES; at += n_warp)
        finish(&part[0][at / TILES][at % TILES][0], GROUPS * TILES * 32, p,
               row + at % TILES * TILE_ROWS, col + at / TILES * TILE_COLS);
}

template <int TILES, int GROUPS, int PRE>
static void launch(struct cuda_backend *be, const struct few_rows &p) {
    int n_warp = cuda_blocks(p.n_chunk, PRE);
    dim3 grid(cuda_blocks(p.n, GROUPS * TILE_COLS), cuda_blocks(p.m, TILES * TILE_ROWS));
    CHAIN(be, (few_rows_kernel<TILES, GROUPS, PRE>), grid,
          32 * (n_warp < MOST_WARPS ? n_warp : MOST_WARPS), 0, p);
}

template <int TILES> static void launch_rows(struct cuda_backend *be, const struct few_rows &p) {
    if (p.n >= MANY_COLS || p.m > TILES * TILE_ROWS)
        launch<TILES, 4, 4>(be, p);
    else if (p.n_chunk > 4 * MOST_WARPS)
        launch<TILES, 1, 8>(be, p);
    else
        launch<TILES, 1, 4>(be, p);
}

bool cuda_few_rows(struct cuda_backend *be, const struct cuda_gemm *g) {
    int most = g->n >= MANY_COLS && be->few_rows > 32 ? 32 : be->few_rows;
    bool here = g->type == DTYPE_BF16 && g->c_type == DTYPE_BF16 && !g->a_trans && g->b_trans &&
                !g->add && g->m > 0 && g->m <= most && g->k % CHUNK == 0 && g->n % TILE_COLS == 0;
    bool aligned = (uintptr_t)g->a % 16 == 0 && (uintptr_t)g->b % 16 == 0 &&
                   (uintptr_t)g->c % 4 == 0 && g->lda % 8 == 0 && g->ldb % 8 == 0 &&
                   g->ldc % 2 == 0;
    if (!here || !aligned) return false;
    struct few_rows p = {(const bf16 *)g->a,
                         (const bf16 *)g->b,
                         (const bf16 *)g->bias,
                         (bf16 *)g->c,
                         g->lda,
                         g->ldb,
                         g->ldc,
                         g->m,
                         g->n,
                         g->k / CHUNK,
                         g->relu,
                         cuda_recording(be)};
    if (g->m > TILE_ROWS)
        launch_rows<2>(be, p);
    else
        launch_rows<1>(be, p);
    return true;
}
