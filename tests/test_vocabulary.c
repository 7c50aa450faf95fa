/* test_vocabulary.c — tokenizers whose ids are a vocabulary's: the same text as without one, in
 * other ids; what either side does not know; marks; and hostile files. */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/subword.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"
#include "test.h"

#define SPACE "\xE2\x96\x81"

/* ---- helpers --------------------------------------------------------------------------------- */

static struct tokenizer *learn(void) {
    static const char text[] = "bake limto sur nequa\nfori bake sur x\nlimto fori nequa bake\n"
                               "sur sur limto bake x fori\nnequa x limto\n";
    struct err err = {0};
    struct tokenizer *t;
    char *in = path_join(test_dir(), "in"), *out = path_join(test_dir(), "t.model");
    const char *const input[] = {in};
    struct tokenizer_train_options o = {
        .input = input, .n_input = 1, .out = out, .size = 40, .type = TOKENIZER_BPE};
    ASSERT_OK(file_write_all(in, text, strlen(text), &err), err);
    ASSERT_OK(tokenizer_train(&o, NULL, &err), err);
    ASSERT_OK(tokenizer_open(&t, out, &err), err);
    xfree(in), xfree(out);
    return t;
}

/* The pieces of a tokenizer in another order (or its own, where seed is 0), but for `without`, and
 * then `more`. */
static char *lines(const struct tokenizer *t, uint64_t seed, const char *without,
                   const char *more) {
    struct rng rng = {.key = seed};
    int n = tokenizer_size(t), order[1000];
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n; seed && i > 1; i--) {
        int k = (int)rng_below(&rng, (uint32_t)i), swap = order[k];
        order[k] = order[i - 1];
        order[i - 1] = swap;
    }
    char *out = calloc(1, 1 << 16);
    for (int i = 0; i < n; i++) {
        const char *piece = tokenizer_piece(t, order[i]);
        if (without && strcmp(piece, without) == 0) continue;
        strcat(strcat(out, piece), "\n");
    }
    return strcat(out, more ? more : "");
}

static struct tokenizer_parts parts_of(const struct tokenizer *t, const char *vocabulary) {
    struct tokenizer_parts parts = {.name = "t.model",
                                    .vocabulary_name = "v.txt",
                                    .vocabulary = vocabulary,
                                    .n_vocabulary = vocabulary ? strlen(vocabulary) : 0,
                                    .marks = TOKENIZER_FILE_MARKS};
    parts.model = tokenizer_bytes(t, &parts.n_model);
    return parts;
}

static struct tokenizer *open_parts(const struct tokenizer_parts *parts) {
    struct err err = {0};
    struct tokenizer *t;
    ASSERT_OK(tokenizer_open_parts(&t, parts, &err), err);
    return t;
}

static struct tokenizer *open_with(const struct tokenizer *t, const char *vocabulary) {
    struct tokenizer_parts parts = parts_of(t, vocabulary);
    return open_parts(&parts);
}

static int hashes_equal(const struct tokenizer *a, const struct tokenizer *b) {
    char text[2][TOKENIZER_HASH_TEXT];
    tokenizer_hash_text(a, text[0]);
    tokenizer_hash_text(b, text[1]);
    return strcmp(text[0], text[1]) == 0;
}

static const char *text_of(const struct tokenizer *t, const int32_t *ids, int n) {
    static char out[2][8192];
    struct span span[1000];
    int size = tokenizer_decode(t, ids, n, out[0], sizeof out[0]);
    assert_in_range(size, 0, 8000);
    assert_int_equal(tokenizer_decode_spans(t, ids, n, out[1], sizeof out[1], span), size);
    assert_string_equal(out[0], out[1]);
    for (int i = 0; i < n; i++) { /* side by side, from the first byte to the last */
        assert_int_equal(span[i].begin, i ? span[i - 1].end : 0);
        assert_true(span[i].end >= span[i].begin);
        if (tokenizer_is_control(t, ids[i])) assert_int_equal(span[i].end, span[i].begin);
    }
    if (n > 0) assert_int_equal(span[n - 1].end, size);
    return out[0];
}

/* ---- the same text --------------------------------------------------------------------------- */

