/* test_decode.c — attention_step, ssru_step and topk: against attention and ssru themselves,
 * against ref, and their order. */
#include "base/mem.h"
#include "base/rng.h"
#include "ops.h"

/* ---- step ------------------------------------------------------------------------------------ */

enum { BEAMS = 6, CACHE = 400, LEN_MAX = 300 };
static const int32_t step_len[BEAMS] = {1, 5, LEN_MAX, 17, 2, 64};

/* A cache of rows in scattered order: step t of hypothesis b is row index[b][t]. */
struct step_case {
    int n_head, d_k, d_v, window, cross;
};
static const struct step_case step_cases[] = {
    {1, 1, 1, 0, 0},   {2, 3, 5, 0, 0},    {2, 3, 5, 0, 1},    {4, 16, 16, 0, 0},
    {3, 33, 20, 0, 1}, {2, 8, 8, 7, 0},    {1, 64, 64, 64, 1}, {1, 64, 64, 1000, 0},
    {8, 64, 64, 0, 1}, {17, 32, 32, 9, 0},
};

struct step_data {
    int32_t index[BEAMS][LEN_MAX + 3], start[BEAMS];
};

static struct step_data step_data(void) {
    struct step_data d;
    struct rng rng = {.key = 5};
    memset(&d, 0xff, sizeof d); /* entries past len are never read */
    for (int b = 0; b < BEAMS; b++) {
        d.start[b] = (int32_t)rng_below(&rng, (uint32_t)(CACHE - step_len[b] + 1));
        for (int t = 0; t < step_len[b]; t++)
            d.index[b][t] = (int32_t)rng_below(&rng, CACHE - BEAMS);
        d.index[b][step_len[b] - 1] = CACHE - BEAMS + b; /* nobody else's */
    }
    return d;
}

/* F16 is the cache's type, beside F32. */
static double *run_step(struct backend *be, enum dtype cache, const struct step_case *c) {
    const enum dtype type = cache == DTYPE_F16 ? DTYPE_F32 : cache;
    struct step_data d = step_data();
    struct attention_step_args a = {.n_head = c->n_head, .max_len = LEN_MAX, .window = c->window};
    a.o = ops_mat(be, type, BEAMS, c->n_head * c->d_v, NULL);
    a.q = ops_random(be, type, BEAMS, c->n_head * c->d_k, 1);
    a.k = ops_random(be, cache, CACHE, c->n_head * c->d_k, 2);
    a.v = ops_random(be, cache, CACHE, c->n_head * c->d_v, 3);
    a.len = ops_ints(be, step_len, BEAMS);
    if (c->cross)
        a.start = ops_ints(be, d.start, BEAMS);
    else
        a.index = ops_ints(be, d.index[0], BEAMS * (LEN_MAX + 3));
    a.index_ld = LEN_MAX + 3;
    /* the rows of the new tokens join the cache first; each hypothesis has its own */
    if (!c->cross) {
        a.k_new = ops_random(be, type, BEAMS, c->n_head * c->d_k, 4);
        a.v_new = ops_random(be, type, BEAMS, c->n_head * c->d_v, 5);
    }
    a.scale = 1 / sqrtf((float)c->d_k);
    attention_step(be, &a);
    op_check_sync(be, "attention_step");
    return ops_values(be, &a.o);
}

/* Against ref; any number of threads has the same bits, and with an F16 cache, which int8 models
 * have, any instruction set. */
static void step_compare_types(struct ops_backend *list, struct backend *ref,
                               const struct step_case *c, enum dtype cache) {
    int cols = c->n_head * c->d_v;
    double *want = run_step(ref, cache, c), *first = NULL;
    for (int i = 0; list[i].be; i++) {
        double *got = run_step(list[i].be, cache, c);
        ops_check_near(cache == DTYPE_F16 ? DTYPE_F32 : cache, got, want, BEAMS, cols,
                       list[i].text);
        if (first) assert_memory_equal(got, first, BEAMS * (size_t)cols * sizeof *got);
        first = i % 2 == 0 || cache == DTYPE_F16 ? got : NULL;
    }
    ops_release();
}

