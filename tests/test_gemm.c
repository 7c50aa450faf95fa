/* test_gemm.c — matrix products of every instruction set against a product in double.
 *
 * Each test runs per set this machine can run, and for AMX in emulation anywhere with AVX-512.
 * Values are compared with a tolerance that follows the number of terms; promises about bits (rows,
 * threads, serial) are compared bit by bit; what lies around C must keep its poison. */
#include "test.h"

#include <math.h>

#include "backend/cpu/fma.h"
#include "backend/cpu/little.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"

extern const struct gemm_kernel gemm_bf16_amx_emulated;

/* One product with its operands in memory of its own. */
struct product {
    struct gemm g;
    int serial, threads;
    int on_lines;          /* rows of A and B begin on cache lines */
    int64_t lda, ldb, ldc; /* as stored */
    size_t a_count, b_count, c_count;
    void *a, *b, *c, *bias, *workspace;
};

static struct isa emulated;

static const struct isa *find_isa(const char *name) {
    struct err err;
    const struct isa *isa;
    if (strcmp(name, "amx-emulated") != 0) return isa_select(&isa, name, &err) == 0 ? isa : NULL;
    if (isa_select(&isa, "avx512", &err)) return NULL;
    emulated = *isa;
    emulated.name = "amx-emulated";
    emulated.gemm_bf16 = &gemm_bf16_amx_emulated;
    return &emulated;
}

#define NEED_ISA(isa)                                                                              \
    const struct isa *isa = find_isa(TEST_ARG);                                                    \
    if (!isa) SKIP("this machine has no %s", TEST_ARG)

/* ---- data ------------------------------------------------------------------------------------ */

static double get(const void *data, size_t i, enum dtype type) {
    return dtype_load(data, type, (int64_t)i);
}

static void *random_block(size_t count, enum dtype type, struct rng *rng) {
    void *block = mem_block(count * dtype_size(type));
    assert_non_null(block);
    for (size_t i = 0; i < count; i++) {
        float x = (float)(rng_uniform(rng) * 2 - 1);
        if (type == DTYPE_F32)
            ((float *)block)[i] = x;
        else
            ((uint16_t *)block)[i] = bf16_store(x);
    }
    return block;
}

/* Fills in operands for the shape, types and flags set in p->g. Every ld has a few columns to
 * spare. */
static void product_init(struct product *p, uint64_t seed) {
    struct gemm *g = &p->g;
    struct rng rng = {.key = seed};
    p->lda = g->a.ld = (g->a.trans ? g->m : g->k) + 3;
    p->ldb = g->b.ld = (g->b.trans ? g->k : g->n) + 5;
    if (p->on_lines) {
        p->lda = g->a.ld = (p->lda + 31) / 32 * 32;
        p->ldb = g->b.ld = (p->ldb + 31) / 32 * 32;
    }
    p->ldc = g->ldc = g->n + 7;
    p->a_count = (size_t)p->lda * (size_t)(g->a.trans ? g->k : g->m);
    p->b_count = (size_t)p->ldb * (size_t)(g->b.trans ? g->n : g->k);
    p->c_count = (size_t)p->ldc * (size_t)g->m;
    g->a.data = p->a = random_block(p->a_count, g->a.type, &rng);
    g->b.data = p->b = random_block(p->b_count, g->b.type, &rng);
    g->c = p->c = random_block(p->c_count, g->c_type, &rng);
    p->bias = random_block((size_t)g->n, g->bias_type, &rng);
}

static void product_run(struct product *p, const struct isa *isa) {
    struct err err;
    struct cpu_backend be = {.isa = isa};
    struct gemm *g = &p->g;
    ASSERT_OK(pool_new(&be.pool, p->threads ? p->threads : 1, &err), err);
    const size_t size =
        p->serial ? gemm_serial_workspace(isa, g->m, g->n, g->k) : gemm_workspace(&be, g);
    p->workspace = mem_block(size + 64);
    memset(p->workspace, 0xff, size + 64); /* NaN, were any of it used before it is written */
    if (p->serial)
        gemm_serial(isa, g, p->workspace);
    else
        gemm_run(&be, g, p->workspace);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(((unsigned char *)p->workspace)[size + i], 0xff);
    pool_free(be.pool);
}