/* A shuffled vocabulary changes ids and nothing else. */
TEST(shuffled) {
    struct tokenizer *plain = learn();
    char *list = lines(plain, 5, NULL, NULL);
    struct tokenizer *t = open_with(plain, list);
    static const char *const texts[] = {"", "bake limto sur", " x\xC3\xA9 fori bake?x", "nequa"};
    int moved = 0;
    assert_int_equal(tokenizer_size(t), tokenizer_size(plain));
    for (int i = 0; i < tokenizer_size(t); i++) {
        const char *piece = tokenizer_piece(t, i);
        int was = tokenizer_find(plain, piece);
        assert_int_equal(tokenizer_find(t, piece), i);
        assert_int_equal(tokenizer_is_control(t, i), tokenizer_is_control(plain, was));
        moved += was != i;
    }
    assert_true(moved > 10);
    assert_string_equal(tokenizer_piece(t, tokenizer_eos(t)), "</s>");
    assert_string_equal(tokenizer_piece(t, tokenizer_bos(t)), "<s>");
    assert_string_equal(tokenizer_piece(t, tokenizer_unk(t)), "<unk>");
    assert_int_equal(tokenizer_find(t, "bakes"), -1);
    assert_null(tokenizer_piece(t, tokenizer_size(t)));
    for (int i = 0; i < 4; i++) {
        int32_t a[100], b[100], c[100];
        struct span sa[100], sb[100];
        size_t size = strlen(texts[i]);
        int n = tokenizer_encode_spans(plain, texts[i], size, a, sa, 100);
        assert_int_equal(tokenizer_encode_spans(t, texts[i], size, b, sb, 100), n);
        assert_int_equal(tokenizer_encode_end(t, texts[i], size, c, 100), n + 1);
        assert_int_equal(c[n], tokenizer_eos(t));
        assert_int_equal(tokenizer_encode(t, texts[i], size, NULL, 0), n);
        assert_memory_equal(b, c, (size_t)n * sizeof *b);
        assert_memory_equal(sa, sb, (size_t)n * sizeof *sa);
        for (int k = 0; k < n; k++)
            assert_string_equal(tokenizer_piece(plain, a[k]), tokenizer_piece(t, b[k]));
        char was[1000];
        strcpy(was, text_of(plain, a, n));
        assert_string_equal(text_of(t, c, n + 1), was); /* the end mark says nothing */
    }
    tokenizer_free(t), tokenizer_free(plain), free(list);
}

/* More ids than scratch that needs no allocation, with marks between them. */
TEST(long_text) {
    struct tokenizer *plain = learn();
    char *list = lines(plain, 6, NULL, "<pad>\n"), text[4000] = "bake";
    struct tokenizer *t = open_with(plain, list);
    int32_t ids[1000];
    int pad = tokenizer_find(t, "<pad>"), n = 0;
    for (; n < 900; n += 3) {
        ids[n] = tokenizer_find(t, SPACE "bake");
        ids[n + 1] = ids[n + 2] = pad;
        if (n) strcat(text, " bake");
    }
    assert_int_not_equal(ids[0], -1);
    assert_string_equal(text_of(t, ids, n), text);
    tokenizer_free(t), tokenizer_free(plain), free(list);
}

/* ---- what one of them does not know ---------------------------------------------------------- */

