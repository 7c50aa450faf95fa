/* test_spm.c — our own use of SentencePiece files against the library's: ids, spans, decoded text.
 * Files that are learnt, with every option; files made at random with all kinds of pieces, rules
 * and flags; texts that are real, random, and not UTF-8. */
#include <limits.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/spm.h"
#include "data/text.h"
#include "library.h"
#include "proto.h"
#include "test.h"

/* Both have opened the same file. */
struct both {
    struct spm *spm;
    struct sp *sp;
};

static void both_close(struct both *b) {
    spm_free(b->spm);
    sp_free(b->sp);
}

static void assert_same(const char *what, const char *text, size_t size) {
    if (what) fail_msg("%s differ(s) for: %.*s", what, (int)size, text);
}

/* ---- files as they are learnt ---------------------------------------------------------------- */

static const struct {
    const char *name;
    struct tokenizer_train_options options;
} learnt[] = {
    {"unigram", {.type = TOKENIZER_UNIGRAM, .size = 2000}},
    {"unigram-bytes",
     {.type = TOKENIZER_UNIGRAM, .size = 1500, .byte_fallback = 1, .coverage = 0.99}},
    {"unigram-folded", {.type = TOKENIZER_UNIGRAM, .size = 1000, .normalization = "nmt_nfkc_cf"}},
    {"unigram-symbols",
     {.type = TOKENIZER_UNIGRAM, .size = 1000, .symbols = "<a>,the,th", .split_digits = 1}},
    {"bpe", {.type = TOKENIZER_BPE, .size = 2000}},
    {"bpe-bytes", {.type = TOKENIZER_BPE, .size = 1500, .byte_fallback = 1, .coverage = 0.99}},
    {"bpe-symbols", {.type = TOKENIZER_BPE, .size = 1000, .symbols = "<a>,the,th"}},
    {"bpe-identity", {.type = TOKENIZER_BPE, .size = 1000, .normalization = "identity"}},
    {"word", {.type = TOKENIZER_WORD, .size = 1000, .symbols = "<a>"}},
    {"char", {.type = TOKENIZER_CHAR, .size = 300, .coverage = 0.99, .symbols = "<a>,the"}},
};

/* The file's bytes, to be freed. */
static char *learn(struct tokenizer_train_options o, size_t *size) {
    static const char *const demo[] = {"demo/train.en.xz", "demo/train.de.xz"};
    char *bytes, *out = path_join(test_dir(), "t.model");
    struct err err = {0};
    o.input = demo;
    o.n_input = 2;
    o.out = out;
    o.sample = 5000;
    ASSERT_OK(tokenizer_train(&o, NULL, &err), err);
    ASSERT_OK(file_read_all(&bytes, size, out, INT_MAX, &err), err);
    xfree(out);
    return bytes;
}

/* Changes a few bytes: other letters, marks, spaces, and what is no text at all. */
static void damage(struct rng *rng, char *text, size_t size) {
    static const char some[] = "  aeT<>\xE2\x96\x81\xCC\x81\xC3\xBC\xFF\xEF\xBC\xA1\x09";
    for (uint32_t k = 1 + rng_below(rng, 4); k > 0 && size > 0; k--) {
        size_t at = rng_below(rng, (uint32_t)size);
        if (rng_below(rng, 4) == 0)
            text[at] = (char)rng_next(rng);
        else
            for (uint32_t i = rng_below(rng, sizeof some), n = 1 + rng_below(rng, 3); n > 0; n--)
                if (at < size && i < sizeof some) text[at++] = some[i++];
    }
}

static void compare_lines(const struct both *b, const char *path, int lines) {
    struct err err = {0};
    struct text *text;
    struct line line;
    struct rng rng = {.key = 5};
    ASSERT_OK(text_open(&text, path, &err), err);
    while (lines-- > 0 && text_next(text, &line, &err) > 0) {
        assert_same(differ_text(b->spm, b->sp, line.text, line.size), line.text, line.size);
        char *copy = memcpy(xmalloc(line.size + 1), line.text, line.size);
        damage(&rng, copy, line.size);
        assert_same(differ_text(b->spm, b->sp, copy, line.size), copy, line.size);
        xfree(copy);
    }
    text_close(text);
}

TEST(learnt_files) {
    size_t i = 0, size;
    while (strcmp(learnt[i].name, TEST_ARG) != 0) i++;
    char *bytes = learn(learnt[i].options, &size);
    struct err err = {0};
    struct both b;
    ASSERT_OK(spm_open(&b.spm, bytes, size, &err), err);
    assert_int_equal(sp_open(&b.sp, bytes, size), 0);
    assert_same(differ_file(b.spm, b.sp), "", 0);
    int lines = TEST_SANITIZED ? 50 : 500;
    compare_lines(&b, "demo/train.en.xz", lines);
    compare_lines(&b, "demo/train.de.xz", lines);
    both_close(&b);
    xfree(bytes);
}

