/* hopper.h — what sm_90a adds, one function each: barriers in shared memory that count bytes,
 * tiles that the copy engine moves (TMA), and products of four warps straight from shared memory
 * (wgmma).
 *
 * Tiles are 64 columns of bf16 wide, 128 bytes a row, and lie in shared memory as the copy engine
 * swizzles them: in rows of 128 bytes, at multiples of 1024, the 16 bytes c of row r are at place
 * c ^ (r % 8). So whoever reads a column meets all banks.
 *
 * wgmma: 4 warps multiply A [64 rows, 16 deep] by B [16 deep, 256 columns], sums in f32 registers.
 * Thread t of the 128 holds the rows t / 32 * 16 + t % 32 / 4 and 8 below it, of each the columns
 * 8 j + t % 4 * 2 and its neighbour: d[4 j + 2 y + x] is row + 8 y, column + x. Here A's rows lie
 * along the depth; B lies across it, a row of 64 columns for each step of the depth. */
#ifndef BACKEND_CUDA_HOPPER_H
#define BACKEND_CUDA_HOPPER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "backend/cuda/mma.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER 1

static __device__ __forceinline__ void barrier_init(uint64_t *b, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals));
}
/* After the last barrier_init: all threads and the copy engine see them. */
static __device__ __forceinline__ void barriers_ready(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
static __device__ __forceinline__ void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
/* Arrives, and keeps the phase open until that many bytes have come. */
static __device__ __forceinline__ void barrier_expect(uint64_t *b, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
                 "r"(bytes)
                 : "memory");
}
/* Waits for the end of the phase of this parity; of a fresh barrier, 1 is over already. */
static __device__ __forceinline__ void barrier_wait(uint64_t *b, uint32_t parity) {
    asm volatile("{\n.reg .pred over;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n}" ::"r"(shared_address(b)),
                 "r"(parity)
                 : "memory");
}
/* What threads wrote to shared memory becomes visible to the copy engine. */
static __device__ __forceinline__ void fence_copies(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* One tile, its first column and row; rows and columns outside the matrix come as zeros, and are
 * not written. */
static __device__ __forceinline__ void tile_fetch(void *to, const CUtensorMap *map, uint64_t *b,
                                                  int col, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
                 "l"(map), "r"(shared_address(b)), "r"(col), "r"(row)
                 : "memory");
}
static __device__ __forceinline__ void tile_store(const CUtensorMap *map, const void *from, int col,
                                                  int row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(col), "r"(row)
                 : "memory");
}
static __device__ __forceinline__ void stores_commit(void) {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Waits until this thread's stores have read their tiles; the kernel's end waits for the rest. */
static __device__ __forceinline__ void stores_read(void) {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Words of shared memory by address, where indices would cost more instructions than the access. */
static __device__ __forceinline__ void shared_load(uint32_t &x, uint32_t at) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at));
}
static __device__ __forceinline__ void shared_load2(uint32_t &x, uint32_t &y, uint32_t at) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at));
}
static __device__ __forceinline__ void shared_store(uint32_t at, uint32_t x) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}

/* The registers of each thread of these four warps from now on: more, or fewer for others. */
template <int N> static __device__ __forceinline__ void registers_raise(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> static __device__ __forceinline__ void registers_lower(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* Tiles as wgmma is told of them: A of any height, B of `rows` rows, the next 64 columns behind. */
static __device__ __forceinline__ uint64_t tile_of(uint32_t address, uint32_t next_cols) {
    const uint64_t EIGHT_ROWS = 1024 >> 4, SWIZZLE_128 = 1ull << 62;
    return (address & 0x3ffffu) >> 4 | (uint64_t)(next_cols >> 4) << 16 | EIGHT_ROWS << 32 |
           SWIZZLE_128;
}
static __device__ __forceinline__ uint64_t tile_a(uint32_t address) { return tile_of(address, 16); }
static __device__ __forceinline__ uint64_t tile_b(uint32_t address, int rows) {
    return tile_of(address, (uint32_t)rows * 128);
}

static __device__ __forceinline__ void wgmma_begin(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void wgmma_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most N committed groups are under way. */
template <int N> static __device__ __forceinline__ void wgmma_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* d = a b, or d += a b. */
static __device__ __forceinline__ void wgmma_256(float (&d)[128], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
        "%127"
        "}, %128, %129, p, 1, 1, 0, 1;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
          "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
          "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]),
          "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]),
          "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]),
          "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]),
          "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]),
          "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
          "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), "+f"(d[120]), "+f"(d[121]),
          "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b), "r"(add));
}

#endif
#endif
