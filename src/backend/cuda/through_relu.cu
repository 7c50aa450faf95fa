/* through_relu.cu — dx = dz w where x > 0, else 0, and its column sums: the gradient that goes back
 * through a feed-forward layer's second product and the ReLU before it, in one kernel of sm_90a.
 *
 * The library's product writes dx, and a pass of our own then reads dx and x, writes dx again and
 * sums: three more trips of the widest matrix of the model through memory, which at d_model 512
 * take as long as the product. Here x is fetched while the product is computed, and applied to its
 * sums before they are written.
 *
 * A block per multiprocessor takes one piece of 128 x 256 of dx after the other, in rows of pieces,
 * so that blocks next to each other share rows of dz. Of its 12 warps one fetches dz and w, 64 deep
 * at a time, into a ring of three; one fetches x of the piece; eight multiply, every four of them
 * 64 rows, apply x in place, and go on; two write the piece and sum its columns, while the next is
 * already being multiplied. Partial sums, one row for 128 rows of dx, go to cuda_add_partials.
 *
 * Floor at 25,000 x 2,048 x 512: 52 GFLOP, 66 us at 800 TFLOP/s; 230 MB, 54 us at 4.26 TB/s. */
#include "backend/cuda/hopper.h"

enum {
    PIECE_ROWS = 128,
    PIECE_COLS = 256,
    DEPTH = 64,
    RING = 3,
    TILES = PIECE_COLS / 64, /* a tile is 64 columns wide, 128 bytes a row */
    TILE_X = PIECE_ROWS * 128,
    TILE_W = DEPTH * 128,
    BYTES_DZ = PIECE_ROWS * 128,
    BYTES_W = TILES * TILE_W,
    BYTES_X = TILES * TILE_X,
    WRITERS = 64, /* threads of the warps that write and sum: four columns each */
    WORKERS = 256,
    THREADS = 128 + WORKERS,
    BARRIERS = 2 * RING + 3,
    SHARED = 1024 + RING * (BYTES_DZ + BYTES_W) + BYTES_X + BARRIERS * 8
};

struct through_relu {
    CUtensorMap dz, w, x, dx;
    float *partial; /* [rows / PIECE_ROWS, cols], or NULL */
    float scale;
    int rows, cols, depth;
};

#ifdef HOPPER

/* The shared memory of a block. */
struct bench {
    char *dz, *w, *x;
    uint64_t *full, *empty; /* [RING]: dz and w have come; have been used */
    uint64_t *x_full, *x_empty, *done;
};

static __device__ __forceinline__ struct bench bench_of(char *raw) {
    struct bench s;
    s.dz = reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(raw) + 1023) & ~(uintptr_t)1023);
    s.w = s.dz + RING * BYTES_DZ;
    s.x = s.w + RING * BYTES_W;
    s.full = reinterpret_cast<uint64_t *>(s.x + BYTES_X);
    s.empty = s.full + RING;
    s.x_full = s.empty + RING;
    s.x_empty = s.x_full + 1;
    s.done = s.x_empty + 1;
    return s;
}

/* The pieces of a block, in order. */
struct pieces {
    int at, n, across;
    __device__ __forceinline__ explicit pieces(const struct through_relu &p)
        : at((int)blockIdx.x), across((p.cols + PIECE_COLS - 1) / PIECE_COLS) {
        n = (p.rows + PIECE_ROWS - 1) / PIECE_ROWS * across;
    }
    __device__ __forceinline__ bool left() const { return at < n; }
    __device__ __forceinline__ void next() { at += (int)gridDim.x; }
    __device__ __forceinline__ int row() const { return at / across * PIECE_ROWS; }
    __device__ __forceinline__ int col() const { return at % across * PIECE_COLS; }
};

/* A place in the ring: its number, and the parity of its turn. */
struct place {
    int at;
    uint32_t turn;
    __device__ __forceinline__ void next() {
        if (++at == RING) at = 0, turn ^= 1;
    }
};

static __device__ __forceinline__ int steps_of(const struct through_relu &p) {
    return (p.depth + DEPTH - 1) / DEPTH;
}