static void product_release(struct product *p) {
    mem_block_free(p->a);
    mem_block_free(p->b);
    mem_block_free(p->c);
    mem_block_free(p->bias);
    mem_block_free(p->workspace);
}

/* ---- judging --------------------------------------------------------------------------------- */

static double element(const struct product *p, int i, int j) {
    const struct gemm *g = &p->g;
    double sum = 0;
    for (int k = 0; k < g->k; k++) {
        int64_t a = g->a.trans ? k * p->lda + i : i * p->lda + k;
        int64_t b = g->b.trans ? j * p->ldb + k : k * p->ldb + j;
        sum += get(p->a, (size_t)a, g->a.type) * get(p->b, (size_t)b, g->b.type);
    }
    return sum;
}

/* Runs p and compares with the definition; `old` is C before. */
static void check(struct product *p, const struct isa *isa) {
    const struct gemm *g = &p->g;
    const size_t size = dtype_size(g->c_type);
    void *old = mem_block(p->c_count * size);
    memcpy(old, p->c, p->c_count * size);
    product_run(p, isa);
    for (int i = 0; i < g->m; i++)
        for (int64_t j = 0; j < p->ldc; j++) {
            const size_t at = (size_t)(i * p->ldc + j);
            if (j >= g->n) { /* between the rows of C */
                if (memcmp((char *)old + at * size, (char *)p->c + at * size, size) != 0)
                    fail_msg("wrote right of C at row %d", i);
                continue;
            }
            double want = element(p, i, (int)j);
            if (g->add) want += get(old, at, g->c_type);
            if (g->bias) want += get(g->bias, (size_t)j, g->bias_type);
            if (g->relu && want < 0) want = 0;
            /* Each of k additions errs by 2^-24 of a partial sum of about sqrt(k) / 3. */
            const double tol = 1e-6 + 1.2e-7 * g->k + (g->c_type == DTYPE_BF16) * fabs(want) / 200;
            const double got = get(p->c, at, g->c_type);
            if (!(fabs(got - want) <= tol))
                fail_msg("%s: %d x %d x %d, trans %d %d, types %d %d %d, add %d: c[%d,%d] = "
                         "%.9g, want %.9g within %.2g",
                         isa->name, g->m, g->n, g->k, g->a.trans, g->b.trans, g->a.type, g->b.type,
                         g->c_type, g->add, i, (int)j, got, want, tol);
        }
    mem_block_free(old);
}

/* Random flags for a given shape. */
static void check_shape(const struct isa *isa, int m, int n, int k, unsigned flags) {
    struct product p = {.g = {.m = m, .n = n, .k = k}};
    p.g.a.trans = flags & 1;
    p.g.b.trans = flags >> 1 & 1;
    const enum dtype in = flags >> 2 & 1 ? DTYPE_BF16 : DTYPE_F32;
    p.g.a.type = p.g.b.type = in;
    p.g.c_type = flags >> 3 & 1 ? DTYPE_BF16 : DTYPE_F32;
    p.g.bias_type = flags >> 4 & 1 ? DTYPE_BF16 : DTYPE_F32;
    p.g.add = flags >> 5 & 1;
    p.g.relu = flags >> 6 & 1;
    p.threads = flags >> 7 & 1 ? 2 : 1;
    p.serial = flags >> 8 & 1;
    product_init(&p, (uint64_t)m * 1000003 + (uint64_t)n * 1009 + (uint64_t)k * 17 + flags);
    if (flags >> 9 & 1) p.g.bias = p.bias;
    check(&p, isa);
    product_release(&p);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Every combination of transposition, types, add, bias, relu, at a size with edges on all sides. */
TEST(combinations) {
    NEED_ISA(isa);
    for (unsigned flags = 0; flags < 1u << 10; flags++) check_shape(isa, 17, 35, 37, flags);
}

TEST(shapes) {
    NEED_ISA(isa);
    static const int size[] = {1, 2, 3, 13, 15, 16, 17, 31, 32, 33, 64, 100};
    const int n = (int)(sizeof size / sizeof *size);
    struct rng rng = {.key = 7};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k += TEST_SANITIZED ? 3 : 1)
                check_shape(isa, size[i], size[j], size[k], rng_below(&rng, 1u << 10));
}

