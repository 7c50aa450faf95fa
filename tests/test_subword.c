/* test_subword.c — sampled segmentations: the usual one where nothing is random, the distribution
 * of a plain algorithm (bpe) and of SentencePiece's own sampling (unigram), the same text always,
 * and pieces that are never split. */
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "data/pieces.h"
#include "data/subword.h"
#include "data/text.h"
#include "library.h"
#include "test.h"

enum { MAX_IDS = 4096 };

/* ---- helpers --------------------------------------------------------------------------------- */

static const char *const demo[] = {"demo/train.en.xz", "demo/train.de.xz"};

static struct tokenizer *learn_with(struct tokenizer_train_options o) {
    struct err err = {0};
    struct tokenizer *t;
    char *out = path_join(test_dir(), "t.model");
    o.input = demo;
    o.n_input = 2;
    o.out = out;
    ASSERT_OK(tokenizer_train(&o, NULL, &err), err);
    ASSERT_OK(tokenizer_open(&t, out, &err), err);
    xfree(out);
    return t;
}

static struct tokenizer *learn(enum tokenizer_type type, int size) {
    return learn_with((struct tokenizer_train_options){.type = type, .size = size});
}

static struct subword *tables(const struct tokenizer *t, double dropout, double alpha) {
    struct err err = {0};
    struct subword *s;
    ASSERT_OK(subword_new(&s, t, &(struct subword_options){dropout, alpha}, &err), err);
    return s;
}

static int encode(const struct tokenizer *t, const char *text, int32_t *ids) {
    int n = tokenizer_encode_end(t, text, strlen(text), ids, MAX_IDS);
    assert_in_range(n, 1, MAX_IDS);
    return n;
}

static void assert_same_text(const struct tokenizer *t, const int32_t *a, int n, const int32_t *b,
                             int m) {
    static char x[16 * MAX_IDS], y[16 * MAX_IDS];
    assert_in_range(tokenizer_decode(t, a, n, x, sizeof x), 0, sizeof x - 1);
    assert_in_range(tokenizer_decode(t, b, m, y, sizeof y), 0, sizeof y - 1);
    assert_string_equal(x, y);
}

/* What the lines of a file become. */
struct outcome {
    long lines, ids, sampled, changed; /* lines that came out as other ids */
};

/* Samples every line of a text; its text and its number of characters never change. */
static struct outcome sample_text(const struct tokenizer *t, const struct subword *s,
                                  const char *path, long lines) {
    struct subword_work *w = subword_work_new(s);
    struct outcome o = {0};
    struct text *text;
    struct line line;
    struct err err;
    static int32_t ids[MAX_IDS], out[MAX_IDS];
    ASSERT_OK(text_open(&text, path, &err), err);
    for (; o.lines < lines && text_next(text, &line, &err) > 0; o.lines++) {
        int n = encode(t, line.text, ids), chars = 0;
        struct subword_dice dice = {.key = 5, .number = (uint64_t)o.lines};
        int m = subword_sample(w, dice, ids, n, out, MAX_IDS);
        assert_in_range(m, 1, MAX_IDS);
        o.changed += n != m || memcmp(ids, out, (size_t)n * sizeof *ids) != 0;
        o.ids += n;
        o.sampled += m;
        for (int i = 0; i < n; i++) chars += subword_chars(s, ids[i]);
        for (int i = 0; i < m; i++) chars -= subword_chars(s, out[i]);
        assert_int_equal(chars, 0);
        if (o.lines < 500) assert_same_text(t, ids, n, out, m);
    }
    text_close(text);
    subword_work_free(w);
    return o;
}

/* ---- nothing random -------------------------------------------------------------------------- */

static void check_usual(const struct tokenizer *t, double dropout, double alpha, const char *path) {
    struct subword *s = tables(t, dropout, alpha);
    struct outcome o = sample_text(t, s, path, 20000);
    assert_true(o.ids > 2000);
    if (o.changed) fail_msg("%s: %ld of %ld lines came out as other ids", path, o.changed, o.lines);
    subword_free(s);
}