/* ---- files made at random -------------------------------------------------------------------- */

/* What pieces and texts are made of: letters, spaces, marks, and what is no character. */
static const char *const part[] = {"a",
                                   "b",
                                   "c",
                                   "\xC3\xA9",
                                   "\xE6\x97\xA5",
                                   " ",
                                   "\xE2\x96\x81",
                                   "x",
                                   "\xF0\x9F\x98\x80",
                                   "A",
                                   "<s>",
                                   "\xCC\x81",
                                   "\t",
                                   "\xE3\x80\x80",
                                   "\xC3",
                                   "\xE2\x96",
                                   "\xFF",
                                   "1",
                                   "<unk>",
                                   "\xEF\xBC\xA1"};
enum { N_PART = sizeof part / sizeof *part, N_LETTER = 9, N_GOOD = 14 };

static size_t put_parts(struct rng *rng, char *out, uint32_t most, uint32_t kinds) {
    size_t size = 0;
    for (uint32_t n = 1 + rng_below(rng, most); n > 0; n--) {
        const char *p = part[rng_below(rng, rng_below(rng, 6) ? (kinds < 4 ? kinds : 4) : kinds)];
        memcpy(out + size, p, strlen(p));
        size += strlen(p);
    }
    out[size] = 0;
    return size;
}

static int chance(struct rng *rng, uint32_t of) { return rng_below(rng, of) == 0; }

/* Pieces of every kind; some are there twice, or have the spelling of another kind, and are
 * refused. */
static void put_pieces(struct rng *rng, struct proto *p, int bytes) {
    static const unsigned kinds[] = {NORMAL, NORMAL, NORMAL, NORMAL, USER, UNUSED, CONTROL};
    uint32_t n_kind = chance(rng, 2) ? 4 : chance(rng, 2) ? 5 : 7;
    char text[256], seen[64][64] = {{0}};
    put_scored(p, chance(rng, 8) ? "a" : "<unk>", 0, UNKNOWN);
    if (!chance(rng, 4)) put_piece(p, "<s>", CONTROL);
    if (!chance(rng, 4)) put_piece(p, "</s>", CONTROL);
    for (int b = 0; bytes && b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        put_piece(p, text, BYTE);
    }
    for (uint32_t i = 0, n = 5 + rng_below(rng, 55); i < n; i++) {
        size_t size = put_parts(rng, text, 5, chance(rng, 3) ? N_PART : N_LETTER);
        int twice = size >= sizeof *seen;
        for (uint32_t k = 0; k < i && !twice; k++) twice = strcmp(seen[k], text) == 0;
        if (twice && !chance(rng, 300)) continue;
        if (size < sizeof *seen) memcpy(seen[i], text, size + 1);
        float score = chance(rng, 3) ? -(float)rng_below(rng, 4) : -10 * (float)rng_uniform(rng);
        put_scored(p, text, chance(rng, 30) ? -score : score, kinds[rng_below(rng, n_kind)]);
    }
}

/* Rules for single letters, and for "bb": the k-th node below the root has base 256 * k. */
static size_t make_rules(struct rng *rng, char *out) {
    static const char strings[] = " \0  a \0\0\xE2\x96\x81x\0\xC3\0ab";
    static const uint32_t string_at[] = {0, 2, 7, 8, 13, 15};
    enum { RULES = 5, N = 256 * (RULES + 1), ENDS = 1 << 8 };
    static const unsigned char from[RULES] = {'a', 'c', 'A', ' ', 0xFF};
    static uint32_t unit[N];
    memset(unit, 0xFF, sizeof unit); /* labels with the top bit lead nowhere */
    unit[0] = 256 << 10;
    uint32_t next = 512;
    for (int i = 0; i < RULES - 1; i++) {
        if (chance(rng, 2)) continue;
        uint32_t at = 256 ^ from[i + chance(rng, 4)];
        if (unit[at] != UINT32_MAX) continue;
        unit[at] = (at ^ next) << 10 | ENDS | (at & 255);
        unit[next] = 0x80000000u | string_at[rng_below(rng, 6)];
        next += 256;
    }
    if (next < N) { /* "b" goes on with "b" and ends there; values share the last block */
        uint32_t at = 256 ^ 'b', below = next ^ 'b';
        unit[at] = (at ^ next) << 10 | 'b';
        unit[below] = (below ^ (next | 1)) << 10 | ENDS | 'b';
        unit[next | 1] = 0x80000000u | string_at[rng_below(rng, 6)];
    }
    uint32_t size = sizeof unit;
    memcpy(out, &size, sizeof size);
    memcpy(out + sizeof size, unit, sizeof unit);
    memcpy(out + sizeof size + sizeof unit, strings, sizeof strings);
    return sizeof size + sizeof unit + sizeof strings;
}

