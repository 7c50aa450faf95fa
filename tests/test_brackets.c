/* test_brackets.c — rows that must be trees: which token may follow, judged by trying all rows
 * there are; and searching, judged by scoring all trees there are. */
#include "search/brackets.h"

#include "model/transformer.h"
#include "rig.h"
#include "test.h"

/* The tiny grammar: two labels, two words, and what is neither. */
enum { OPEN_A = 3, CLOSE_A, OPEN_B, CLOSE_B, WORD, TAG, N_TINY, MOST = 40 };
static const char spelled[] = "<>?(){}xy";

static struct brackets *tiny(int n_vocab) {
    struct brackets *b = xcalloc(1, sizeof *b);
    *b = (struct brackets){.n = n_vocab, .n_open = 2, .n_word = 2};
    b->kind = xcalloc((size_t)n_vocab, sizeof *b->kind);
    b->mate = xcalloc((size_t)n_vocab, sizeof *b->mate);
    for (int open = OPEN_A; open <= OPEN_B; open += 2) {
        b->kind[open] = BRACKET_OPEN;
        b->kind[open + 1] = BRACKET_CLOSE;
        b->mate[open] = open + 1;
        b->mate[open + 1] = open;
    }
    b->kind[WORD] = b->kind[TAG] = BRACKET_WORD;
    return b;
}

/* ---- the oracle ------------------------------------------------------------------------------ */

/* Reads one bracket with all that is in it by recursion; where it ends, or -1. */
static int read_tree(const int32_t *id, int n, int at, int *words) {
    if (at >= n || (id[at] != OPEN_A && id[at] != OPEN_B)) return -1;
    int32_t close = id[at] + 1;
    for (int children = 0, next = at + 1;; children++) {
        if (next >= n) return -1;
        if (id[next] == close) return children ? next + 1 : -1;
        if (id[next] == WORD || id[next] == TAG)
            ++*words, next++;
        else if ((next = read_tree(id, n, next, words)) < 0)
            return -1;
    }
}

static int is_whole(const int32_t *id, int n, int n_word) {
    int words = 0;
    return read_tree(id, n, 0, &words) == n && words == n_word;
}

static const char *shown(const int32_t *id, int n) {
    static char text[MOST + 1];
    for (int i = 0; i < n; i++) text[i] = id[i] < N_TINY ? spelled[id[i]] : '#';
    text[n] = 0;
    return text;
}

/* ---- what may follow ------------------------------------------------------------------------- */

/* Can the n tokens become a whole row of at most `longest`, the end mark counted? Tries everything;
 * and checks what brackets_view says wherever they can. */
static int can_end(const struct brackets *b, int32_t *id, int n, int n_word, int longest) {
    int can[N_TINY] = {0}, any = 0, choices = 0;
    can[EOS] = n < longest && is_whole(id, n, n_word);
    for (int32_t v = UNK; v < N_TINY && n + 1 < longest; v++) {
        id[n] = v;
        can[v] = can_end(b, id, n + 1, n_word, longest);
    }
    for (int v = 0; v < N_TINY; v++) any |= can[v], choices += can[v];
    if (!any) return 0;
    struct brackets_view view = brackets_view(b, id, n, n_word, longest);
    for (int32_t v = 0; v < N_TINY; v++)
        if (brackets_allow(b, &view, v, EOS) != can[v])
            fail_msg("'%s' of %d words in %d tokens: %c may%s follow", shown(id, n), n_word,
                     longest, spelled[v], can[v] ? "" : " not");
    assert_int_equal(brackets_choices(b, &view), choices);
    return 1;
}

TEST(what_may_follow) {
    struct brackets *b = tiny(N_TINY);
    int32_t id[MOST];
    for (int n_word = 1; n_word <= 3; n_word++)
        for (int longest = 1; longest <= 7; longest++)
            assert_int_equal(can_end(b, id, 0, n_word, longest), longest >= brackets_least(n_word));
    brackets_free(b);
}

/* ---- searching ------------------------------------------------------------------------------- */

struct scored {
    int32_t id[MOST];
    int n;
    double score;
};