static __device__ __forceinline__ void fetch_factors(const struct through_relu &p,
                                                     const struct bench &s) {
    struct place ring = {0, 1};
    for (struct pieces piece(p); piece.left(); piece.next())
        for (int k = 0; k < steps_of(p); k++, ring.next()) {
            uint64_t *full = s.full + ring.at;
            barrier_wait(s.empty + ring.at, ring.turn);
            barrier_expect(full, BYTES_DZ + BYTES_W);
            tile_fetch(s.dz + ring.at * BYTES_DZ, &p.dz, full, k * DEPTH, piece.row());
            for (int t = 0; t < TILES; t++)
                tile_fetch(s.w + ring.at * BYTES_W + t * TILE_W, &p.w, full, piece.col() + 64 * t,
                           k * DEPTH);
        }
}

static __device__ __forceinline__ void fetch_x(const struct through_relu &p,
                                               const struct bench &s) {
    uint32_t turn = 1;
    for (struct pieces piece(p); piece.left(); piece.next(), turn ^= 1) {
        barrier_wait(s.x_empty, turn);
        barrier_expect(s.x_full, BYTES_X);
        for (int t = 0; t < TILES; t++)
            tile_fetch(s.x + t * TILE_X, &p.x, s.x_full, piece.col() + 64 * t, piece.row());
    }
}

static __device__ __forceinline__ void write_and_sum(const struct through_relu &p,
                                                     const struct bench &s, int thread) {
    uint32_t turn = 0;
    uint32_t mine = shared_address(s.x) + thread / 16 * TILE_X + thread % 16 * 8;
    for (struct pieces piece(p); piece.left(); piece.next(), turn ^= 1) {
        int col = piece.col() + 4 * thread;
        float sum[4] = {};
        barrier_wait(s.done, turn);
        if (thread == 0) {
            for (int t = 0; t < TILES && piece.col() + 64 * t < p.cols; t++)
                tile_store(&p.dx, s.x + t * TILE_X, piece.col() + 64 * t, piece.row());
            stores_commit();
        }
#pragma unroll 1
        for (uint32_t at = mine; p.partial && at < mine + TILE_X; at += 1024)
#pragma unroll
            for (uint32_t r = 0; r < 8; r++) {
                uint32_t low, high;
                shared_load2(low, high, (at ^ r << 4) + r * 128);
                sum[0] += __uint_as_float(low << 16);
                sum[1] += __uint_as_float(low & 0xffff0000u);
                sum[2] += __uint_as_float(high << 16);
                sum[3] += __uint_as_float(high & 0xffff0000u);
            }
        if (p.partial && col < p.cols)
            store_pack(p.partial + (int64_t)(piece.row() / PIECE_ROWS) * p.cols + col, sum);
        if (thread == 0) stores_read();
        barrier_arrive(s.x_empty);
    }
}

/* x of the piece, in shared memory, becomes dx. */
static __device__ __forceinline__ void apply_x(const struct through_relu &p, const struct bench &s,
                                               const float (&sum)[128], int thread) {
    int lane = thread % 32, row = thread / 32 * 16 + lane / 4;
    uint32_t mine = shared_address(s.x) + row * 128 + lane / 4 * 16 + lane % 4 * 4;
#pragma unroll
    for (int c = 0; c < 8; c++)
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int y = 0; y < 2; y++) {
                uint32_t at = (mine ^ (uint32_t)c << 4) + (uint32_t)(t * TILE_X + y * 1024), x;
                const float *z = &sum[4 * (8 * t + c) + 2 * y];
                shared_load(x, at);
                float low = z[0] * (__uint_as_float(x << 16) > 0 ? p.scale : 0.0f);
                float high = z[1] * (__uint_as_float(x & 0xffff0000u) > 0 ? p.scale : 0.0f);
                shared_store(at, pack_bf16(low, high));
            }
}

static __device__ __forceinline__ void multiply(const struct through_relu &p, const struct bench &s,
                                                int thread) {
    struct place ring = {0, 0};
    uint32_t turn = 0;
    float sum[128];
    for (struct pieces piece(p); piece.left(); piece.next(), turn ^= 1) {
        int before = 0;
        for (int k = 0; k < steps_of(p); k++, ring.next()) {
            barrier_wait(s.full + ring.at, ring.turn);
            uint32_t dz = shared_address(s.dz + ring.at * BYTES_DZ + thread / 128 * (BYTES_DZ / 2));
            uint32_t w = shared_address(s.w + ring.at * BYTES_W);
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < DEPTH / 16; i++)
                wgmma_256(sum, tile_a(dz + i * 32), tile_b(w + i * 16 * 128, DEPTH), k | i);
            wgmma_commit();
            if (k > 0) {
                wgmma_wait<1>();
                if (thread % 32 == 0) barrier_arrive(s.empty + before);
            }
            before = ring.at;
        }
        wgmma_wait<0>();
        if (thread % 32 == 0) barrier_arrive(s.empty + before);
        barrier_wait(s.x_full, turn);
        apply_x(p, s, sum, thread);
        fence_copies();
        barrier_arrive(s.done);
    }
}