/* As it is learnt: what nmt_nfkc has. */
struct standard {
    char *bytes;
    struct bytes rules;
};

static void put_norm(struct rng *rng, struct proto *p, unsigned field, const struct standard *std) {
    static struct proto spec;
    static char rules[1 << 15];
    spec.size = 0;
    for (unsigned flag = 3; flag <= 5; flag++)
        if (chance(rng, 2)) put_number(&spec, flag, chance(rng, flag == 5 ? 4 : 2) ? 0 : 1);
    uint32_t which = rng_below(rng, 3);
    if (which == 1) put_bytes(&spec, 2, rules, make_rules(rng, rules));
    if (which == 2) put_bytes(&spec, 2, std->rules.at, std->rules.size);
    put_bytes(p, field, spec.data, spec.size);
}

static void put_trainer(struct rng *rng, struct proto *p, unsigned type, int bytes) {
    static struct proto spec;
    spec.size = 0;
    put_number(&spec, 3, type);
    if (chance(rng, 3)) put_number(&spec, 24, 1);
    if (bytes) put_number(&spec, 35, 1);
    if (chance(rng, 4)) put_bytes(&spec, 44, "?", chance(rng, 2));
    if (chance(rng, 6)) put_bytes(&spec, 46, "</s>", chance(rng, 2) ? 4 : 0);
    if (chance(rng, 6)) put_bytes(&spec, 47, "a", 1);
    put_bytes(p, 2, spec.data, spec.size);
}

static void compare_random(struct rng *rng, const struct both *b, int n) {
    int32_t ids[16];
    char text[2048];
    for (int i = 0; i < n; i++) {
        size_t size = put_parts(rng, text, i % 8 ? 12 : 200, i % 2 ? N_PART : N_GOOD);
        if (i % 16 == 1) text[rng_below(rng, (uint32_t)size)] = 0;
        assert_same(differ_text(b->spm, b->sp, text, size), text, size);
        int m = (int)rng_below(rng, 16);
        for (int k = 0; k < m; k++)
            ids[k] = (int32_t)rng_below(rng, (uint32_t)spm_pieces(b->spm)->n);
        assert_same(differ_ids(b->spm, b->sp, ids, m), "random ids", 10);
    }
    assert_same(differ_text(b->spm, b->sp, "", 0), "", 0);
}

TEST(random_files) {
    unsigned type = (unsigned)atoi(TEST_ARG);
    struct rng rng = {.key = 17 + type};
    struct proto *p = xmalloc(sizeof *p);
    struct standard std;
    struct pieces pieces;
    struct err err = {0};
    size_t size;
    std.bytes = learn(learnt[0].options, &size);
    ASSERT_OK(pieces_read(&pieces, std.bytes, size, &err), err);
    std.rules = pieces.norm.rules;
    assert_true(std.rules.size > 10000);
    int rounds = TEST_SANITIZED ? 60 : 1000, opened = 0;
    for (int round = 0; round < rounds; round++) {
        struct both b;
        int bytes = chance(&rng, 4);
        p->size = 0;
        put_pieces(&rng, p, bytes);
        put_trainer(&rng, p, type, bytes);
        put_norm(&rng, p, 3, &std);
        if (chance(&rng, 4)) put_norm(&rng, p, 5, &std);
        int rc = spm_open(&b.spm, p->data, p->size, &err), want = sp_open(&b.sp, p->data, p->size);
        if (rc != want) fail_msg("round %d: %d, the library %d: %s", round, rc, want, err.msg);
        if (!rc) assert_same(differ_file(b.spm, b.sp), "", 0);
        if (!rc) compare_random(&rng, &b, 24);
        opened += !rc;
        both_close(&b);
    }
    assert_in_range(opened, rounds / 2, rounds - 1);
    pieces_release(&pieces);
    xfree(std.bytes);
    xfree(p);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void assert_refused(struct proto *p, int library, const char *why) {
    struct err err = {0};
    struct both b;
    ASSERT_ERR(spm_open(&b.spm, p->data, p->size, &err), err, HEED_EFORMAT, why);
    assert_null(b.spm);
    assert_int_equal(sp_open(&b.sp, p->data, p->size), library ? HEED_EFORMAT : 0);
    both_close(&b);
    p->size = 0;
}

TEST(refused) {
    struct proto *p = xcalloc(1, sizeof *p);
    put_piece(p, "<unk>", UNKNOWN);
    assert_refused(p, 1, "no piece stands for text");
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "what", UNKNOWN);
    assert_refused(p, 1, "unk is already defined");
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "<0x0A>", BYTE);
    assert_refused(p, 1, "which the file does not use");
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "<0xfA>", BYTE);
    put_bytes(p, 2, "\x98\x02\x01", 3); /* byte_fallback = 35 */
    assert_refused(p, 1, "is no piece of a byte");
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "<0xFA>", BYTE);
    put_bytes(p, 2, "\x98\x02\x01", 3);
    assert_refused(p, 1, "no piece for byte 0x00");
    put_piece(p, "<unk>", UNKNOWN);
    put_scored(p, "a", NAN, NORMAL); /* from here on, more than the library does */
    assert_refused(p, 0, "score of piece 1");
    put_piece(p, "<unk>", UNKNOWN);
    put_bytes(p, 1,
              "\x0A\x03"
              "a\0b",
              5);
    assert_refused(p, 0, "piece 1 has a NUL byte");
    xfree(p);
}

