/* block.cc — the threads of a kernel, on one thread of the host.
 *
 * Blocks run one after the other. A block's threads are fibers with stacks of their own, which run
 * until they have to wait: for the lanes of their warp (shuffles, ballots, products of tensor
 * cores), for their block, or for a barrier that they poll. Then the next one runs. So a kernel
 * without such calls costs a function call for each thread, and one with them a switch of stacks.
 *
 * In which order blocks, and warps of a block, run is drawn from EMULATED_SEED: whatever order a
 * device may choose must give the same bits. Dynamic shared memory is filled with NaN before each
 * block. That the threads of a warp wait for each other in different places, that all threads
 * wait and nobody can go on, and writing beyond shared memory end the program with a message. */
#include "block.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include <mutex>
#include <vector>

#include "backend/cuda/mma.h"

enum {
    STACK = 128 << 10,
    SHARED_MOST = 232448, /* what a block may have on an H200, to which this adds a guard */
    GUARD = 4096,
    SLOT = 64,
    THREADS_MOST = 1024
};

struct
    exchange { /* of a warp, twice: who reads the last one may be slower than who writes the next */
    char slot[32][SLOT];
    unsigned arrived;
    const char *what;
};

struct warp {
    struct exchange round[2];
    unsigned alive;
};

enum state { READY, AT_EXCHANGE, AT_BARRIER, PAUSED, OVER };

/* Work that a thread has begun and has not waited for, in groups; the last is still open. */
typedef std::vector<std::vector<std::function<void()>>> later;

struct fiber {
    struct emulated_thread thread; /* first: emulated_self points here */
    void *stack_pointer;
    char *stack;
    enum state state;
    const char *waits_for;
    unsigned mask;  /* whom it waits for in an exchange */
    unsigned round; /* exchanges it has been through */
    bool waited;    /* for the kernel before */
    later under_way[EMULATED_KINDS];
};

struct emulated_thread *emulated_self;
uint3 emulated_block;
dim3 emulated_block_dim, emulated_grid_dim;

static struct {
    std::mutex one_at_a_time;
    struct fiber fiber[THREADS_MOST];
    struct warp warp[THREADS_MOST / 32];
    int n_thread, n_alive, n_at_barrier;
    int barrier_sum, barrier_result;
    const char *barrier_what;
    void *scheduler; /* its stack */
    const struct emulated_kernel *kernel;
    char *shared;
    size_t shared_size;
    uint64_t random;
    bool moved;                                /* somebody who polled goes on */
    std::vector<std::function<void()>> engine; /* copies of tiles that have been ordered */
} now;

void *emulated_shared(void) { return now.shared; }

static struct fiber *self(void) { return (struct fiber *)emulated_self; }

void emulated_fault(const char *format, ...) {
    va_list list;
    fprintf(stderr, "emulated GPU: kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ",
            now.kernel->name.c_str(), emulated_block.x, emulated_block.y, emulated_block.z,
            emulated_self ? threadIdx.x : 0, emulated_self ? threadIdx.y : 0,
            emulated_self ? threadIdx.z : 0);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    abort();
}

/* ---- switching ------------------------------------------------------------------------------- */

/* Saves what a function must preserve on the stack, leaves the stack's address in *from, and goes
 * on where `to` was left. */
extern "C" void emulated_switch(void **from, void *to);
asm(".text\n"
    ".type emulated_switch, @function\n"
    "emulated_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq "
    "%r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size emulated_switch, .-emulated_switch\n");

/* On to the next lane if it can run, which is the common case and half the switches. */
static void leave(enum state state, const char *what) {
    struct fiber *f = self(), *next = f + 1;
    f->state = state;
    f->waits_for = what;
    if (f->thread.lane < 31 && next < now.fiber + now.n_thread && next->state == READY) {
        now.moved = true;
        emulated_self = &next->thread;
        emulated_switch(&f->stack_pointer, next->stack_pointer);
    } else {
        emulated_switch(&f->stack_pointer, now.scheduler);
    }
}

static void barrier_check(void);
static void exchange_check(struct warp *w, struct exchange *e, unsigned mask);