#endif

static __global__ void __launch_bounds__(THREADS, 1)
    through_relu_kernel(const __grid_constant__ struct through_relu p) {
#ifdef HOPPER
    SHARED_ARRAY(char, raw);
    struct bench s = bench_of(raw);
    if (threadIdx.x == 0) {
        for (int i = 0; i < RING; i++) {
            barrier_init(s.full + i, 1);
            barrier_init(s.empty + i, WORKERS / 32);
        }
        barrier_init(s.x_full, 1);
        barrier_init(s.x_empty, WRITERS);
        barrier_init(s.done, WORKERS);
        barriers_ready();
    }
    __syncthreads();
    chain_wait();
    if (threadIdx.x >= THREADS - WORKERS) {
        registers_raise<232>();
        multiply(p, s, (int)threadIdx.x - (THREADS - WORKERS));
    } else {
        registers_lower<40>();
        if (threadIdx.x >= 64)
            write_and_sum(p, s, (int)threadIdx.x - 64);
        else if (threadIdx.x == 32)
            fetch_x(p, s);
        else if (threadIdx.x == 0)
            fetch_factors(p, s);
    }
#else
    (void)p;
#endif
}

/* ---- host ------------------------------------------------------------------------------------ */

/* The driver's function that describes a matrix to the copy engine, or NULL. */
static PFN_cuTensorMapEncodeTiled_v12000 find_encode(void) {
    void *encode = NULL;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                         cudaEnableDefault, &found) == cudaSuccess)
        return (PFN_cuTensorMapEncodeTiled_v12000)encode;
    cudaGetLastError();
    return NULL;
}

static bool describe(CUtensorMap *map, const struct mat *m, int box_rows) {
    static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encode(); /* by one thread */
    cuuint64_t size[2] = {(cuuint64_t)m->cols, (cuuint64_t)m->rows};
    cuuint64_t pitch[1] = {(cuuint64_t)m->ld * sizeof(bf16)};
    cuuint32_t box[2] = {64, (cuuint32_t)box_rows}, step[2] = {1, 1};
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, m->data, size, pitch, box,
                            step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

size_t cuda_through_relu_size(const struct mat *dx) {
    return (size_t)cuda_blocks(dx->rows, PIECE_ROWS) * (size_t)dx->cols * sizeof(float);
}

static int pieces_of(const struct mat *dx) {
    return cuda_blocks(dx->rows, PIECE_ROWS) * cuda_blocks(dx->cols, PIECE_COLS);
}

bool cuda_through_relu(struct cuda_backend *be, const struct linear_args *a, float *partial) {
    struct through_relu p = {};
    bool fits = be->capability == 90 && a->dx.type == DTYPE_BF16 && cuda_wide(&a->dy) &&
                cuda_wide(&a->w) && cuda_wide(&a->x) && cuda_wide(&a->dx);
    if (!fits || pieces_of(&a->dx) < be->n_sm / 2)
        return false; /* too few: the library's are smaller */
    if (!describe(&p.dz, &a->dy, PIECE_ROWS) || !describe(&p.w, &a->w, DEPTH) ||
        !describe(&p.x, &a->x, PIECE_ROWS) || !describe(&p.dx, &a->dx, PIECE_ROWS))
        return false;
    p.partial = mat_empty(&a->dx_sum) ? NULL : partial;
    p.scale = dropout_scale(a->x_p);
    p.rows = a->dx.rows, p.cols = a->dx.cols, p.depth = a->w.rows;
    if (!cuda_allow_shared(be, (const void *)through_relu_kernel, SHARED, "through_relu_kernel"))
        return true;
    int pieces = pieces_of(&a->dx);
    CHAIN(be, through_relu_kernel, pieces < be->n_sm ? pieces : be->n_sm, THREADS, SHARED, p);
    struct cuda_sums sum = {{cuda_data<float>(&a->dx_sum)}, 1};
    if (p.partial) cuda_add_partials(be, &sum, partial, cuda_blocks(p.rows, PIECE_ROWS), p.cols);
    return true;
}