/* log P of a row, over the length penalty, by one pass of the model over all of it. */
static double score(struct rig *rig, const struct search_input *in, const int32_t *id, int n,
                    double alpha) {
    struct err err;
    struct batch batch;
    int32_t tgt[MOST + 1];
    double sum = 0;
    memcpy(tgt, id, (size_t)n * sizeof *id);
    tgt[n] = EOS;
    check_ok(batch_init(&batch, in->n_src, n + 1, 1, BOS, &err), &err);
    assert_int_equal(batch_add(&batch, in->src, in->n_src, tgt, n + 1, &err), 1);
    float *z = toy_logits(&rig->toy[0], &batch);
    for (int t = 0; t <= n; t++) {
        const float *row = z + (size_t)t * (size_t)rig->n_vocab;
        double total = 0;
        for (int v = 0; v < rig->n_vocab; v++) total += exp((double)row[v]);
        sum += (double)row[tgt[t]] - log(total);
    }
    xfree(z);
    batch_release(&batch);
    return sum / pow((5.0 + n + 1) / 6.0, alpha);
}

/* The best of all whole rows that go on from n tokens. */
static void best_of_all(struct scored *best, struct rig *rig, const struct search_input *in,
                        struct scored *at, const struct search_options *o) {
    if (is_whole(at->id, at->n, in->n_word)) {
        at->score = score(rig, in, at->id, at->n, (double)o->alpha);
        if (at->score > best->score) *best = *at;
    }
    for (int32_t v = OPEN_A; v < N_TINY && at->n + 1 < o->max_len; v++) {
        at->id[at->n++] = v;
        best_of_all(best, rig, in, at, o);
        at->n--;
    }
}

/* No row has more than 64 beginnings of one length: a beam of 64 sees all of them. */
TEST(beam_of_all_is_exhaustive) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rig rig;
        struct err err = {0};
        struct search_options o = search_defaults();
        struct search_result got;
        int n_vocab = seed % 2 ? N_TINY : 300;
        o.beam = 64;
        o.alpha = 0.3f;
        o.trees = TREES_ROWS;
        o.max_len = 7;
        rig_open(&rig, 1, n_vocab, DTYPE_F32, 1, seed);
        struct brackets *b = tiny(n_vocab);
        rig.marks.brackets = b;
        struct search_input *in = rig_inputs(1, 5, n_vocab, seed);
        in->n_word = 1 + (int)(seed / 2);
        struct searcher *s = rig_searcher(&rig, &o, 1, 20, 10);
        ASSERT_OK(searcher_run(s, in, 1, &got, NULL, &err), err);
        struct scored best = {.score = -INFINITY}, at = {0};
        best_of_all(&best, &rig, in, &at, &o);
        assert_int_equal(got.best->n, best.n);
        assert_memory_equal(got.best->ids, best.id, (size_t)best.n * sizeof *best.id);
        assert_true(fabs((double)got.best->score - best.score) < 1e-4);
        searcher_free(s);
        xfree(in);
        brackets_free(b);
        rig_close(&rig);
    }
}

enum { N_IN = 40 };
struct bench {
    struct rig rig;
    struct brackets *brackets;
    struct search_input *in;
};

static void bench_open(struct bench *b, int n_vocab, uint64_t seed) {
    rig_open(&b->rig, 1, n_vocab, DTYPE_F32, 1, seed);
    b->rig.marks.brackets = b->brackets = tiny(n_vocab);
    b->in = rig_inputs(N_IN, 10, n_vocab, seed);
    for (int i = 0; i < N_IN; i++) b->in[i].n_word = 1 + (int)((uint64_t)i * seed % 12);
}

static void bench_close(struct bench *b) {
    brackets_free(b->brackets);
    xfree(b->in);
    rig_close(&b->rig);
}

static void check_whole(struct bench *b, const struct search_options *o, uint64_t *print) {
    struct err err = {0};
    struct search_result got[N_IN];
    struct searcher *s = rig_searcher(&b->rig, o, N_IN, 500, 20);
    ASSERT_OK(searcher_run(s, b->in, N_IN, got, NULL, &err), err);
    for (int i = 0; i < N_IN; i++) {
        for (int k = 0; k < got[i].n; k++) {
            const struct hypothesis *h = &got[i].best[k];
            if (h->cut || !is_whole(h->ids, h->n, b->in[i].n_word))
                fail_msg("'%s' is no tree of %d words", shown(h->ids, h->n), b->in[i].n_word);
        }
        if (print) print[i] = rig_fingerprint(&got[i]);
    }
    searcher_free(s);
}

