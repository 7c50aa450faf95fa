/* attention.cu — the time of attention's kernels at the shapes of the base model, against memory's
 * speed.
 *
 *     make CUDA=1 build/bench/attention && build/bench/attention [rounds]
 *
 * A batch of 25,600 tokens, 8 heads of 64, bf16, q k v in one matrix as the model has them. Each op
 * runs over three sets of matrices in turn, together larger than the L2 cache, twelve times in a
 * captured graph; the median of `rounds` replays counts. Bytes are the least that must move:
 * forward q k v o, backward also dout dq dk dv; the step reads its cache once. The share is of the
 * copy bandwidth of an H200. */
#include <algorithm>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "backend/cuda/cuda.h"
#include "backend/plugin.h"

extern "C" int heed_cuda_open(const struct plugin_abi *abi, struct backend **be,
                              const struct backend_options *options, struct err *err);

static const int TOKENS = 25600, HEADS = 8, WIDTH = 64, MODEL = HEADS * WIDTH;
static const int SETS = 3, REPEAT = 4;
static const double copy_speed = 4260; /* GB/s */

static struct backend *be;
static int rounds = 20;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "bench/attention: %s: %s\n", what, why);
    exit(1);
}
static void check(cudaError_t rc, const char *what) {
    if (rc != cudaSuccess) fail(what, cudaGetErrorString(rc));
}
static void check_backend(const char *what) {
    be->vt->sync(be);
    if (be->err.code) fail(what, be->err.msg);
}

static struct mat matrix(enum dtype type, int rows, int cols, bool random) {
    struct mat m = {};
    m.ld = m.cols = cols, m.rows = rows, m.type = type;
    size_t n = (size_t)rows * (size_t)cols;
    m.data = be->vt->alloc(be, n * dtype_size(type));
    if (!m.data) fail("alloc", "no device memory");
    if (!random) return m;
    std::vector<uint16_t> host(n);
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) { /* uniform in [-1, 1) */
        state = state * 1664525u + 1013904223u;
        host[i] = bf16_store((float)(int32_t)state / 2147483648.0f);
    }
    be->vt->upload(be, m.data, host.data(), n * sizeof host[0]);
    return m;
}

static int32_t *integers(const std::vector<int32_t> &host) {
    int32_t *at = (int32_t *)be->vt->alloc(be, host.size() * sizeof host[0]);
    if (!at) fail("alloc", "no device memory");
    be->vt->upload(be, at, host.data(), host.size() * sizeof host[0]);
    return at;
}

/* Seconds of one call of op(set). */
template <class Op> static double time_of(const char *what, Op op) {
    cudaStream_t stream = cuda_of(be)->stream;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaEvent_t begin, end;
    std::vector<float> ms((size_t)rounds);
    for (int set = 0; set < SETS; set++) op(set); /* grows the workspace, loads the kernels */
    check_backend(what);
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), what);
    for (int i = 0; i < SETS * REPEAT; i++) op(i % SETS);
    check(cudaStreamEndCapture(stream, &graph), what);
    check(cudaGraphInstantiate(&run, graph, 0), what);
    check(cudaEventCreate(&begin), what), check(cudaEventCreate(&end), what);
    for (int i = -3; i < rounds; i++) {
        check(cudaEventRecord(begin, stream), what);
        check(cudaGraphLaunch(run, stream), what);
        check(cudaEventRecord(end, stream), what);
        check(cudaEventSynchronize(end), what);
        if (i >= 0) check(cudaEventElapsedTime(&ms[(size_t)i], begin, end), what);
    }
    check_backend(what);
    cudaGraphExecDestroy(run), cudaGraphDestroy(graph);
    cudaEventDestroy(begin), cudaEventDestroy(end);
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2] / 1e3 / (SETS * REPEAT);
}

static void report(const char *shape, const char *op, double seconds, double bytes, double flops) {
    printf("%-34s %-5s %8.1f us %8.0f GB/s %5.1f %% %8.1f TFLOP/s\n", shape, op, seconds * 1e6,
           bytes / seconds / 1e9, bytes / seconds / 1e7 / copy_speed, flops / seconds / 1e12);
}

struct shape {
    const char *name;
    /* 0: log-normal around 25, at most 200;  -1: 64 of 16, and one of 1,024, over and over */
    int length;
    int causal;
    float p;
};
static const struct shape shapes[] = {{"25k tokens, length 32", 32, 0, 0},
                                      {"25k, 32, causal", 32, 1, 0},
                                      {"25k, 32, dropout 0.1", 32, 0, 0.1f},
                                      {"25k, length 8", 8, 0, 0},
                                      {"25k, length 64", 64, 0, 0},
                                      {"25k, length 128", 128, 0, 0},
                                      {"25k, length 512, causal", 512, 1, 0},
                                      {"25k, log-normal lengths", 0, 0, 0},
                                      {"25k, many of 16, some of 1,024", -1, 0, 0}};