/* The text it was learnt from, with every kind of tokenizer that decides about merges. */
TEST(no_dropout_is_the_usual_segmentation) {
    struct tokenizer_train_options kinds[] = {
        {.type = TOKENIZER_BPE, .size = 2000},
        {.type = TOKENIZER_BPE, .size = 400, .byte_fallback = 1, .coverage = 0.98},
        {.type = TOKENIZER_BPE, .size = 1000, .coverage = 0.98},
        {.type = TOKENIZER_BPE, .size = 1000, .normalization = "identity"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct tokenizer *t = learn_with(kinds[i]);
        for (int k = 0; k < 2; k++) check_usual(t, 0, 0, demo[k]);
        tokenizer_free(t);
    }
}

/* Text by the megabyte, with a vocabulary of the size that models have. */
TEST(no_dropout_on_much_text) {
    static const char *const sets[] = {"msdocs-en-de", "europarl-en-de", "tatoeba-en-de",
                                       "newstest-en-de"};
    const char *data = getenv("HEED_DATA");
    if (!data) SKIP("set HEED_DATA to a folder with %s and others", sets[0]);
    struct tokenizer *t = learn(TOKENIZER_BPE, 8000);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        for (int de = 0; de < 2; de++) {
            char path[1024];
            snprintf(path, sizeof path, "%s/%s/test.%s.xz", data, sets[i], de ? "de" : "en");
            if (file_exists(path))
                check_usual(t, 0, 0, path);
            else
                print_message("%s is not there\n", path);
        }
    tokenizer_free(t);
}

/* As sharp as it gets, sampling is choosing the best. */
TEST(sharp_sampling_is_the_usual_segmentation) {
    struct tokenizer *t = learn(TOKENIZER_UNIGRAM, 2000);
    for (int k = 0; k < 2; k++) {
        struct subword *s = tables(t, 0, SUBWORD_MAX_ALPHA);
        struct outcome o = sample_text(t, s, demo[k], 3000);
        assert_true(o.changed < o.lines / 200); /* scores that differ by a hundredth or less */
        subword_free(s);
    }
    tokenizer_free(t);
}

/* Text that the tokenizer was not learnt from: unknown characters, other scripts, odd spaces. */
TEST(foreign_text_is_left_alone) {
    static const char text[] = "a b  c   d\n"
                               "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E und \xD0\xAF\xD0\xB1 end\n"
                               "\xF0\x9F\x98\x80\xF0\x9F\x98\x80 smile\xF0\x9F\x98\x80s\n"
                               "\n"
                               "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
                               "</s> <unk> <0x41> <s>\n"
                               "\xE2\x96\x81\xE2\x96\x81 a\xE2\x96\x81"
                               "b\n";
    struct err err = {0};
    char *path = path_join(test_dir(), "foreign");
    ASSERT_OK(file_write_all(path, text, sizeof text - 1, &err), err);
    for (int bytes = 0; bytes < 2; bytes++) {
        struct tokenizer *t = learn_with((struct tokenizer_train_options){
            .type = TOKENIZER_BPE, .size = 800, .byte_fallback = bytes, .coverage = 0.98});
        struct subword *s = tables(t, 0, 0);
        struct outcome o = sample_text(t, s, path, 100);
        assert_true(o.lines == 7 && o.changed == 0);
        subword_free(s);
        s = tables(t, 0.5, 0);
        for (int i = 0; i < 20; i++) sample_text(t, s, path, 100);
        subword_free(s);
        tokenizer_free(t);
    }
    xfree(path);
}

/* ---- all random ------------------------------------------------------------------------------ */

TEST(full_dropout_leaves_characters) {
    struct tokenizer *t = learn(TOKENIZER_BPE, 1000);
    struct subword *s = tables(t, 1, 0);
    struct subword_work *w = subword_work_new(s);
    int32_t ids[MAX_IDS], out[MAX_IDS];
    int n = encode(t, "the house is green", ids);
    assert_int_equal(subword_sample(w, (struct subword_dice){1, 2}, ids, n, out, MAX_IDS), 20);
    assert_string_equal(tokenizer_piece(t, out[1]), "t");
    assert_int_equal(out[19], tokenizer_eos(t));
    subword_work_free(w);
    subword_free(s);
    tokenizer_free(t);
}

/* ---- the distribution ------------------------------------------------------------------------ */

enum { N_DRAW = 6000, MAX_KINDS = 4096 };

/* Segmentations seen, how often with the other sampler and how often with ours. */
struct tally {
    struct kind {
        int n;
        int32_t ids[64];
        int seen[2];
    } kind[MAX_KINDS];
    int n_kind;
    double pieces[2];
};

static void count(struct tally *t, int who, const int32_t *ids, int n) {
    int i = 0;
    assert_in_range(n, 1, 64);
    t->pieces[who] += n;
    while (i < t->n_kind &&
           (t->kind[i].n != n || memcmp(t->kind[i].ids, ids, (size_t)n * sizeof *ids) != 0))
        i++;
    if (i == MAX_KINDS) return;
    if (i == t->n_kind) {
        t->kind[t->n_kind++] = (struct kind){.n = n};
        memcpy(t->kind[i].ids, ids, (size_t)n * sizeof *ids);
    }
    t->kind[i].seen[who]++;
}

/* Are the two samples of one distribution? Chi-square over segmentations, rare ones together. */
static void assert_alike(const struct tally *t, const char *text) {
    double chi = 0, rest[2] = {0, 0};
    int freedom = 0;
    for (int i = 0; i <= t->n_kind; i++) {
        const int *seen = t->kind[i].seen;
        double a = i < t->n_kind ? seen[0] : rest[0], b = i < t->n_kind ? seen[1] : rest[1];
        if (i < t->n_kind && a + b < 20) {
            rest[0] += a;
            rest[1] += b;
        } else if (a + b > 0) {
            chi += (a - b) * (a - b) / (a + b);
            freedom++;
        }
    }
    if (!(chi < freedom + 5 * sqrt(2.0 * freedom) + 5))
        fail_msg("'%s': chi-square %.1f with %d kinds; %.3f and %.3f pieces", text, chi, freedom,
                 t->pieces[0] / N_DRAW, t->pieces[1] / N_DRAW);
}

/* What ours is judged by. For unigram it is SentencePiece. For bpe it is algorithm 1 of Provilkov
 * et al., word by word and as it stands there, with nothing but strings. (SentencePiece drops
 * merges for good, so that it splits more.) */
struct judge {
    const struct tokenizer *t;
    struct sp *sp;
    struct pieces pieces;
    double amount;
    struct rng rng;
};

static struct judge judge_open(const struct tokenizer *t, double amount) {
    struct judge j = {.t = t, .amount = amount, .rng = {.key = 11}};
    size_t size;
    const void *bytes = tokenizer_bytes(t, &size);
    assert_int_equal(sp_open(&j.sp, bytes, size), 0);
    j.pieces = *tokenizer_pieces(t);
    sp_seed(3);
    return j;
}

static void judge_close(struct judge *j) { sp_free(j->sp); }

static int piece_at(const struct judge *j, const char *text, size_t size) {
    char piece[256];
    if (size >= sizeof piece) return -1;
    memcpy(piece, text, size);
    piece[size] = 0;
    int id = tokenizer_find(j->t, piece);
    return id >= 0 && j->pieces.piece[id].kind == PIECE_NORMAL ? id : -1;
}

/* cut[i], cut[i + 1]: where part i of the word begins and ends. */
static int judge_word(struct judge *j, const char *word, size_t size, int32_t *out) {
    size_t cut[1024] = {0};
    uint32_t code;
    int n = 0;
    for (; cut[n] < size; n++)
        cut[n + 1] = cut[n] + (size_t)utf8_decode(&code, word + cut[n], size - cut[n]);
    for (;;) {
        int best = -1;
        float best_score = 0;
        for (int i = 0; i + 2 <= n; i++) {
            int id = piece_at(j, word + cut[i], cut[i + 2] - cut[i]);
            if (id < 0 || rng_uniform(&j->rng) < j->amount) continue;
            if (best >= 0 && j->pieces.piece[id].score <= best_score) continue;
            best = i;
            best_score = j->pieces.piece[id].score;
        }
        if (best < 0) break;
        memmove(cut + best + 1, cut + best + 2, (size_t)(n - best - 1) * sizeof *cut);
        n--;
    }
    for (int i = 0; i < n; i++) {
        out[i] = piece_at(j, word + cut[i], cut[i + 1] - cut[i]);
        assert_true(out[i] >= 0);
    }
    return n;
}

/* A segmentation of the text, whose usual one is ids. */
static int judge_sample(struct judge *j, const char *text, const int32_t *ids, int n,
                        int32_t *out) {
    static char word[16 * MAX_IDS];
    size_t size = 0;
    int m = 0;
    if (j->pieces.type == TOKENIZER_UNIGRAM)
        return sp_sample(j->sp, text, strlen(text), (float)j->amount, out, MAX_IDS);
    for (int i = 0; i <= n; i++) {
        const struct piece *p = i < n ? &j->pieces.piece[ids[i]] : NULL;
        int is_normal = p && p->kind == PIECE_NORMAL;
        if (!is_normal || strncmp(p->text, "\xE2\x96\x81", 3) == 0) {
            m += judge_word(j, word, size, out + m);
            size = 0;
        }
        if (p && !is_normal) out[m++] = ids[i];
        if (!is_normal) continue;
        memcpy(word + size, p->text, p->size);
        size += p->size;
    }
    return m;
}

static struct tally *tally_new(const struct tokenizer *t, double dropout, double alpha,
                               const char *text) {
    struct judge judge = judge_open(t, dropout + alpha);
    struct subword *s = tables(t, dropout, alpha);
    struct subword_work *w = subword_work_new(s);
    struct tally *tally = xcalloc(1, sizeof *tally);
    int32_t ids[MAX_IDS], out[MAX_IDS];
    int n = encode(t, text, ids) - 1; /* without the end mark */
    for (int k = 0; k < N_DRAW; k++) {
        int m = judge_sample(&judge, text, ids, n, out);
        count(tally, 0, out, m);
        struct subword_dice dice = {.key = 77, .number = (uint64_t)k};
        m = subword_sample(w, dice, ids, n, out, MAX_IDS);
        count(tally, 1, out, m);
    }
    subword_work_free(w);
    subword_free(s);
    judge_close(&judge);
    return tally;
}

TEST(distribution_is_right) {
    static const char *const texts[] = {"the",     "another", "something",     "Universit\xC3\xA4t",
                                        "a house", "in",      "Zusammenarbeit"};
    int unigram = strcmp(TEST_ARG, "unigram") == 0;
    struct tokenizer *t = learn(unigram ? TOKENIZER_UNIGRAM : TOKENIZER_BPE, 1000);
    for (int k = 1; k <= 4; k += 3) {
        double amount = 0.1 * k;
        int kinds = 0;
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            struct tally *tally =
                tally_new(t, unigram ? 0 : amount, unigram ? amount : 0, texts[i]);
            kinds += tally->n_kind;
            assert_alike(tally, texts[i]);
            xfree(tally);
        }
        assert_true(kinds > 20);
    }
    tokenizer_free(t);
}