TEST(step_compare) {
    struct ops_backend *list = ops_open(TEST_ARG);
    struct backend *ref = ops_ref_open();
    for (size_t n = 0; n < sizeof step_cases / sizeof *step_cases; n++) {
        step_compare_types(list, ref, &step_cases[n], DTYPE_F32);
        step_compare_types(list, ref, &step_cases[n], DTYPE_BF16);
        if (!backend_device_memory(list[0].be))
            step_compare_types(list, ref, &step_cases[n], DTYPE_F16);
    }
    backend_close(ref);
    ops_cpu_close(list);
}

/* Hypotheses of a sentence see the same keys, and may be computed together: runs of one to seven of
 * them, with lengths that differ within a run once. On the CPU each has the bits it has alone. */
static void step_together(struct backend *be, enum dtype cache, int heads, int d,
                          const char *what) {
    enum { ROWS = 29 };
    const enum dtype type = cache == DTYPE_F16 ? DTYPE_F32 : cache;
    int32_t start[ROWS], len[ROWS];
    for (int b = 0, run = 1, left = 1; b < ROWS; b++, left--) {
        if (!left) left = ++run;
        start[b] = 11 * run;
        len[b] = run == 5 && left > 2 ? 30 : 10 + run;
    }
    struct attention_step_args a = {.n_head = heads, .max_len = 40, .scale = 0.4f};
    a.o = ops_mat(be, type, ROWS, heads * d, NULL);
    a.q = ops_random(be, type, ROWS, heads * d, 1);
    a.k = ops_random(be, cache, 120, heads * d, 2);
    a.v = ops_random(be, cache, 120, heads * d, 3);
    a.start = ops_ints(be, start, ROWS);
    a.len = ops_ints(be, len, ROWS);
    attention_step(be, &a);
    op_check_sync(be, what);
    double *all = ops_values(be, &a.o);
    const size_t row = (size_t)heads * (size_t)d * sizeof *all;
    for (int b = 0; b < ROWS; b++) {
        struct attention_step_args one = a;
        one.o = ops_mat(be, type, 1, heads * d, NULL);
        one.q = mat_rows(a.q, b, 1);
        one.start = ops_ints(be, start + b, 1);
        one.len = ops_ints(be, len + b, 1);
        attention_step(be, &one);
        op_check_sync(be, what);
        double *alone = ops_values(be, &one.o), *among = all + (size_t)(b * heads * d);
        if (backend_device_memory(be))
            ops_check_near(type, among, alone, 1, heads * d, what);
        else
            assert_memory_equal(among, alone, row);
    }
    ops_release();
}