static std::vector<int32_t> starts(const struct shape *s, int *longest, double *pairs) {
    std::vector<int32_t> start(1, 0);
    uint32_t state = 7;
    *longest = 0, *pairs = 0;
    while (start.back() < TOKENS) {
        int n = s->length;
        if (n == 0) {
            double sum = 0; /* of 12 uniform numbers: near enough to normal */
            for (int i = 0; i < 12; i++) {
                state = state * 1664525u + 1013904223u;
                sum += state / 4294967296.0;
            }
            n = std::min(200, std::max(1, (int)(25 * exp(0.6 * (sum - 6)))));
        } else if (n < 0) {
            n = start.size() % 65 == 0 ? 1024 : 16;
        }
        n = std::min(n, TOKENS - start.back());
        start.push_back(start.back() + n);
        *longest = std::max(*longest, n);
        *pairs += s->causal ? 0.5 * n * (n + 1) : (double)n * n;
    }
    return start;
}

static void bench_shape(const struct shape *s, const struct mat *qkv, const struct mat *dqkv,
                        const struct mat *o, const struct mat *dout, const struct mat *lse) {
    int longest;
    double pairs, matrix_bytes = 2.0 * TOKENS * MODEL;
    std::vector<int32_t> start = starts(s, &longest, &pairs);
    struct rows rows = {integers(start), (int)start.size() - 1, TOKENS, longest};
    auto args = [&](int set) {
        struct attention_args a = {};
        a.q = mat_cols(qkv[set], 0, MODEL), a.dq = mat_cols(dqkv[set], 0, MODEL);
        a.k = mat_cols(qkv[set], MODEL, MODEL), a.dk = mat_cols(dqkv[set], MODEL, MODEL);
        a.v = mat_cols(qkv[set], 2 * MODEL, MODEL), a.dv = mat_cols(dqkv[set], 2 * MODEL, MODEL);
        a.o = o[set], a.dout = dout[set], a.lse = lse[set];
        a.rq = a.rk = rows;
        a.n_head = HEADS, a.causal = s->causal, a.scale = 0.125f;
        a.drop.p = s->p, a.drop.seed = 1, a.drop.step = 1;
        return a;
    };
    double fwd = time_of(s->name, [&](int set) {
        struct attention_args a = args(set);
        be->vt->attention_fwd(be, &a);
    });
    report(s->name, "fwd", fwd, 4 * matrix_bytes, pairs * 4 * MODEL);
    double bwd = time_of(s->name, [&](int set) {
        struct attention_args a = args(set);
        be->vt->attention_bwd(be, &a);
    });
    report(s->name, "bwd", bwd, 8 * matrix_bytes, pairs * 10 * MODEL);
    be->vt->free(be, (void *)rows.start);
}

static void bench_step(int n, int len) {
    struct mat q = matrix(DTYPE_BF16, n, MODEL, true), o = matrix(DTYPE_BF16, n, MODEL, false);
    struct mat k[SETS], v[SETS];
    for (int set = 0; set < SETS; set++) {
        k[set] = matrix(DTYPE_BF16, n * len, MODEL, true);
        v[set] = matrix(DTYPE_BF16, n * len, MODEL, true);
    }
    std::vector<int32_t> index((size_t)n * (size_t)len), lens((size_t)n, len);
    for (size_t i = 0; i < index.size(); i++) index[i] = (int32_t)i;
    int32_t *index_at = integers(index), *lens_at = integers(lens);
    char name[64];
    snprintf(name, sizeof name, "%d hypotheses, %d steps", n, len);
    double seconds = time_of(name, [&](int set) {
        struct attention_step_args a = {};
        a.o = o, a.q = q, a.k = k[set], a.v = v[set], a.k_new = q, a.v_new = q;
        a.index = index_at, a.len = lens_at, a.index_ld = len, a.max_len = len;
        a.n_head = HEADS, a.scale = 0.125f;
        be->vt->attention_step(be, &a);
    });
    report(name, "step", seconds, 4.0 * n * len * MODEL, 4.0 * n * len * MODEL);
    for (int set = 0; set < SETS; set++)
        be->vt->free(be, k[set].data), be->vt->free(be, v[set].data);
    be->vt->free(be, q.data), be->vt->free(be, o.data);
    be->vt->free(be, index_at), be->vt->free(be, lens_at);
}

int main(int argc, char **argv) {
    if (argc > 2 || (argc == 2 && (rounds = atoi(argv[1])) < 1)) {
        fprintf(stderr, "usage: attention [rounds]\n");
        return 2;
    }
    struct plugin_abi abi = PLUGIN_ABI;
    struct backend_options options = {};
    struct err err = {};
    options.device = "cuda";
    if (heed_cuda_open(&abi, &be, &options, &err)) fail("cuda", err.msg);
    struct mat qkv[SETS], dqkv[SETS], o[SETS], dout[SETS], lse[SETS];
    for (int set = 0; set < SETS; set++) {
        qkv[set] = matrix(DTYPE_BF16, TOKENS, 3 * MODEL, true);
        dqkv[set] = matrix(DTYPE_BF16, TOKENS, 3 * MODEL, false);
        o[set] = matrix(DTYPE_BF16, TOKENS, MODEL, false);
        dout[set] = matrix(DTYPE_BF16, TOKENS, MODEL, true);
        lse[set] = matrix(DTYPE_F32, HEADS, TOKENS, false);
    }
    for (const struct shape &s : shapes) bench_shape(&s, qkv, dqkv, o, dout, lse);
    bench_step(4, 32), bench_step(4, 300), bench_step(64, 32), bench_step(256, 32);
    bench_step(1024, 32), bench_step(1024, 200);
    be->vt->free(be, be->workspace);
    be->vt->close(be);
    return 0;
}