/* Depth across the kernel's blocks and across chunks; more rows and columns than one block. */
TEST(large) {
    NEED_ISA(isa);
    static const int shape[][3] = {{3, 33, 511},   {5, 17, 513},   {2, 40, 1025}, {33, 70, 2049},
                                   {257, 100, 31}, {31, 1100, 40}, {400, 48, 9},  {600, 40, 300},
                                   {35, 70, 4200}, {3, 16, 37000}};
    const int n = (int)(sizeof shape / sizeof *shape);
    struct rng rng = {.key = 8};
    for (int i = 0; i < n; i++)
        for (int times = 0; times < (TEST_SANITIZED ? 2 : 6); times++)
            check_shape(isa, shape[i][0], shape[i][1], shape[i][2], rng_below(&rng, 1u << 10));
}

/* Runs the product of `like` (same data) in another way and expects the same bits. */
static void same_bits(const struct product *like, const struct isa *isa, struct product way) {
    const struct gemm *g = &like->g;
    const size_t size = like->c_count * dtype_size(g->c_type);
    way.g = *g;
    struct rng rng = {.key = 99};
    way.g.c = way.c = random_block(like->c_count, g->c_type, &rng);
    product_run(&way, isa);
    if (memcmp(way.c, like->c, size) != 0)
        fail_msg("%s: bits depend on threads %d, serial %d", isa->name, way.threads, way.serial);
    mem_block_free(way.c);
    mem_block_free(way.workspace);
}

TEST(same_bits_every_way) {
    NEED_ISA(isa);
    static const int shape[][3] = {{37, 65, 700}, {70, 2100, 1100}};
    for (int i = 0; i < 2; i++)
        for (int type = 0; type < 4; type++) {
            struct product p = {.threads = 1};
            p.g = (struct gemm){.m = shape[i][0], .n = shape[i][1], .k = shape[i][2], .add = 1};
            p.g.b.trans = type & 1;
            p.g.a.type = p.g.b.type = type & 2 ? DTYPE_BF16 : DTYPE_F32;
            p.g.c_type = DTYPE_F32;
            if (i == 1 && isa == &emulated) p.g.m = 33;
            product_init(&p, 5);
            struct rng rng = {.key = 99}; /* same_bits starts from the same C */
            mem_block_free(p.c);
            p.g.c = p.c = random_block(p.c_count, p.g.c_type, &rng);
            product_run(&p, isa);
            same_bits(&p, isa, (struct product){.threads = 2});
            same_bits(&p, isa, (struct product){.threads = 3});
            const int fused = type & 2 || isa->gemm_f32 == isa->gemm_fused;
            if (fused) same_bits(&p, isa, (struct product){.serial = 1});
            product_release(&p);
        }
}

/* Row i of a product of many rows has the bits of the product of row i alone. */
TEST(rows_do_not_meet) {
    NEED_ISA(isa);
    for (int type = 0; type < 2; type++) {
        struct product p = {.threads = 2};
        p.g = (struct gemm){.m = 37, .n = 50, .k = 1100};
        p.g.a.type = p.g.b.type = type ? DTYPE_BF16 : DTYPE_F32;
        product_init(&p, 6);
        product_run(&p, isa);
        for (int i = 0; i < p.g.m; i++) {
            struct product one = {.g = p.g, .threads = 1};
            float c[50];
            one.g.m = 1;
            one.g.a.data = (char *)p.a + (size_t)(i * p.lda) * dtype_size(p.g.a.type);
            one.g.c = c;
            product_run(&one, isa);
            assert_memory_equal(c, (float *)p.c + i * p.ldc, sizeof c);
            mem_block_free(one.workspace);
        }
        product_release(&p);
    }
}