TEST(step_neighbours) {
    static const enum dtype cache[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    static const int shape[][2] = {{3, 5}, {8, 64}, {17, 32}, {9, 20}};
    struct ops_backend *list = ops_open(TEST_ARG);
    for (int i = 0; list[i].be; i++)
        for (size_t n = 0; n < sizeof shape / sizeof *shape; n++)
            for (int t = 0; t < 3 - (backend_device_memory(list[i].be) != 0); t++)
                step_together(list[i].be, cache[t], shape[n][0], shape[n][1], list[i].text);
    ops_cpu_close(list);
}

/* One query per sentence over the sentence's keys is the definition; the cache holds the same rows,
 * once in order (start) and once scattered (index). A window on the last query is a causal
 * window. */
static void step_is_attention(struct backend *be, enum dtype type, const char *what) {
    enum { H = 2, D_K = 5, D_V = 7, SEQ = 4, TOK = 90 };
    static const int32_t len[SEQ] = {1, 30, 57, 2};
    int32_t start[SEQ + 1] = {0}, q_start[SEQ + 1], index[SEQ * 64] = {0};
    for (int s = 0; s <= SEQ; s++) q_start[s] = s;
    for (int s = 0; s < SEQ; s++) start[s + 1] = start[s] + len[s];
    for (int s = 0; s < SEQ; s++)
        for (int t = 0; t < len[s]; t++) index[s * 64 + t] = start[s] + t;
    struct attention_args a = {.n_head = H, .scale = 0.4f};
    a.o = ops_mat(be, type, SEQ, H * D_V, NULL);
    a.q = ops_random(be, type, SEQ, H * D_K, 1);
    a.k = ops_random(be, type, TOK, H * D_K, 2);
    a.v = ops_random(be, type, TOK, H * D_V, 3);
    a.lse = ops_mat(be, DTYPE_F32, H, SEQ, NULL);
    a.rq = (struct rows){ops_ints(be, q_start, SEQ + 1), SEQ, SEQ, 1};
    a.rk = (struct rows){ops_ints(be, start, SEQ + 1), SEQ, TOK, 57};
    attention_fwd(be, &a);
    struct attention_step_args b = {.q = a.q, .k = a.k, .v = a.v, .n_head = H, .max_len = 57};
    b.o = ops_mat(be, type, SEQ, H * D_V, NULL);
    b.scale = a.scale;
    b.len = ops_ints(be, len, SEQ);
    b.start = ops_ints(be, start, SEQ);
    attention_step(be, &b);
    op_check_sync(be, what);
    ops_check_near(type, ops_values(be, &b.o), ops_values(be, &a.o), SEQ, H * D_V, what);
    b.start = NULL;
    b.index = ops_ints(be, index, SEQ * 64);
    b.index_ld = 64;
    attention_step(be, &b);
    op_check_sync(be, what);
    ops_check_near(type, ops_values(be, &b.o), ops_values(be, &a.o), SEQ, H * D_V, what);
    ops_release();
}

TEST(step_is_attention_of_one_query) {
    struct ops_backend *list = ops_open(TEST_ARG);
    struct backend *ref = ops_ref_open();
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        step_is_attention(ref, (enum dtype)type, "ref");
        for (int i = 0; list[i].be; i++)
            step_is_attention(list[i].be, (enum dtype)type, list[i].text);
    }
    backend_close(ref);
    ops_cpu_close(list);
}

/* Windowed step over a whole sentence equals the last row of windowed causal attention. */
TEST(step_window) {
    enum { LEN = 40, D_HEAD = 6, WINDOW = 5 };
    struct backend *ref = ops_ref_open();
    int32_t start[2] = {0, LEN}, len[1] = {LEN};
    struct attention_args a = {.n_head = 1, .causal = 1, .window = WINDOW, .scale = 0.4f};
    a.o = ops_mat(ref, DTYPE_F32, LEN, D_HEAD, NULL);
    a.q = ops_random(ref, DTYPE_F32, LEN, D_HEAD, 1);
    a.k = ops_random(ref, DTYPE_F32, LEN, D_HEAD, 2);
    a.v = ops_random(ref, DTYPE_F32, LEN, D_HEAD, 3);
    a.lse = ops_mat(ref, DTYPE_F32, 1, LEN, NULL);
    a.rq = a.rk = (struct rows){ops_ints(ref, start, 2), 1, LEN, LEN};
    attention_fwd(ref, &a);
    struct attention_step_args b = {.k = a.k, .v = a.v, .n_head = 1, .max_len = LEN};
    b.o = ops_mat(ref, DTYPE_F32, 1, D_HEAD, NULL);
    b.q = a.q;
    b.q.data = (float *)a.q.data + (LEN - 1) * a.q.ld;
    b.q.rows = 1;
    b.scale = a.scale;
    b.window = WINDOW;
    b.start = a.rq.start;
    b.len = ops_ints(ref, len, 1);
    attention_step(ref, &b);
    op_check_sync(ref, "step_window");
    double *want = ops_values(ref, &a.o) + (LEN - 1) * D_HEAD;
    ops_check_near(DTYPE_F32, ops_values(ref, &b.o), want, 1, D_HEAD, "window");
    ops_release();
    backend_close(ref);
}

/* ---- ssru ------------------------------------------------------------------------------------ */

/* Three hypotheses of six tokens as a beam makes them: at step 2 the first two descend from the
 * second, at step 4 all from the third, and their rows of the cache lie anywhere. What the steps
 * say of each hypothesis, and the states that they leave, are what ssru says of its tokens as a
 * sentence: to the last bit, since both carry the state in the type of statistics. */
