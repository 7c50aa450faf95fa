/* broken.cu — kernels that are wrong, each in a way that the emulated GPU must notice. Prints what
 * came of one of them, if the program is not ended: "right" where a result is as it should be.
 *
 *     broken FAULT      tests/test_emulated.sh knows what has to follow */
#include <stdio.h>

#include "backend/cuda/hopper.h"

enum { N = 64 };

/* The lanes of a warp are at different calls. */
static __global__ void divergent_kernel(float *x) {
    if (threadIdx.x % 32 < 16)
        x[threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], 0);
    else
        x[threadIdx.x] = (float)__ballot_sync(0xffffffffu, 1);
}

/* It may be set up early, and one of its threads does not wait for the kernel before. */
static __global__ void hasty_kernel(float *x) {
    if (threadIdx.x > 0) cudaGridDependencySynchronize();
    x[threadIdx.x] = 1;
}

/* Half of the block waits for copies that nobody began. */
static __global__ void forever_kernel(float *x) {
    SHARED_ARRAY(uint64_t, barrier);
    if (threadIdx.x == 0) barrier_init(barrier, 1);
    __syncthreads();
    if (threadIdx.x < 32) barrier_wait(barrier, 0);
    x[threadIdx.x] = 1;
}

static __global__ void beyond_shared_kernel(float *x) {
    SHARED_ARRAY(float, shared);
    shared[threadIdx.x + 1] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = shared[threadIdx.x];
}

static __global__ void beyond_memory_kernel(float *x) { x[threadIdx.x + 1] = 1; }

/* Each warp reads what the other wrote, and `waits` is what makes that right. */
static __global__ void swap_kernel(float *x, bool waits) {
    SHARED_ARRAY(float, shared);
    shared[threadIdx.x] = (float)threadIdx.x;
    if (waits) __syncthreads();
    x[threadIdx.x] = shared[(threadIdx.x + 32) % N];
}

/* A copy to shared memory is read before it has been waited for, or never waited for at all. */
static __global__ void copy_kernel(float *x, bool early) {
    SHARED_ARRAY(float, shared);
    copy16_async(shared + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
    copies_commit();
    float y = shared[4 * threadIdx.x];
    if (early) copies_wait<0>();
    x[4 * threadIdx.x] = y;
}

static __global__ void number_kernel(float *x) { x[threadIdx.x] = (float)threadIdx.x; }

static __global__ void add_one_kernel(float *y, const float *x) {
    y[threadIdx.x] = x[threadIdx.x] + 1;
}

template <class... Formal, class... Actual>
static void launch(void (*kernel)(Formal...), cudaStream_t s, int threads, Actual... actual) {
    cudaLaunchAttribute early = {cudaLaunchAttributeProgrammaticStreamSerialization, {1}};
    bool hasty = (const void *)kernel == (const void *)hasty_kernel;
    cudaLaunchConfig_t config = {dim3(1), dim3((unsigned)threads), N * sizeof(float), s, &early,
                                 hasty};
    cudaLaunchKernelEx(&config, kernel, actual...);
}

static const char *verdict(bool right) { return right ? "right" : "wrong"; }

static bool counts_from(const float *x, int first) {
    for (int i = 0; i < N; i++)
        if (x[i] != (float)((first + i) % N)) return false;
    return true;
}

/* What a second stream makes of x, with or without an event between both. */
static bool follows(float *x, float *y, bool waits) {
    cudaStream_t first, second;
    cudaEvent_t written;
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&written, cudaEventDisableTiming);
    launch(number_kernel, first, N, x);
    cudaEventRecord(written, first);
    if (waits) cudaStreamWaitEvent(second, written);
    launch(add_one_kernel, second, N, y, (const float *)x);
    cudaStreamSynchronize(second);
    for (int i = 0; i < N; i++)
        if (y[i] != (float)(i + 1)) return false;
    return true;
}

int main(int argc, char **argv) {
    const char *fault = argc > 1 ? argv[1] : "";
    auto is = [=](const char *name) { return strcmp(fault, name) == 0; };
    void *memory[2];
    cudaStream_t s;
    for (void *&at : memory) cudaMalloc(&at, N * sizeof(float));
    float *x = (float *)memory[0], *y = (float *)memory[1];
    if (is("stream") || is("stream-waits")) {
        puts(verdict(follows(x, y, is("stream-waits"))));
        return 0;
    }
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    if (is("divergent")) launch(divergent_kernel, s, 32, x);
    if (is("hasty")) launch(hasty_kernel, s, N, x);
    if (is("forever")) launch(forever_kernel, s, N, x);
    if (is("beyond-shared")) {
        launch(number_kernel, s, N, x);
        launch(beyond_shared_kernel, s, N, x);
    }
    if (is("beyond-memory")) launch(beyond_memory_kernel, s, N, x);
    if (is("barrier") || is("barrier-waits")) launch(swap_kernel, s, N, x, is("barrier-waits"));
    if (is("copy-early") || is("copy-never")) {
        launch(number_kernel, s, N, x);
        launch(copy_kernel, s, N / 4, x, is("copy-early"));
    }
    cudaStreamSynchronize(s);
    if (is("barrier") || is("barrier-waits")) puts(verdict(counts_from(x, 32)));
    if (is("copy-early")) puts(verdict(counts_from(x, 0)));
    if (is("unwritten")) puts(verdict(x[0] == 0));
    return 0;
}