/* A bf16 C so large, of sums so deep, that the sums under way rest elsewhere, some rows at a time:
 * rows have the bits that they have in a small product. */
TEST(deep_sums_rest) {
    NEED_ISA(isa);
    if (isa == &emulated) SKIP("takes minutes in emulation");
    struct product p = {.threads = 2};
    p.g = (struct gemm){.m = 1100, .n = 1060, .k = 2052, .c_type = DTYPE_BF16, .relu = 1};
    p.g.a.type = p.g.b.type = DTYPE_BF16;
    product_init(&p, 11);
    p.g.bias = p.bias;
    product_run(&p, isa);
    for (int i = 3; i < p.g.m; i += 71) {
        struct product one = {.g = p.g, .threads = 1};
        uint16_t c[1060];
        one.g.m = 1;
        one.g.a.data = (uint16_t *)p.a + i * p.lda;
        one.g.c = c;
        product_run(&one, isa);
        assert_memory_equal(c, (uint16_t *)p.c + i * p.ldc, sizeof c);
        mem_block_free(one.workspace);
    }
    product_release(&p);
}

/* bf16 A with f32 B runs in f32. */
TEST(mixed_types) {
    NEED_ISA(isa);
    for (int flip = 0; flip < 2; flip++)
        for (unsigned trans = 0; trans < 4; trans++) {
            struct product p = {.g = {.m = 20, .n = 40, .k = 70}};
            p.g.a.type = flip ? DTYPE_BF16 : DTYPE_F32;
            p.g.b.type = flip ? DTYPE_F32 : DTYPE_BF16;
            p.g.a.trans = trans & 1;
            p.g.b.trans = trans >> 1;
            product_init(&p, 9);
            check(&p, isa);
            product_release(&p);
        }
}

TEST(no_depth) {
    NEED_ISA(isa);
    for (unsigned flags = 0; flags < 1u << 10; flags += 4) check_shape(isa, 5, 40, 0, flags);
    for (unsigned flags = 4; flags < 1u << 10; flags += 8) check_shape(isa, 5, 40, 0, flags);
}

TEST(not_a_number_survives) {
    NEED_ISA(isa);
    struct product p = {.g = {.m = 3, .n = 4, .k = 5, .relu = 1}};
    p.g.c_type = DTYPE_BF16;
    product_init(&p, 3);
    ((float *)p.a)[p.lda] = NAN;
    product_run(&p, isa);
    for (int j = 0; j < 4; j++) {
        assert_true(isnan(get(p.c, (size_t)(p.ldc + j), DTYPE_BF16)));
        assert_false(isnan(get(p.c, (size_t)j, DTYPE_BF16)));
    }
    product_release(&p);
}

/* A number or NaN of any size and sign; quite a few lie on or beside the middle between two
 * bf16. */
static float any_float(struct rng *rng) {
    const uint32_t near[] = {0x8000, 0x7fff, 0x8001, 0};
    uint32_t u = rng_below(rng, 1u << 16) << 16 | rng_below(rng, 1u << 16);
    if (rng_below(rng, 2)) u = (u & 0xffff0000) | near[rng_below(rng, 4)];
    if (rng_below(rng, 16) == 0) u = (u & 0x80000000) | (rng_below(rng, 2) ? 0x7f800000 : 0);
    float x;
    memcpy(&x, &u, sizeof x);
    return isnan(x) && rng_below(rng, 64) ? 1
                                          : x; /* few: a patch of all numbers is the usual case */
}