TEST(missing_and_more) {
    struct tokenizer *plain = learn();
    char *list =
        lines(plain, 7, SPACE "sur", "\xC3\xA9\n" SPACE "Haus\n<pad>\n>>deu<<\nace_Arab\n");
    struct tokenizer_parts parts = parts_of(plain, list);
    static const char *const hidden[] = {"ace_Arab", "not there"};
    parts.hidden = hidden;
    parts.n_hidden = 2;
    struct tokenizer *t = open_parts(&parts);
    int32_t ids[20];
    int unk = tokenizer_unk(t), house = tokenizer_find(t, SPACE "Haus"),
        bake = tokenizer_find(t, SPACE "bake");
    /* a piece that the vocabulary does not have */
    assert_int_equal(tokenizer_find(t, SPACE "sur"), -1);
    assert_int_equal(tokenizer_encode(t, "sur bake", 8, ids, 20), 2);
    assert_int_equal(ids[0], unk);
    assert_int_equal(ids[1], bake);
    /* a character that the file does not have, but the vocabulary does; and one that neither has */
    int n = tokenizer_encode(t, "bake\xC3\xA9 \xC3\xB6", 9, ids, 20);
    assert_int_equal(ids[1], tokenizer_find(t, "\xC3\xA9"));
    assert_int_equal(ids[n - 1], unk);
    /* tokens that are no pieces: marks say nothing, the others their spelling */
    int32_t more[] = {tokenizer_find(t, ">>deu<<"),
                      house,
                      tokenizer_find(t, "ace_Arab"),
                      tokenizer_find(t, "\xC3\xA9"),
                      bake,
                      tokenizer_find(t, "<pad>"),
                      house};
    assert_string_equal(text_of(t, more, 7), "Haus\xC3\xA9 bake Haus");
    for (int i = 0; i < 7; i++)
        assert_int_equal(tokenizer_is_control(t, more[i]), i == 0 || i == 2 || i == 5);
    int32_t unknown[] = {bake, unk};
    assert_string_equal(text_of(t, unknown, 2), "bake \xE2\x81\x87 ");
    int32_t bad = tokenizer_size(t);
    assert_int_equal(tokenizer_decode(t, &bad, 1, NULL, 0), HEED_EINVAL);
    struct err err = {0};
    struct subword *s;
    ASSERT_ERR(subword_new(&s, t, &(struct subword_options){.bpe_dropout = 0.1}, &err), err,
               HEED_EINVAL, "cannot be sampled");
    tokenizer_free(t), tokenizer_free(plain), free(list);
}

/* ---- marks and hashes ------------------------------------------------------------------------ */

TEST(marks) {
    struct tokenizer *plain = learn();
    char *list = lines(plain, 0, "<s>", "<pad>\n");
    struct tokenizer_parts parts = parts_of(plain, list);
    struct err err = {0};
    struct tokenizer *t = open_parts(&parts);
    assert_int_equal(tokenizer_bos(t), -1);
    ASSERT_ERR(tokenizer_check_ends(t, &err), err, HEED_EFORMAT, "no beginning piece");
    tokenizer_free(t);
    parts.marks.start = -1; /* the zero vector, on purpose */
    t = open_parts(&parts);
    ASSERT_OK(tokenizer_check_ends(t, &err), err);
    tokenizer_free(t);
    parts.marks = (struct tokenizer_marks){5, -1, 7};
    t = open_parts(&parts);
    int32_t ids[20];
    assert_int_equal(tokenizer_bos(t), 5);
    assert_int_equal(tokenizer_eos(t), -1);
    assert_int_equal(tokenizer_unk(t), 7);
    ASSERT_OK(tokenizer_check_ends(t, &err), err);
    assert_true(tokenizer_is_control(t, 5));
    assert_int_equal(tokenizer_encode_end(t, "\xC3\xB6", 2, ids, 20),
                     tokenizer_encode(t, "\xC3\xB6", 2, NULL, 0));
    assert_int_equal(ids[1], 7);
    tokenizer_free(t);
    parts.marks.end = tokenizer_size(plain); /* sizes are equal: one less, one more */
    ASSERT_ERR(tokenizer_open_parts(&t, &parts, &err), err, HEED_EFORMAT,
               "v.txt: the end token is 40, but there are 40 tokens");
    parts.marks = (struct tokenizer_marks){TOKENIZER_OF_FILE, -3, TOKENIZER_OF_FILE};
    ASSERT_ERR(tokenizer_open_parts(&t, &parts, &err), err, HEED_EFORMAT, "the end token is -3");
    parts.marks = (struct tokenizer_marks){TOKENIZER_OF_FILE, TOKENIZER_OF_FILE, -1};
    ASSERT_ERR(tokenizer_open_parts(&t, &parts, &err), err, HEED_EFORMAT, "no token '<unk>'");
    free(list);
    list = lines(plain, 0, "<unk>", NULL);
    parts = parts_of(plain, list);
    ASSERT_ERR(tokenizer_open_parts(&t, &parts, &err), err, HEED_EFORMAT,
               "v.txt: no token '<unk>'");
    tokenizer_free(plain), free(list);
}