/* A file that says which pieces a text should become is believed only if it does. */
TEST(tests_of_files) {
    for (int good = 0; good < 2; good++) {
        struct proto *p = xcalloc(3, sizeof *p), *sample = p + 1, *all = p + 2;
        struct err err = {0};
        struct spm *spm;
        put_piece(p, "<unk>", UNKNOWN);
        put_scored(p,
                   "\xE2\x96\x81"
                   "a",
                   -1, NORMAL);
        put_scored(p, "b", -2, NORMAL);
        put_bytes(sample, 1, "ab", 2);
        put_bytes(sample, 2,
                  good ? "\xE2\x96\x81"
                         "a b"
                       : "\xE2\x96\x81"
                         "ab",
                  good ? 6 : 5);
        put_bytes(all, 1, sample->data, sample->size);
        put_bytes(p, 4, all->data, all->size);
        int rc = spm_open(&spm, p->data, p->size, &err);
        if (good)
            ASSERT_OK(rc, err);
        else
            ASSERT_ERR(rc, err, HEED_EFORMAT, "Self-test failures");
        spm_free(spm);
        xfree(p);
    }
}

/* Rules that make an endless text of a long one. */
TEST(too_much) {
    enum { N = 512, LONG = 1 << 16, TEXT = 5000 };
    struct proto *p = xcalloc(2, sizeof *p), *spec = p + 1;
    char *rules = xcalloc(1, 4 + 4 * N + LONG);
    uint32_t size = 4 * N, unit[N];
    memset(unit, 0xFF, sizeof unit);
    unit[0] = 1 << 10;
    unit[1 ^ 'a'] = (256u ^ 1 ^ 'a') << 10 | 1 << 8 | 'a';
    unit[256] = 0x80000000u;
    memcpy(rules, &size, 4);
    memcpy(rules + 4, unit, size);
    memset(rules + 4 + size, 'b', LONG - 1);
    put_bytes(spec, 2, rules, 4 + size + LONG);
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "b", NORMAL);
    put_bytes(p, 3, spec->data, spec->size);
    struct err err = {0};
    struct spm *spm;
    ASSERT_OK(spm_open(&spm, p->data, p->size, &err), err);
    char *text = memset(xmalloc(TEXT), 'a', TEXT);
    struct spm_out out = {0};
    assert_int_equal(spm_encode(spm, text, 10, &out), 10 * (LONG - 1) + 1);
    assert_int_equal(spm_encode(spm, text, TEXT, &out), HEED_ELIMIT);
    spm_free(spm);
    xfree(text), xfree(rules), xfree(p);
}

TESTS(TP(learnt_files, "unigram"), TP(learnt_files, "unigram-bytes"),
      TP(learnt_files, "unigram-folded"), TP(learnt_files, "unigram-symbols"),
      TP(learnt_files, "bpe"), TP(learnt_files, "bpe-bytes"), TP(learnt_files, "bpe-symbols"),
      TP(learnt_files, "bpe-identity"), TP(learnt_files, "word"), TP(learnt_files, "char"),
      TP(random_files, "1"), TP(random_files, "2"), TP(random_files, "3"), TP(random_files, "4"),
      T(refused), T(tests_of_files), T(too_much))
