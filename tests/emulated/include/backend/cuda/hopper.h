/* hopper.h — what src/backend/cuda/hopper.h says in the words of sm_90a, in plain C++. Copies and
 * products are made as late as they may be, so that a missing wait shows. Whether writes become
 * visible to the copy engine (fences) cannot be tested here. */
#ifndef BACKEND_CUDA_HOPPER_H
#define BACKEND_CUDA_HOPPER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "backend/cuda/mma.h"

#define HOPPER 1

/* Eight bytes in shared memory. */
struct emulated_mbarrier {
    uint16_t count;
    int16_t pending;
    int32_t bytes_and_phase; /* twice the bytes that are awaited, and the phase's parity */
};
static inline struct emulated_mbarrier *emulated_mbarrier_of(uint64_t *b) {
    static_assert(sizeof(struct emulated_mbarrier) == sizeof *b, "a barrier is eight bytes");
    return reinterpret_cast<struct emulated_mbarrier *>(b);
}
static inline void emulated_mbarrier_turn(struct emulated_mbarrier *m) {
    if (m->pending < 0) emulated_fault("mbarrier: more arrivals than it was made for");
    if (m->pending > 0 || m->bytes_and_phase / 2 != 0) return;
    m->pending = (int16_t)m->count;
    m->bytes_and_phase ^= 1;
}

static inline void barrier_init(uint64_t *b, int arrivals) {
    *emulated_mbarrier_of(b) = {(uint16_t)arrivals, (int16_t)arrivals, 0};
}
static inline void barriers_ready(void) {}
static inline void barrier_arrive(uint64_t *b) {
    emulated_mbarrier_of(b)->pending--;
    emulated_mbarrier_turn(emulated_mbarrier_of(b));
}
static inline void barrier_expect(uint64_t *b, uint32_t bytes) {
    emulated_mbarrier_of(b)->bytes_and_phase += 2 * (int32_t)bytes;
    barrier_arrive(b);
}
static inline void barrier_wait(uint64_t *b, uint32_t parity) {
    auto over = [](const void *of) {
        return (((const struct emulated_mbarrier *)of)->bytes_and_phase & 1) != 0;
    };
    auto even_over = [](const void *of) {
        return (((const struct emulated_mbarrier *)of)->bytes_and_phase & 1) == 0;
    };
    if (parity & 1)
        emulated_poll(even_over, b, "an mbarrier");
    else
        emulated_poll(over, b, "an mbarrier");
}
static inline void fence_copies(void) {}

/* The place in a swizzled tile of the eight numbers from column c of row r. */
static inline char *emulated_place(void *tile, int r, int c) {
    return (char *)tile + r * 128 + (((c / 8) ^ (r % 8)) * 16);
}
static inline void emulated_fetch(void *to, const CUtensorMap *map, int col, int row) {
    for (int r = 0; r < map->box_rows; r++)
        for (int c = 0; c < map->box_cols; c += 8) {
            uint16_t eight[8] = {};
            for (int i = 0; i < 8; i++) {
                int64_t x = col + c + i, y = row + r;
                if (x >= 0 && x < map->cols && y >= 0 && y < map->rows)
                    memcpy(&eight[i], map->at + y * map->pitch + x * 2, 2);
            }
            memcpy(emulated_place(to, r, c), eight, sizeof eight);
        }
}
static inline void tile_fetch(void *to, const CUtensorMap *map, uint64_t *b, int col, int row) {
    if (shared_address(to) % 1024) emulated_fault("a tile that is not aligned to 1024 bytes");
    emulated_engine([to, of = *map, b, col, row]() {
        emulated_fetch(to, &of, col, row);
        emulated_mbarrier_of(b)->bytes_and_phase -= 2 * of.box_rows * of.box_cols * 2;
        emulated_mbarrier_turn(emulated_mbarrier_of(b));
    });
}
static inline void tile_store(const CUtensorMap *map, const void *from, int col, int row) {
    emulated_begin(EMULATED_STORES, [of = *map, from, col, row]() {
        for (int r = 0; r < of.box_rows && row + r < of.rows; r++)
            for (int c = 0; c < of.box_cols && col + c < of.cols; c++)
                memcpy(of.at + (row + r) * of.pitch + (col + c) * 2,
                       emulated_place(const_cast<void *>(from), r, c) + c % 8 * 2, 2);
    });
}
static inline void stores_commit(void) { emulated_commit(EMULATED_STORES); }
static inline void stores_read(void) { emulated_wait(EMULATED_STORES, 0); }

static inline uint32_t *emulated_word(uint32_t at) {
    return (uint32_t *)((char *)emulated_shared() + at);
}
static inline void shared_load(uint32_t &x, uint32_t at) { x = *emulated_word(at); }
static inline void shared_load2(uint32_t &x, uint32_t &y, uint32_t at) {
    x = *emulated_word(at), y = *emulated_word(at + 4);
}
static inline void shared_store(uint32_t at, uint32_t x) { *emulated_word(at) = x; }

template <int N> static inline void registers_raise(void) {}
template <int N> static inline void registers_lower(void) {}

/* A tile by its address and, for B, how far on the next 64 columns are. */
static inline uint64_t tile_a(uint32_t address) { return address; }
static inline uint64_t tile_b(uint32_t address, int rows) {
    return address | (uint64_t)(rows * 128) << 32;
}
/* The number at (row, column) of a swizzled tile. Where a tile begins inside the rows of another
 * (A moves along the depth by 32 bytes), it is the address of what is read that is swizzled. */
static inline float emulated_cell(uint32_t tile, int row, int col) {
    uint32_t at = tile + (uint32_t)row * 128 + (uint32_t)col * 2;
    const uint16_t *x = (const uint16_t *)emulated_word(at ^ (at / 128 % 8) * 16);
    return __uint_as_float((unsigned)*x << 16);
}

/* What is said for a whole warp is said by all of its lanes. */
static inline void wgmma_begin(void) { emulated_exchange(0xffffffffu, "", 0, "wgmma.fence"); }
static inline void wgmma_commit(void) {
    emulated_exchange(0xffffffffu, "", 0, "wgmma.commit_group");
    emulated_commit(EMULATED_PRODUCTS);
}
template <int N> static inline void wgmma_wait(void) {
    emulated_wait(EMULATED_PRODUCTS, N);
    emulated_exchange(0xffffffffu, "", 0, "wgmma.wait_group");
}
static inline void emulated_wgmma(float *d, uint64_t a, uint64_t b, int add) {
    int t = (int)(threadIdx.x % 128), row = t / 32 * 16 + t % 32 / 4, col = t % 4 * 2;
    for (int y = 0; y < 2; y++) {
        float of_a[16];
        for (int k = 0; k < 16; k++) of_a[k] = emulated_cell((uint32_t)a, row + 8 * y, k);
        for (int j = 0; j < 32; j++)
            for (int x = 0; x < 2; x++) {
                int c = 8 * j + col + x;
                uint32_t tile = (uint32_t)b + (uint32_t)(b >> 32) * (uint32_t)(c / 64);
                float sum = add ? d[4 * j + 2 * y + x] : 0;
                for (int k = 0; k < 16; k++) sum += of_a[k] * emulated_cell(tile, k, c % 64);
                d[4 * j + 2 * y + x] = sum;
            }
    }
}
static inline void wgmma_256(float (&d)[128], uint64_t a, uint64_t b, int add) {
    float *sum = d;
    emulated_begin(EMULATED_PRODUCTS, [=]() { emulated_wgmma(sum, a, b, add); });
}

#endif