static void over(struct fiber *f) {
    struct warp *w = &now.warp[f->thread.warp];
    for (later &groups : f->under_way)
        for (auto &group : groups)
            if (!group.empty()) emulated_fault("ends before what it began has been waited for");
    if (now.kernel->early && !f->waited) emulated_fault("does not wait for the kernel before");
    w->alive &= ~(1u << f->thread.lane);
    now.n_alive--;
    barrier_check();
    for (struct exchange &e : w->round)
        if (e.arrived)
            for (int i = 0; i < 32; i++) {
                struct fiber *other = &now.fiber[f->thread.warp * 32 + i];
                if (e.arrived >> i & 1u && other->state == AT_EXCHANGE)
                    exchange_check(w, &e, other->mask);
            }
}

static void fiber_main(void) {
    struct fiber *f = self();
    now.kernel->body();
    over(f);
    leave(OVER, "nothing");
    abort();
}

static void fiber_start(struct fiber *f) {
    if (!f->stack) {
        void *at = mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED || mprotect(at, GUARD, PROT_NONE))
            emulated_fault("no memory for a stack");
        f->stack = (char *)at + GUARD;
    }
    void **top = (void **)(f->stack + STACK);
    *--top = NULL; /* a function finds its stack 8 bytes off a multiple of 16 */
    *--top = (void *)fiber_main;
    for (int i = 0; i < 6; i++) *--top = NULL;
    f->stack_pointer = top;
    f->state = READY;
    f->round = 0;
    f->waited = false;
    for (later &groups : f->under_way) groups.clear();
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Lets those go on who wait in e, if all have come. */
static void exchange_check(struct warp *w, struct exchange *e, unsigned mask) {
    if ((e->arrived & mask & w->alive) != (mask & w->alive)) return;
    for (int i = 0; i < 32; i++) {
        struct fiber *f = &now.fiber[(int)(w - now.warp) * 32 + i];
        if (mask >> i & 1u && f->state == AT_EXCHANGE) f->state = READY;
    }
    e->arrived &= ~mask;
    if (!e->arrived) e->what = NULL;
}

const char *emulated_exchange(unsigned mask, const void *in, size_t size, const char *what) {
    struct fiber *f = self();
    struct warp *w = &now.warp[f->thread.warp];
    struct exchange *e = &w->round[f->round++ % 2];
    if (!(mask >> f->thread.lane & 1u)) emulated_fault("%s: a lane outside of its mask", what);
    if (e->arrived && e->what != what && strcmp(e->what, what) != 0)
        emulated_fault("%s, while other lanes of the warp are at %s", what, e->what);
    if (size == 4) /* nearly always: no call */
        memcpy(e->slot[f->thread.lane], in, 4);
    else
        memcpy(e->slot[f->thread.lane], in, size);
    e->arrived |= 1u << f->thread.lane;
    e->what = what;
    f->mask = mask;
    f->state = AT_EXCHANGE;
    exchange_check(w, e, mask);
    if (f->state == AT_EXCHANGE) leave(AT_EXCHANGE, what);
    return e->slot[0];
}

static void barrier_check(void) {
    if (now.n_at_barrier == 0 || now.n_at_barrier < now.n_alive) return;
    for (int i = 0; i < now.n_thread; i++)
        if (now.fiber[i].state == AT_BARRIER) now.fiber[i].state = READY;
    now.barrier_result = now.barrier_sum;
    now.barrier_sum = now.n_at_barrier = 0;
    now.barrier_what = NULL;
}

int emulated_barrier(int x, const char *what) {
    if (now.barrier_what && now.barrier_what != what && strcmp(now.barrier_what, what) != 0)
        emulated_fault("%s, while other threads are at %s", what, now.barrier_what);
    now.barrier_what = what;
    now.barrier_sum += x != 0;
    now.n_at_barrier++;
    self()->state = AT_BARRIER;
    barrier_check();
    if (self()->state == AT_BARRIER) leave(AT_BARRIER, what);
    return now.barrier_result;
}

void cudaGridDependencySynchronize(void) { self()->waited = true; }

void emulated_poll(bool (*over)(const void *), const void *of, const char *what) {
    bool waited = false;
    for (; !over(of); waited = true) leave(PAUSED, what);
    if (waited) now.moved = true;
}

/* ---- work that goes on beside threads -------------------------------------------------------- */

void emulated_begin(enum emulated_kind kind, std::function<void()> work) {
    later &groups = self()->under_way[kind];
    if (groups.empty()) groups.emplace_back();
    groups.back().push_back(std::move(work));
}