/* Without vocabulary and marks everything is as ever; with them, whatever changes ids shows. */
TEST(hashes) {
    struct tokenizer *plain = learn(), *t[6];
    char *list[] = {lines(plain, 8, NULL, NULL), lines(plain, 9, NULL, NULL)};
    struct tokenizer_parts parts = parts_of(plain, NULL);
    t[0] = open_parts(&parts);
    assert_true(hashes_equal(plain, t[0]));
    parts.marks.start = tokenizer_eos(plain);
    t[1] = open_parts(&parts);
    assert_int_equal(tokenizer_bos(t[1]), tokenizer_eos(plain));
    t[2] = open_with(plain, list[0]);
    t[3] = open_with(plain, list[1]);
    parts = parts_of(plain, list[1]);
    parts.marks.end = 9;
    t[4] = open_parts(&parts);
    parts.marks.end = 10;
    t[5] = open_parts(&parts);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) assert_false(hashes_equal(t[i], t[k]));
    for (int i = 0; i < 6; i++) tokenizer_free(t[i]);
    t[0] = open_with(plain, list[0]);
    t[1] = open_with(plain, list[0]);
    assert_true(hashes_equal(t[0], t[1]));
    tokenizer_free(t[0]), tokenizer_free(t[1]);
    tokenizer_free(plain), free(list[0]), free(list[1]);
}

/* ---- hostile files --------------------------------------------------------------------------- */

TEST(bad_files) {
    static const struct {
        const char *bytes;
        size_t size;
        int code;
        const char *says;
    } bad[] = {{"", 0, HEED_EFORMAT, "v.txt: no tokens"},
               {"\n", 1, HEED_EFORMAT, "v.txt: line 1: an empty token"},
               {"a\n\nb\n", 5, HEED_EFORMAT, "line 2: an empty token"},
               {"a\nb\n\n", 5, HEED_EFORMAT, "line 3: an empty token"},
               {"a\nb\na\n", 6, HEED_EFORMAT, "line 3: the same token as in line 1"},
               {"a\nb\na", 5, HEED_EFORMAT, "line 3: the same token as in line 1"},
               {"a\n\xFF\n", 4, HEED_EFORMAT, "line 2: not UTF-8"},
               {"a\nb\0c\n", 6, HEED_EFORMAT, "line 2: not UTF-8, or with a NUL byte"},
               {"a\n\xC3", 3, HEED_EFORMAT, "line 2: not UTF-8"}};
    struct err err = {0};
    struct vocabulary *v;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT_ERR(vocabulary_read(&v, "v.txt", bad[i].bytes, bad[i].size, &err), err, bad[i].code,
                   bad[i].says);
        assert_null(v);
    }
    size_t room = 9u << 20;
    char *bytes = malloc(room);
    memset(bytes, 'a', room);
    ASSERT_ERR(vocabulary_read(&v, "v.txt", bytes, VOCABULARY_MAX_TOKEN + 1, &err), err,
               HEED_ELIMIT, "line 1: a token of 1025 bytes; at most 1024");
    ASSERT_ERR(vocabulary_read(&v, "v.txt", bytes, (size_t)VOCABULARY_MAX_FILE + 1, &err), err,
               HEED_ELIMIT, "67108865 bytes; at most 67108864");
    ASSERT_OK(vocabulary_read(&v, "v.txt", bytes, VOCABULARY_MAX_TOKEN, &err), err);
    assert_int_equal(vocabulary_size(v), 1);
    vocabulary_free(v);
    size_t size = 0;
    for (int i = 0; i <= VOCABULARY_MAX_SIZE; i++) size += (size_t)sprintf(bytes + size, "%d\n", i);
    ASSERT_ERR(vocabulary_read(&v, "v.txt", bytes, size, &err), err, HEED_ELIMIT,
               "1048577 tokens; at most 1048576");
    ASSERT_OK(vocabulary_read(&v, "v.txt", bytes, size - 8, &err), err);
    assert_int_equal(vocabulary_size(v), VOCABULARY_MAX_SIZE);
    assert_int_equal(vocabulary_find(v, "777777", 6), 777777);
    assert_int_equal(vocabulary_find(v, "7777777", 7), -1);
    assert_string_equal(vocabulary_token(v, 4711), "4711");
    vocabulary_free(v);
    free(bytes);
}

TESTS(T(shuffled), T(long_text), T(missing_and_more), T(marks), T(hashes), T(bad_files))