/* Over whole sentences, where words are cut apart: how many pieces there are on average. */
TEST(sentences_get_as_many_pieces) {
    int unigram = strcmp(TEST_ARG, "unigram") == 0;
    struct tokenizer *t = learn(unigram ? TOKENIZER_UNIGRAM : TOKENIZER_BPE, 1500);
    struct judge judge = judge_open(t, unigram ? 0.2 : 0.1);
    struct subword *s = unigram ? tables(t, 0, 0.2) : tables(t, 0.1, 0);
    struct err err = {0};
    struct text *text;
    struct line line;
    static int32_t ids[MAX_IDS], out[MAX_IDS];
    long theirs = 0;
    ASSERT_OK(text_open(&text, demo[1], &err), err);
    struct outcome o = sample_text(t, s, demo[1], 5000);
    for (long i = 0; i < o.lines && text_next(text, &line, &err) > 0; i++)
        theirs += 1 + judge_sample(&judge, line.text, ids, encode(t, line.text, ids) - 1, out);
    assert_true(o.changed > o.lines / 4 && o.sampled > o.ids * 21 / 20);
    ASSERT_NEAR((double)o.sampled / (double)theirs, 1, 0.01); /* three standard deviations */
    text_close(text);
    judge_close(&judge);
    subword_free(s);
    tokenizer_free(t);
}