enum { TREE_HYP = 3, TREE_LEN = 6, TREE_CACHE = 23 };
static const int tree_parent[TREE_LEN][TREE_HYP] = {{0},       {0, 1, 2}, {1, 1, 2},
                                                    {0, 1, 2}, {2, 2, 2}, {2, 0, 1}};

static int tree_row(int step, int b) { return (step * TREE_HYP + b) * 7 % TREE_CACHE; }

/* Line b of the index table after `step`, and as (step, hypothesis) where each token was. */
static void tree_line(int step, int b, int32_t *index, int *at) {
    for (int t = step, h = b; t >= 0; h = tree_parent[t][h], t--) {
        index[t] = tree_row(t, h);
        at[t] = t * TREE_HYP + h;
    }
}

static struct mat row_slice(struct mat m, int first, int n) {
    m.data = (char *)m.data + (size_t)first * (size_t)m.ld * dtype_size(m.type);
    m.rows = n;
    return m;
}

/* Hypothesis b after the last step as a sentence of its own; its rows out of the tree's. */
static void tree_sentence(struct backend *be, const struct mat *gx, const struct mat *cache,
                          const struct mat *last, int b) {
    enum { ALL = TREE_LEN * TREE_HYP };
    int d = cache->cols, at[TREE_LEN];
    int32_t index[TREE_LEN], start[2] = {0, TREE_LEN};
    enum dtype type = gx->type, wide = cache->type;
    double *from = ops_values(be, gx), *line = xmalloc((size_t)(2 * d * TREE_LEN) * sizeof *line);
    tree_line(TREE_LEN - 1, b, index, at);
    for (int t = 0; t < TREE_LEN; t++)
        memcpy(line + (size_t)(2 * d * t), from + (size_t)(2 * d * at[t]),
               (size_t)(2 * d) * sizeof *line);
    struct mat own = ops_mat(be, type, TREE_LEN, 2 * d, line);
    struct ssru_args s = {.g = mat_cols(own, 0, d), .x = mat_cols(own, d, d)};
    s.rows = (struct rows){ops_ints(be, start, 2), 1, TREE_LEN, TREE_LEN};
    s.c = ops_mat(be, wide, TREE_LEN, d, NULL);
    s.o = ops_mat(be, type, TREE_LEN, d, NULL);
    ssru_fwd(be, &s);
    op_check_sync(be, "ssru_fwd");
    double *c = ops_values(be, &s.c), *o = ops_values(be, &s.o), *got = ops_values(be, cache);
    for (int t = 0; t < TREE_LEN; t++)
        assert_memory_equal(c + (size_t)(d * t), got + (size_t)(d * index[t]),
                            (size_t)d * sizeof *c);
    assert_memory_equal(o + (size_t)(d * (TREE_LEN - 1)), ops_values(be, last) + (size_t)(d * b),
                        (size_t)d * sizeof *o);
    xfree(line);
}

/* Returns what the last step says and the cache behind it. */
static double *run_tree(struct backend *be, enum dtype type, int d) {
    enum { LINE = TREE_LEN + 2 };
    struct mat gx = ops_random(be, type, TREE_LEN * TREE_HYP, 2 * d, 3), rows;
    struct ssru_step_args a = {.index_ld = LINE};
    a.c = ops_mat(be, dtype_wide(type), TREE_CACHE, d, NULL);
    a.o = ops_mat(be, type, TREE_HYP, d, NULL);
    for (int step = 0; step < TREE_LEN; step++) {
        int32_t index[TREE_HYP][LINE], len[TREE_HYP];
        int at[TREE_LEN];
        memset(index, 0xff, sizeof index); /* entries past len are never read */
        for (int b = 0; b < TREE_HYP; b++) {
            tree_line(step, b, index[b], at);
            len[b] = step + 1;
        }
        rows = row_slice(gx, step * TREE_HYP, TREE_HYP);
        a.g = mat_cols(rows, 0, d);
        a.x = mat_cols(rows, d, d);
        a.index = ops_ints(be, index[0], TREE_HYP * LINE);
        a.len = ops_ints(be, len, TREE_HYP);
        ssru_step(be, &a);
    }
    op_check_sync(be, "ssru_step");
    for (int b = 0; b < TREE_HYP; b++) tree_sentence(be, &gx, &a.c, &a.o, b);
    return ops_values(be, &a.o);
}