static void check_store(const struct gemm_kernel *kernel, struct rng *rng, unsigned flags) {
    float t[32 * 64] __attribute__((aligned(64))), bias[64];
    uint16_t bias_half[64], c[32 * 70];
    const int cols = flags & 4 ? kernel->nr : 1 + (int)rng_below(rng, (uint32_t)kernel->nr);
    const int rows = 1 + (int)rng_below(rng, (uint32_t)kernel->mr), nr = kernel->nr;
    for (int i = 0; i < kernel->mr * nr; i++) t[i] = any_float(rng);
    for (int j = 0; j < nr; j++) {
        bias_half[j] = bf16_store((float)(rng_uniform(rng) * 2 - 1));
        bias[j] = bf16_load(bias_half[j]);
    }
    struct gemm_store to = {.c = c, .ldc = 70, .type = DTYPE_BF16, .relu = flags & 1};
    to.bias_type = flags & 8 ? DTYPE_BF16 : DTYPE_F32;
    if (flags & 2) to.bias = flags & 8 ? (const void *)bias_half : bias;
    memset(c, 0x5a, sizeof c);
    kernel->store(&to, t, rows, cols);
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 70; j++) {
            uint16_t want = 0x5a5a;
            if (i < rows && j < cols) {
                float x = t[i * nr + j];
                if (to.bias) x += bias[j];
                if (to.relu && x < 0) x = 0;
                want = bf16_store(x);
            }
            if (c[i * 70 + j] != want)
                fail_msg("store, flags %u, %d x %d: [%d,%d] of %a is %04x, want %04x", flags, rows,
                         cols, i, j, i < rows && j < nr ? (double)t[i * nr + j] : 0, c[i * 70 + j],
                         want);
        }
}

/* Rounding is that of bf16_store to the bit, inside a product and at its right edge. */
TEST(stores_as_bf16_store) {
    NEED_ISA(isa);
    struct rng rng = {.key = 12};
    for (unsigned i = 0; i < (TEST_SANITIZED ? 200 : 4000); i++) {
        check_store(isa->gemm_f32, &rng, i % 16);
        check_store(isa->gemm_bf16, &rng, i % 16);
    }
}

/* A serial f32 product, on every set: blocks of 512 depths, each a chain of fused multiply-adds. */
TEST(serial_is_fused) {
    NEED_ISA(isa);
    struct product p = {.serial = 1};
    p.g = (struct gemm){.m = 13, .n = 21, .k = 1100, .b.trans = 1};
    product_init(&p, 6);
    product_run(&p, isa);
    for (int i = 0; i < p.g.m; i++)
        for (int j = 0; j < p.g.n; j++) {
            const float *a = (float *)p.a + i * p.lda, *b = (float *)p.b + j * p.ldb;
            float sum = 0;
            for (int k0 = 0; k0 < p.g.k; k0 += 512) {
                float block = 0;
                for (int k = k0; k < p.g.k && k < k0 + 512; k++) block = fmaf(a[k], b[k], block);
                sum += block;
            }
            const float got = ((float *)p.c)[i * p.ldc + j];
            if (memcmp(&got, &sum, 4) != 0)
                fail_msg("%s: (%d,%d) is %a, not %a", isa->name, i, j, got, sum);
        }
    product_release(&p);
}

static float flush(float x) { return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x; }

/* An element as tdpbf16ps sums it, from the operands as they are stored. */
static float amx_element(const struct product *p, int i, int j, float sum) {
    const struct gemm *g = &p->g;
    for (int k0 = 0; k0 < g->k; k0 += 32) {
        float part[2] = {0, 0};
        for (int k = k0; k < g->k && k < k0 + 32; k++) {
            const int64_t a = g->a.trans ? k * p->lda + i : i * p->lda + k;
            const int64_t b = g->b.trans ? j * p->ldb + k : k * p->ldb + j;
            const float x = bf16_load(((uint16_t *)p->a)[a]), w = bf16_load(((uint16_t *)p->b)[b]);
            part[k % 2] = flush(fmaf(flush(x), flush(w), part[k % 2]));
        }
        sum = flush(flush(sum) + flush(part[0] + part[1]));
    }
    return sum;
}