void emulated_commit(enum emulated_kind kind) {
    later &groups = self()->under_way[kind];
    if (groups.empty()) groups.emplace_back();
    groups.emplace_back();
}

void emulated_wait(enum emulated_kind kind, int most) {
    later &groups = self()->under_way[kind];
    while ((int)groups.size() - 1 > most) {
        for (auto &work : groups.front()) work();
        groups.erase(groups.begin());
    }
}

void emulated_engine(std::function<void()> work) { now.engine.push_back(std::move(work)); }

/* ---- blocks ---------------------------------------------------------------------------------- */

static uint32_t draw(uint32_t below) {
    now.random = now.random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((now.random >> 33) % below);
}

static void shuffle(std::vector<uint32_t> &order) {
    for (size_t i = 0; i < order.size(); i++) order[i] = (uint32_t)i;
    if (now.random)
        for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[draw((uint32_t)i)]);
}

static void shared_prepare(size_t size) {
    if (!now.shared) {
        void *at = NULL;
        if (posix_memalign(&at, 1024, SHARED_MOST + GUARD)) emulated_fault("no memory");
        now.shared = (char *)at;
    }
    now.shared_size = size;
    memset(now.shared, 0xff, size + GUARD);
}

static void shared_check(void) {
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)now.shared[now.shared_size + i] != 0xff)
            emulated_fault("wrote %zu bytes behind its %zu bytes of shared memory", i + 1,
                           now.shared_size);
}

static bool run_warp(int w) {
    bool ran = false;
    now.moved = false;
    for (int i = w * 32; i < (w + 1) * 32 && i < now.n_thread; i++) {
        struct fiber *f = &now.fiber[i];
        if (f->state != READY && f->state != PAUSED) continue;
        bool polling = f->state == PAUSED;
        emulated_self = &f->thread;
        f->state = READY;
        emulated_switch(&now.scheduler, f->stack_pointer);
        ran |= !(polling && f->state == PAUSED);
    }
    return ran || now.moved;
}

/* The copy engine is as slow as it may be: it moves a tile when nobody can go on without. */
static bool run_engine(void) {
    if (now.engine.empty()) return false;
    size_t i = now.random ? draw((uint32_t)now.engine.size()) : 0;
    std::function<void()> work = std::move(now.engine[i]);
    now.engine.erase(now.engine.begin() + (long)i);
    work();
    return true;
}

static void run_block(std::vector<uint32_t> &order) {
    while (now.n_alive > 0) {
        bool ran = false;
        for (uint32_t w : order) ran |= run_warp((int)w);
        if (ran || run_engine()) continue;
        for (int i = 0; i < now.n_thread; i++)
            if (now.fiber[i].state != OVER) {
                emulated_self = &now.fiber[i].thread;
                emulated_fault("waits for ever at %s", now.fiber[i].waits_for);
            }
    }
}

void emulated_run(const struct emulated_kernel &kernel) {
    dim3 grid = kernel.grid, block = kernel.block;
    std::lock_guard<std::mutex> hold(now.one_at_a_time);
    const char *seed = getenv("EMULATED_SEED");
    now.random = seed ? strtoull(seed, NULL, 10) : 0;
    now.kernel = &kernel;
    now.n_thread = (int)(block.x * block.y * block.z);
    emulated_block_dim = block, emulated_grid_dim = grid;
    std::vector<uint32_t> blocks((size_t)grid.x * grid.y * grid.z);
    std::vector<uint32_t> warps((size_t)(now.n_thread + 31) / 32);
    shuffle(blocks);
    for (uint32_t b : blocks) {
        emulated_block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
        shared_prepare(kernel.shared);
        for (struct warp &w : now.warp) {
            w.alive = 0;
            for (struct exchange &e : w.round) e.arrived = 0, e.what = NULL;
        }
        now.n_alive = now.n_thread;
        now.n_at_barrier = now.barrier_sum = 0;
        now.barrier_what = NULL;
        for (int i = 0; i < now.n_thread; i++) {
            struct fiber *f = &now.fiber[i];
            unsigned x = (unsigned)i;
            f->thread = {
                {x % block.x, x / block.x % block.y, x / block.x / block.y}, i / 32, i % 32};
            now.warp[i / 32].alive |= 1u << (i % 32);
            fiber_start(f);
        }
        shuffle(warps);
        run_block(warps);
        shared_check();
    }
    emulated_self = NULL;
}