/* ---- the rest -------------------------------------------------------------------------------- */

TEST(dice_decide) {
    struct tokenizer *t = learn(TOKENIZER_BPE, 1000);
    struct subword *s = tables(t, 0.3, 0);
    struct subword_work *w = subword_work_new(s);
    int32_t ids[MAX_IDS], a[MAX_IDS], b[MAX_IDS];
    int n = encode(t, "a rather long sentence that can be cut into pieces in many ways", ids);
    int same_number = 0, same_key = 0;
    for (uint64_t i = 0; i < 50; i++) {
        int k = subword_sample(w, (struct subword_dice){7, i}, ids, n, a, MAX_IDS);
        int m = subword_sample(w, (struct subword_dice){7, i}, ids, n, b, MAX_IDS);
        assert_true(k == m && memcmp(a, b, (size_t)k * sizeof *a) == 0);
        m = subword_sample(w, (struct subword_dice){7, i + 1}, ids, n, b, MAX_IDS);
        same_key += k == m && memcmp(a, b, (size_t)k * sizeof *a) == 0;
        m = subword_sample(w, (struct subword_dice){8, i}, ids, n, b, MAX_IDS);
        same_number += k == m && memcmp(a, b, (size_t)k * sizeof *a) == 0;
        /* One place too few is too few, and is not written behind. */
        b[k - 1] = -5;
        assert_int_equal(subword_sample(w, (struct subword_dice){7, i}, ids, n, b, k - 1), 0);
        assert_int_equal(b[k - 1], -5);
    }
    assert_true(same_key < 3 && same_number < 3);
    subword_work_free(w);
    subword_free(s);
    tokenizer_free(t);
}