static void check_amx(struct product *p, const struct isa *isa) {
    const struct gemm *g = &p->g;
    const size_t size = dtype_size(g->c_type);
    unsigned char *want = mem_block(p->c_count * size);
    memcpy(want, p->c, p->c_count * size);
    for (int i = 0; i < g->m; i++)
        for (int j = 0; j < g->n; j++) {
            const size_t at = (size_t)(i * p->ldc + j);
            float x = amx_element(p, i, j, g->add ? (float)get(want, at, g->c_type) : 0);
            if (g->bias) x += (float)get(g->bias, (size_t)j, g->bias_type);
            if (g->relu && x < 0) x = 0;
            dtype_store(want, g->c_type, (int64_t)at, (double)x);
        }
    product_run(p, isa);
    for (size_t at = 0; at < p->c_count; at++)
        if (memcmp(want + at * size, (char *)p->c + at * size, size) != 0)
            fail_msg("%s: %d x %d x %d, trans %d %d, c %d, add %d, lines %d: c[%zu,%zu] is %.9g, "
                     "not %.9g",
                     isa->name, g->m, g->n, g->k, g->a.trans, g->b.trans, g->c_type, g->add,
                     p->on_lines, at / (size_t)p->ldc, at % (size_t)p->ldc,
                     get(p->c, at, g->c_type), get(want, at, g->c_type));
    mem_block_free(want);
}

/* 1 .. most, small and around the ends of registers and patches more often than not. */
static int any_side(struct rng *rng, int most) {
    const int n = 1 + (int)rng_below(rng, rng_below(rng, 2) ? (uint32_t)most : 40);
    return rng_below(rng, 3) ? n : max_int(1, (n + 15) / 16 * 16 + (int)rng_below(rng, 3) - 1);
}

/* Thousands of products of any shape, with the bits that AMX's definition gives them: on AMX where
 * there is one, and in emulation. */
TEST(amx_fuzz) {
    NEED_ISA(isa);
    struct rng rng = {.key = 15};
    const int times = TEST_SANITIZED ? 300 : 3000;
    for (int n = 0; n < times; n++) {
        struct product p = {.on_lines = (int)rng_below(&rng, 2)};
        struct gemm *g = &p.g;
        const int deep = n % 100 == 99; /* beyond what is multiplied without a pause */
        g->m = any_side(&rng, deep ? 70 : 150);
        g->n = any_side(&rng, deep ? 70 : 150);
        g->k = deep ? 2000 + any_side(&rng, 400) : any_side(&rng, n % 10 ? 130 : 700);
        if (rng_below(&rng, 2)) g->k = (g->k + 31) / 32 * 32;
        uint32_t flags = rng_below(&rng, 1u << 8);
        if (n % 10 == 1) { /* y = x w^T, whose C may be computed transposed */
            g->k = 256 + 32 * (int)rng_below(&rng, 4);
            p.on_lines = 1;
            flags = (flags & ~0x11u) | 0x6u;
        }
        g->a.trans = flags & 1;
        g->b.trans = flags >> 1 & 1;
        g->a.type = g->b.type = DTYPE_BF16;
        g->c_type = flags >> 2 & 1 ? DTYPE_BF16 : DTYPE_F32;
        g->bias_type = flags >> 3 & 1 ? DTYPE_BF16 : DTYPE_F32;
        g->add = flags >> 4 & 1;
        g->relu = flags >> 5 & 1;
        p.serial = flags >> 6 & 1;
        p.threads = 1 + n % 3;
        product_init(&p, (uint64_t)n);
        if (flags >> 7 & 1) g->bias = p.bias;
        check_amx(&p, isa);
        product_release(&p);
    }
}