/* Random models write trees, whichever way they search. */
TEST(every_row_is_whole) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct bench b;
        bench_open(&b, seed == 1 ? N_TINY : 300, seed);
        for (int way = 0; way < 5; way++) {
            struct search_options o = search_defaults();
            o.trees = TREES_ROWS;
            o.max_extra = way == 3 ? 13 : 300; /* little room, or as far as positions go */
            o.beam = way == 0 ? 1 : way == 4 ? 64 : 21;
            o.n_best = way == 2 ? 5 : 1;
            o.sample = way == 2;
            o.alpha = 0.3f;
            o.repetition = way == 4 ? 1.1f : 1;
            check_whole(&b, &o, NULL);
        }
        bench_close(&b);
    }
}

/* The candidates that a hypothesis is given lead where all logits lead, though nearly none of them
 * may follow. */
TEST(few_candidates_are_enough) {
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct bench b;
        struct err err = {0};
        struct search_result some[N_IN], all[N_IN];
        struct search_options o = search_defaults(), full;
        o.trees = TREES_ROWS;
        o.beam = seed % 2 ? 21 : 5;
        o.n_best = 3;
        full = o;
        full.repetition = 1 + 1e-6f; /* hardly any, but it needs logits */
        bench_open(&b, 600, seed);
        struct searcher *s = rig_searcher(&b.rig, &o, N_IN, 500, 20);
        struct searcher *t = rig_searcher(&b.rig, &full, N_IN, 500, 20);
        ASSERT_OK(searcher_run(s, b.in, N_IN, some, NULL, &err), err);
        ASSERT_OK(searcher_run(t, b.in, N_IN, all, NULL, &err), err);
        for (int i = 0; i < N_IN; i++) {
            assert_int_equal(some[i].n, all[i].n);
            for (int k = 0; k < some[i].n; k++) {
                double x = (double)some[i].best[k].score, y = (double)all[i].best[k].score;
                if (fabs(x - y) > 1e-3) fail_msg("sentence %d, %d.: %g, not %g", i, k + 1, x, y);
            }
        }
        searcher_free(s);
        searcher_free(t);
        bench_close(&b);
    }
}

TEST(neighbours_do_not_matter) {
    struct bench b;
    struct search_options o = search_defaults();
    uint64_t together[N_IN];
    struct err err = {0};
    o.trees = TREES_ROWS;
    o.beam = 9;
    bench_open(&b, 300, 5);
    check_whole(&b, &o, together);
    struct searcher *s = rig_searcher(&b.rig, &o, 1, 20, 20);
    for (int i = 0; i < N_IN; i++) {
        struct search_result alone;
        ASSERT_OK(searcher_run(s, &b.in[i], 1, &alone, NULL, &err), err);
        assert_true(rig_fingerprint(&alone) == together[i]);
    }
    searcher_free(s);
    bench_close(&b);
}

TEST(what_cannot_be_a_tree) {
    struct bench b;
    struct err err = {0};
    struct search_result got;
    struct search_options o = search_defaults();
    static const int32_t prefix[] = {OPEN_A};
    o.trees = TREES_ROWS;
    o.max_len = 10;
    bench_open(&b, N_TINY, 1);
    struct searcher *s = rig_searcher(&b.rig, &o, 1, 20, 20);
    struct search_input in = b.in[0];
    in.n_word = 8;
    ASSERT_ERR(searcher_run(s, &in, 1, &got, NULL, &err), err, HEED_ELIMIT,
               "has 8 words; its tree may have at most 10 tokens");
    in.n_word = 7;
    ASSERT_OK(searcher_run(s, &in, 1, &got, NULL, &err), err);
    in.n_word = 0;
    ASSERT_ERR(searcher_run(s, &in, 1, &got, NULL, &err), err, HEED_ELIMIT, "has 0 words");
    in = b.in[0];
    in.prefix = prefix;
    in.n_prefix = 1;
    ASSERT_ERR(searcher_run(s, &in, 1, &got, NULL, &err), err, HEED_EINVAL, "neither prefix");
    searcher_free(s);
    b.rig.marks.brackets = NULL;
    s = rig_searcher(&b.rig, &o, 1, 20, 20);
    ASSERT_ERR(searcher_run(s, b.in, 1, &got, NULL, &err), err, HEED_EINVAL, "takes brackets");
    searcher_free(s);
    o.min_len = 3;
    ASSERT_ERR(search_check(&o, &err), err, HEED_EINVAL, "trees: not together with min_length");
    bench_close(&b);
}

TESTS(T(what_may_follow), T(beam_of_all_is_exhaustive), T(every_row_is_whole),
      T(few_candidates_are_enough), T(neighbours_do_not_matter), T(what_cannot_be_a_tree))