TEST(ssru_tree) {
    static const int widths[] = {1, 13, 64, 256, 9000};
    struct ops_backend *list = ops_open(TEST_ARG);
    struct backend *ref = ops_ref_open();
    for (size_t n = 0; n < sizeof widths / sizeof *widths; n++)
        for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
            int d = widths[n];
            double *want = run_tree(ref, (enum dtype)type, d), *first = NULL;
            for (int i = 0; list[i].be; i++) {
                double *got = run_tree(list[i].be, (enum dtype)type, d);
                ops_check_near((enum dtype)type, got, want, TREE_HYP, d, list[i].text);
                /* every instruction set has the same bits, and so have two runs of a GPU */
                if (i) assert_memory_equal(got, first, (size_t)(TREE_HYP * d) * sizeof *got);
                if (!i) first = got;
            }
            ops_release();
        }
    backend_close(ref);
    ops_cpu_close(list);
}

/* Where |g| is large f or 1 - f is tiny, yet has all its digits: a sentence of two tokens shows
 * both, since c_1 = (1 - f) x and c_2 = f c_1 where its x is 0. */
TEST(ssru_gates) {
    static const double gate[] = {-80, -30, -17, -3, -1e-3, 0, 1e-3, 3, 17, 30, 80};
    enum { N = sizeof gate / sizeof *gate };
    struct ops_backend *list = ops_cpu_open();
    double x[2 * N], g[2 * N];
    int32_t start[2] = {0, 2};
    for (int i = 0; i < N; i++) {
        g[i] = g[N + i] = (float)gate[i];
        x[i] = 1;
        x[N + i] = 0;
    }
    for (int n = 0; list[n].be; n++) {
        struct backend *be = list[n].be;
        struct ssru_args a = {.g = ops_mat(be, DTYPE_F32, 2, N, g)};
        a.x = ops_mat(be, DTYPE_F32, 2, N, x);
        a.c = ops_mat(be, DTYPE_F32, 2, N, NULL);
        a.o = ops_mat(be, DTYPE_F32, 2, N, NULL);
        a.rows = (struct rows){ops_ints(be, start, 2), 1, 2, 2};
        ssru_fwd(be, &a);
        op_check_sync(be, list[n].text);
        double *c = ops_values(be, &a.c);
        for (int i = 0; i < N; i++) {
            double rest = 1 / (1 + exp(g[i])), f = 1 / (1 + exp(-g[i]));
            ASSERT_NEAR(c[i] / rest, 1, 4e-7);
            ASSERT_NEAR(c[N + i] / (f * rest), 1, 6e-7);
        }
        ops_release();
    }
    ops_cpu_close(list);
}

/* ---- F16 ------------------------------------------------------------------------------------- */

/* Every number that F16 has, what lies halfway to the next one, and what lies next to that; then
 * all that is too large, and NaN. */
enum { HALVES = 0x7c00, ROUNDED = 2 * (4 * HALVES + 4) };
static void numbers_to_round(float *x) {
    static const float large[] = {65519, 65520, 1e38f, INFINITY};
    int n = 0;
    for (int h = 0; h < HALVES; h++) {
        float a = f16_load((uint16_t)h), b = h + 1 < HALVES ? f16_load((uint16_t)(h + 1)) : 65536;
        float middle = (a + b) / 2;
        x[n++] = a;
        x[n++] = nextafterf(middle, 0);
        x[n++] = middle;
        x[n++] = nextafterf(middle, 1e9f);
    }
    for (int i = 0; i < 4; i++) x[n++] = large[i];
    for (int i = 0; i < n; i++) x[n + i] = -x[i];
}