#ifndef __FMA__
/* The emulation against the C library, above all where rounding twice goes wrong: a b is next to
 * half a unit of c, of ordinary size and denormal. */
TEST(emulated_fma) {
    struct rng rng = {.key = 7};
    for (int n = 0; n < 2000000; n++) {
        __m128 x[3], got;
        for (int i = 0; i < 12; i++) {
            uint32_t bits = (uint32_t)rng_next(&rng), mask = UINT32_MAX << rng_below(&rng, 24);
            bits &= mask;
            if (n % 4 == 1) bits = (bits & 0x80ffffff) | 0x3f000000; /* near 1 */
            memcpy((float *)x + i, &bits, 4);
        }
        for (int i = 0; i < 4 && n % 4 > 1; i++) { /* half a unit of c, more or less */
            const int unit = n % 4 == 2 ? -149 : (int)rng_below(&rng, 60) - 24;
            const float a = 1 + ldexpf(1, -(int)rng_below(&rng, 25));
            const float b = 1 - ldexpf(1, -1 - (int)rng_below(&rng, 25));
            x[0][i] = ldexpf(a, unit / 2);
            x[1][i] = ldexpf(rng_below(&rng, 2) ? b : -b, unit - unit / 2 - 1);
            x[2][i] = ldexpf((float)((n % 4 == 3) << 23 | rng_below(&rng, 1 << 22)), unit);
        }
        got = f32x4_fma(x[0], x[1], x[2]);
        for (int i = 0; i < 4; i++) {
            const float want = fmaf(x[0][i], x[1][i], x[2][i]), is = got[i];
            if (memcmp(&want, &is, 4) != 0 && !(isnan(want) && isnan(is)))
                fail_msg("%a * %a + %a is %a, not %a", x[0][i], x[1][i], x[2][i], is, want);
        }
    }
}
#else
TEST(emulated_fma) { SKIP("this build has the instruction"); }
#endif

/* C as little_run leaves it, bit by bit what gemm_serial makes of the operands as f32; the memory
 * around C and behind the workspace stays. */
static void check_little(const struct isa *isa, int m, int n, int k, unsigned flags) {
    struct product p = {.g = {.m = m, .n = n, .k = k}, .serial = 1};
    p.g.a.trans = flags & 1;
    p.g.b.trans = flags >> 1 & 1;
    p.g.a.type = flags >> 2 & 1 ? DTYPE_BF16 : DTYPE_F32;
    p.g.b.type = flags >> 3 & 1 ? DTYPE_BF16 : DTYPE_F32;
    p.g.c_type = DTYPE_F32;
    p.g.add = flags >> 4 & 1;
    product_init(&p, (uint64_t)m * 1000003 + (uint64_t)n * 1009 + (uint64_t)k * 17 + flags);
    const size_t bytes = p.c_count * sizeof(float), size = little_workspace(m, n, k);
    float *got = mem_block(bytes);
    char *workspace = mem_block(size + 64);
    memcpy(got, p.c, bytes);
    memset(workspace, 0xff, size + 64);
    struct gemm g = p.g;
    g.c = got;
    little_run(isa, &g, workspace);
    for (size_t i = 0; i < 64; i++) assert_int_equal((unsigned char)workspace[size + i], 0xff);
    /* f32 on both sides, as little_run sees them */
    float *wide[2] = {mem_block(p.a_count * sizeof(float)), mem_block(p.b_count * sizeof(float))};
    for (size_t i = 0; i < p.a_count; i++) wide[0][i] = (float)get(p.a, i, p.g.a.type);
    for (size_t i = 0; i < p.b_count; i++) wide[1][i] = (float)get(p.b, i, p.g.b.type);
    p.g.a.data = wide[0];
    p.g.b.data = wide[1];
    p.g.a.type = p.g.b.type = DTYPE_F32;
    product_run(&p, isa);
    if (memcmp(got, p.c, bytes) != 0)
        fail_msg("%s: %d x %d x %d, flags %u: other bits", isa->name, m, n, k, flags);
    mem_block_free(wide[0]);
    mem_block_free(wide[1]);
    mem_block_free(got);
    mem_block_free(workspace);
    product_release(&p);
}