/* A word of more characters than there is room for, between others. */
TEST(endless_words_stay) {
    struct tokenizer *t = learn(TOKENIZER_BPE, 1000);
    struct subword *s = tables(t, 1, 0);
    struct subword_work *w = subword_work_new(s);
    static char text[SUBWORD_MAX_CHARS + 16] = "aa ";
    static int32_t ids[MAX_IDS], out[MAX_IDS];
    for (int more = 0; more < 2; more++) {
        memset(text + 3, 'e', SUBWORD_MAX_CHARS + (size_t)more - 1);
        strcpy(text + 3 + SUBWORD_MAX_CHARS + more - 1, " oo");
        int n = encode(t, text, ids);
        int m = subword_sample(w, (struct subword_dice){0, 0}, ids, n, out, MAX_IDS);
        if (more)
            assert_true(m < SUBWORD_MAX_CHARS && m > 6);
        else
            assert_int_equal(m, 3 + SUBWORD_MAX_CHARS + 3 + 1);
        assert_same_text(t, ids, n, out, m);
    }
    subword_work_free(w);
    subword_free(s);
    tokenizer_free(t);
}

/* Symbols are never split, nor merged with their neighbours. */
TEST(symbols_stay) {
    for (int unigram = 0; unigram < 2; unigram++) {
        struct tokenizer *t = learn_with(
            (struct tokenizer_train_options){.type = unigram ? TOKENIZER_UNIGRAM : TOKENIZER_BPE,
                                             .size = 800,
                                             .symbols = "<tag>,ou"});
        struct subword *s = unigram ? tables(t, 0, 0.1) : tables(t, 0.5, 0);
        struct subword_work *w = subword_work_new(s);
        int32_t ids[MAX_IDS], out[MAX_IDS];
        int n = encode(t, "<tag> a house without <tag>", ids), tag = tokenizer_find(t, "<tag>");
        for (uint64_t i = 0; i < 200; i++) {
            int m = subword_sample(w, (struct subword_dice){3, i}, ids, n, out, MAX_IDS);
            int tags = 0, ou = 0;
            for (int k = 0; k < m; k++) {
                tags += out[k] == tag;
                ou += out[k] == tokenizer_find(t, "ou");
            }
            assert_true(tags == 2 && ou == 2);
        }
        subword_work_free(w);
        subword_free(s);
        tokenizer_free(t);
    }
}