TEST(f16_is_rounded_alike) {
    struct ops_backend *list = ops_cpu_open();
    float *x = xmalloc(ROUNDED * sizeof *x);
    uint16_t *got = xmalloc(ROUNDED * sizeof *got);
    numbers_to_round(x);
    for (int i = 0; list[i].be; i++) {
        struct mat from = mat_of(x, 1, ROUNDED, DTYPE_F32), to = mat_of(got, 1, ROUNDED, DTYPE_F16);
        backend_cast(list[i].be, &to, &from);
        op_check_sync(list[i].be, "cast");
        for (int n = 0; n < ROUNDED; n++)
            if (got[n] != f16_store_limited(x[n]))
                fail_msg("%s: %.9g becomes %#x, want %#x", list[i].text, (double)x[n], got[n],
                         f16_store_limited(x[n]));
        float nan[] = {1, NAN, 2};
        from = mat_of(nan, 1, 3, DTYPE_F32);
        to = mat_of(got, 1, 3, DTYPE_F16);
        backend_cast(list[i].be, &to, &from);
        assert_true(isnan(f16_load(got[1])) && f16_load(got[2]) == 2);
    }
    assert_int_equal(f16_store_limited(65520), 0x7bff);
    assert_int_equal(f16_store_limited(-INFINITY), 0xfbff);
    xfree(x);
    xfree(got);
    ops_cpu_close(list);
}

/* ---- topk ------------------------------------------------------------------------------------ */

struct topk_result {
    double *value;
    int32_t *id;
};

static struct topk_result run_topk(struct backend *be, enum dtype type, int rows, int n_vocab,
                                   int k, const double *logits) {
    struct topk_args a = {.logits = ops_mat(be, type, rows, n_vocab, logits)};
    int32_t *none = xmalloc((size_t)rows * (size_t)k * sizeof *none);
    memset(none, 0xff, (size_t)rows * (size_t)k * sizeof *none);
    a.value = ops_mat(be, DTYPE_F32, rows, k, NULL);
    a.id = ops_ints(be, none, rows * k);
    topk(be, &a);
    op_check_sync(be, "topk");
    backend_download(be, none, a.id, (size_t)rows * (size_t)k * sizeof *none);
    return (struct topk_result){ops_values(be, &a.value), none};
}

/* Normal logits, or few distinct values so that nearly all are ties. */
static double *logits_new(int n, int ties) {
    double *z = xmalloc((size_t)n * sizeof *z);
    struct rng rng = {.key = 9};
    for (int i = 0; i < n; i++)
        z[i] = ties ? (double)rng_below(&rng, 3) : (double)(float)(4 * rng_normal(&rng));
    return z;
}

static void topk_compare(struct ops_backend *list, struct backend *ref, int n_vocab, int k,
                         int ties) {
    enum { ROWS = 5 };
    double *logits = logits_new(ROWS * n_vocab, ties);
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        struct topk_result want = run_topk(ref, (enum dtype)type, ROWS, n_vocab, k, logits);
        for (int i = 0; list[i].be; i++) {
            struct topk_result got =
                run_topk(list[i].be, (enum dtype)type, ROWS, n_vocab, k, logits);
            for (int n = 0; n < ROWS * k; n++)
                if (got.id[n] != want.id[n])
                    fail_msg("%s %s, V %d, k %d: id[%d,%d] = %d, want %d", list[i].text,
                             dtype_name((enum dtype)type), n_vocab, k, n / k, n % k, got.id[n],
                             want.id[n]);
            char text[80];
            snprintf(text, sizeof text, "%s %s, V %d, k %d: value", list[i].text,
                     dtype_name((enum dtype)type), n_vocab, k);
            ops_check_near(DTYPE_F32, got.value, want.value, ROWS, k, text);
            xfree(got.id);
        }
        xfree(want.id);
        ops_release();
    }
    xfree(logits);
}

TEST(topk_against_ref) {
    static const int shape[][2] = {{1, 1},     {2, 1},     {7, 7},     {9, 3},
                                   {33, 16},   {1000, 8},  {300, 256}, {257, 255},
                                   {37003, 4}, {37000, 5}, {4096, 200}};
    struct ops_backend *list = ops_open(TEST_ARG);
    struct backend *ref = ops_ref_open();
    for (size_t n = 0; n < sizeof shape / sizeof *shape; n++)
        for (int ties = 0; ties < 2; ties++)
            topk_compare(list, ref, shape[n][0], shape[n][1], ties);
    backend_close(ref);
    ops_cpu_close(list);
}