TEST(little) {
    NEED_ISA(isa);
    if (!isa->little) SKIP("%s packs small products, too", TEST_ARG);
    struct rng rng = {.key = 31};
    for (unsigned flags = 0; flags < 32; flags++) {
        check_little(isa, 1, 1, 1, flags);
        check_little(isa, 64, 64, LITTLE_DEPTH, flags);
        for (int i = 0; i < 60; i++)
            check_little(isa, 1 + (int)rng_below(&rng, 70), 1 + (int)rng_below(&rng, 70),
                         1 + (int)rng_below(&rng, 70), flags);
    }
}

/* Callers ask for the workspace of their largest product. */
TEST(workspace_never_shrinks) {
    NEED_ISA(isa);
    struct err err;
    struct cpu_backend be = {.isa = isa};
    struct rng rng = {.key = 4};
    ASSERT_OK(pool_new(&be.pool, 2, &err), err);
    for (int i = 0; i < 20000; i++) {
        struct gemm g = {.m = 1 + (int)rng_below(&rng, 3000), .n = 1 + (int)rng_below(&rng, 9000)};
        g.k = 1 + (int)rng_below(&rng, 5000);
        g.a.type = g.b.type = i & 1 ? DTYPE_BF16 : DTYPE_F32;
        g.c_type = i & 2 ? DTYPE_BF16 : DTYPE_F32;
        struct gemm less = g;
        less.m -= (int)rng_below(&rng, (uint32_t)g.m);
        less.n -= (int)rng_below(&rng, (uint32_t)g.n);
        less.k -= (int)rng_below(&rng, (uint32_t)g.k);
        assert_true(gemm_workspace(&be, &less) <= gemm_workspace(&be, &g));
        assert_true(gemm_serial_workspace(isa, less.m, less.n, less.k) <=
                    gemm_serial_workspace(isa, g.m, g.n, g.k));
        assert_true(little_workspace(less.m, less.n, less.k) <= little_workspace(g.m, g.n, g.k));
    }
    pool_free(be.pool);
}

TEST(selection) {
    struct err err = {0};
    const struct isa *isa;
    ASSERT_OK(isa_select(&isa, NULL, &err), err);
    const struct isa *best = isa;
    ASSERT_OK(isa_select(&isa, "auto", &err), err);
    assert_ptr_equal(isa, best);
    ASSERT_OK(isa_select(&isa, "generic", &err), err);
    assert_string_equal(isa->name, "generic");
    ASSERT_ERR(isa_select(&isa, "mmx", &err), err, HEED_EINVAL, "'mmx'");
    assert_non_null(strstr(err.msg, "generic"));
    assert_null(isa);
    for (const struct isa *const *i = isa_table; *i; i++) {
        const int rc = isa_select(&isa, (*i)->name, &err);
        assert_int_equal(rc == 0, isa_usable(*i));
    }
}

#define EACH_ISA(f)                                                                                \
    TP(f, "generic"), TP(f, "avx2"), TP(f, "avx512"), TP(f, "avx512bf16"), TP(f, "amx"),           \
        TP(f, "amx-emulated")

TESTS(T(selection), EACH_ISA(combinations), EACH_ISA(shapes), EACH_ISA(large),
      EACH_ISA(same_bits_every_way), EACH_ISA(rows_do_not_meet), EACH_ISA(deep_sums_rest),
      EACH_ISA(mixed_types), EACH_ISA(no_depth), EACH_ISA(not_a_number_survives),
      EACH_ISA(stores_as_bf16_store), EACH_ISA(workspace_never_shrinks), EACH_ISA(serial_is_fused),
      EACH_ISA(little), T(emulated_fma), TPL(amx_fuzz, "amx", 300),
      TPL(amx_fuzz, "amx-emulated", 300))