TEST(pieces_are_those_of_the_library) {
    struct tokenizer *t = learn_with((struct tokenizer_train_options){
        .type = TOKENIZER_BPE, .size = 700, .byte_fallback = 1, .coverage = 0.99});
    struct pieces p = *tokenizer_pieces(t);
    assert_int_equal(p.n, tokenizer_size(t));
    assert_int_equal(p.type, TOKENIZER_BPE);
    int bytes = 0;
    for (int i = 0; i < p.n; i++) {
        const char *text = tokenizer_piece(t, i);
        assert_int_equal(p.piece[i].size, strlen(text));
        assert_memory_equal(p.piece[i].text, text, p.piece[i].size);
        bytes += p.piece[i].kind == PIECE_BYTE;
    }
    assert_int_equal(bytes, 256);
    assert_int_equal(p.piece[tokenizer_unk(t)].kind, PIECE_UNKNOWN);
    assert_int_equal(p.piece[tokenizer_eos(t)].kind, PIECE_CONTROL);
    tokenizer_free(t);
}

TEST(wrong_options_are_refused) {
    struct tokenizer *bpe = learn(TOKENIZER_BPE, 500), *unigram = learn(TOKENIZER_UNIGRAM, 500),
                     *word = learn(TOKENIZER_WORD, 500);
    const struct {
        const struct tokenizer *t;
        struct subword_options o;
        const char *text;
    } wrong[] = {{bpe,
                  {0, 0.1},
                  "unigram_alpha: the tokenizer is of type bpe, not unigram; give --bpe-drop"},
                 {unigram,
                  {0.1, 0},
                  "bpe_dropout: the tokenizer is of type unigram, not bpe; give --unigram"},
                 {word, {0.1, 0}, "bpe_dropout: the tokenizer is of type word, not bpe"},
                 {word, {0, 0}, "pieces of type word cannot be sampled"},
                 {bpe, {1.5, 0}, "bpe_dropout: 1.5 is not between 0 and 1"},
                 {bpe, {(double)NAN, 0}, "bpe_dropout: nan"},
                 {unigram, {0, -1}, "unigram_alpha: -1 is not between 0 and 100"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct subword *s;
        struct err err = {0};
        ASSERT_ERR(subword_new(&s, wrong[i].t, &wrong[i].o, &err), err, HEED_EINVAL, wrong[i].text);
        assert_null(s);
    }
    tokenizer_free(bpe);
    tokenizer_free(unigram);
    tokenizer_free(word);
}

TESTS(T(no_dropout_is_the_usual_segmentation), T(no_dropout_on_much_text),
      T(sharp_sampling_is_the_usual_segmentation), T(foreign_text_is_left_alone),
      T(full_dropout_leaves_characters), TP(distribution_is_right, "bpe"),
      TP(distribution_is_right, "unigram"), TP(sentences_get_as_many_pieces, "bpe"),
      TP(sentences_get_as_many_pieces, "unigram"), T(dice_decide), T(endless_words_stay),
      T(symbols_stay), T(pieces_are_those_of_the_library), T(wrong_options_are_refused))