/* By hand: order, ties to the lower id, impossible tokens last, log-probabilities. */
static void topk_by_hand(struct backend *be) {
    double z[2][6] = {{1, 3, 3, -INFINITY, 2, 3}, {0, 0, 0, 0, 0, 0}};
    int32_t want_id[2][5] = {{1, 2, 5, 4, 0}, {0, 1, 2, 3, 4}};
    struct topk_result got = run_topk(be, DTYPE_F32, 2, 6, 5, z[0]);
    for (int b = 0; b < 2; b++) {
        double sum = 0;
        for (int v = 0; v < 6; v++) sum += exp(z[b][v]);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(got.id[b * 5 + i], want_id[b][i]);
            ASSERT_NEAR(got.value[b * 5 + i], z[b][want_id[b][i]] - log(sum), 1e-6);
        }
    }
    xfree(got.id);
    ops_release();
}

TEST(topk_order) {
    struct ops_backend *list = ops_open(TEST_ARG);
    struct backend *ref = ops_ref_open();
    topk_by_hand(ref);
    for (int i = 0; list[i].be; i++) topk_by_hand(list[i].be);
    backend_close(ref);
    ops_cpu_close(list);
}

/* Projected by the op itself: the best of the logits that linear_fwd makes. */
TEST(topk_projects) {
    enum { ROWS = 5, V = 700, K = 4 };
    struct ops_backend *list = ops_open(TEST_ARG);
    for (int i = 0; list[i].be; i++)
        for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
            struct backend *be = list[i].be;
            struct linear_args l = {.y = ops_mat(be, (enum dtype)type, ROWS, V, NULL)};
            int32_t id[2][ROWS * K] = {{0}};
            double *value[2];
            l.x = ops_random(be, (enum dtype)type, ROWS, 16, 1);
            l.w = ops_random(be, (enum dtype)type, V, 16, 2);
            l.b = ops_random(be, (enum dtype)type, 1, V, 3);
            linear_fwd(be, &l);
            for (int fused = 0; fused < 2; fused++) {
                struct topk_args a = {.logits = l.y, .id = ops_ints(be, id[0], ROWS * K)};
                a.value = ops_mat(be, DTYPE_F32, ROWS, K, NULL);
                if (fused) {
                    a.logits = ops_mat(be, (enum dtype)type, ROWS, V, NULL);
                    a.x = l.x;
                    a.w = l.w;
                    a.b = l.b;
                }
                topk(be, &a);
                op_check_sync(be, "topk");
                backend_download(be, id[fused], a.id, sizeof id[0]);
                value[fused] = ops_values(be, &a.value);
            }
            assert_memory_equal(id[0], id[1], sizeof id[0]);
            assert_memory_equal(value[0], value[1], ROWS * K * sizeof *value[0]);
            ops_release();
        }
    ops_cpu_close(list);
}

/* ---- blend ----------------------------------------------------------------------------------- */

enum { BLEND_ROWS = 4 };

/* Of n models, each twice as weighty as the one before; types take turns where they are mixed. */
static double *run_blend(struct backend *be, int n, int n_vocab, int mixed, double *const *z) {
    struct blend_args a = {.n = n};
    for (int m = 0; m < n; m++) {
        enum dtype type = mixed && m % 2 ? DTYPE_BF16 : DTYPE_F32;
        a.z[m] = ops_mat(be, type, BLEND_ROWS, n_vocab, z[m]);
        a.weight[m] = (float)(1 << m) / (float)((1 << n) - 1);
    }
    a.out = ops_mat(be, DTYPE_F32, BLEND_ROWS, n_vocab, NULL);
    blend(be, &a);
    op_check_sync(be, "blend");
    return ops_values(be, &a.out);
}

static void blend_compare(struct ops_backend *list, struct backend *ref, int n, int n_vocab) {
    double *z[BLEND_MOST];
    struct rng rng = {.key = 5};
    for (int m = 0; m < n; m++) {
        z[m] = xmalloc((size_t)BLEND_ROWS * (size_t)n_vocab * sizeof *z[m]);
        for (int i = 0; i < BLEND_ROWS * n_vocab; i++)
            z[m][i] = (double)bf16_load(bf16_store((float)(8 * rng_normal(&rng))));
        if (n_vocab > 2) z[m][1] = -INFINITY; /* impossible to all */
        z[m][n_vocab] = 90;                   /* and one so sure that the others hardly count */
    }
    for (int mixed = 0; mixed < 2; mixed++) {
        double *want = run_blend(ref, n, n_vocab, mixed, z), *first = NULL;
        for (int i = 0; list[i].be; i++) {
            double *got = run_blend(list[i].be, n, n_vocab, mixed, z), sum = 0;
            for (int v = 0; v < n_vocab; v++) sum += exp(got[2 * n_vocab + v]);
            ASSERT_NEAR(sum, 1, 1e-4);
            for (int at = 0; at < BLEND_ROWS * n_vocab; at++) {
                if (fabs(got[at] - want[at]) > 2e-5 * (1 + fabs(want[at])) ||
                    isinf(got[at]) != isinf(want[at]))
                    fail_msg("%s, %d models, V %d: [%d,%d] = %.9g, want %.9g", list[i].text, n,
                             n_vocab, at / n_vocab, at % n_vocab, got[at], want[at]);
                if (first && got[at] != first[at])
                    fail_msg("%s: other bits than %s", list[i].text, list[0].text);
            }
            first = first ? first : got;
        }
        ops_release();
    }
    for (int m = 0; m < n; m++) xfree(z[m]);
}

TEST(blend_against_ref) {
    static const int shape[][2] = {{1, 7}, {2, 1}, {2, 9}, {3, 1000}, {2, 24001}, {16, 65}};
    struct ops_backend *list = ops_open(TEST_ARG);
    struct backend *ref = ops_ref_open();
    for (size_t n = 0; n < sizeof shape / sizeof *shape; n++)
        blend_compare(list, ref, shape[n][0], shape[n][1]);
    backend_close(ref);
    ops_cpu_close(list);
}

/* What is no number in one model is none in the mean, and stays in its row. */
TEST(blend_of_no_number) {
    enum { V = 20 };
    struct ops_backend *list = ops_open(TEST_ARG);
    double z[2][BLEND_ROWS * V] = {{0}};
    z[1][V + 3] = NAN;
    for (int v = 0; v < V; v++) z[0][2 * V + v] = -INFINITY;
    for (int i = 0; list[i].be; i++) {
        double *got = run_blend(list[i].be, 2, V, 0, (double *const[]){z[0], z[1]});
        for (int at = 0; at < BLEND_ROWS * V; at++) {
            int row = at / V, broken = row == 1 || row == 2;
            if (broken != !!isnan(got[at])) fail_msg("%s: [%d] = %g", list[i].text, at, got[at]);
            if (!broken) ASSERT_NEAR(got[at], -log(V), 1e-6);
        }
        ops_release();
    }
    ops_cpu_close(list);
}

TESTS(TP(step_compare, "cpu"), TP(step_compare, "cuda"), TP(step_neighbours, "cpu"),
      TP(step_neighbours, "cuda"), TP(step_is_attention_of_one_query, "cpu"),
      TP(step_is_attention_of_one_query, "cuda"), T(step_window), T(f16_is_rounded_alike),
      TP(ssru_tree, "cpu"), TP(ssru_tree, "cuda"), T(ssru_gates), TP(topk_against_ref, "cpu"),
      TP(topk_against_ref, "cuda"), TP(topk_order, "cpu"), TP(topk_order, "cuda"),
      TP(topk_projects, "cpu"), TP(topk_projects, "cuda"), TP(blend_against_ref, "cpu"),
      TP(blend_against_ref, "cuda"), TP(blend_of_no_number, "cpu"), TP(blend_of_no_number, "cuda"))
