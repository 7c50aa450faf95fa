/* test_tokenizer.c — tokenizers: learning of every type, text there and back, files of others,
 * hostile files, errors in the words of the options, and the sample they are learnt from. */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "data/sample.h"
#include "data/tokenizer.h"
#include "proto.h"
#include "test.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static char *path_of(const char *name) { return path_join(test_dir(), name); }

/* Writes `text` to a file of the test's and returns its path. */
static char *text_file(const char *name, const char *text) {
    struct err err = {0};
    char *path = path_of(name);
    ASSERT_OK(file_write_all(path, text, strlen(text), &err), err);
    return path;
}

/* A corpus of made-up words, enough for any small vocabulary. */
static char *word_corpus(const char *name, int lines) {
    static const char *const part[] = {"ba", "ke",  "lim", "to", "sur",
                                       "ne", "qua", "x",   "fo", "ri"};
    struct rng rng = {.key = 7};
    char *path = path_of(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < lines; i++) {
        for (uint32_t w = 3 + rng_below(&rng, 8); w > 0; w--) {
            for (uint32_t p = 1 + rng_below(&rng, 3); p > 0; p--)
                fputs(part[rng_below(&rng, 10)], f);
            fputc(w > 1 ? ' ' : '\n', f);
        }
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

static int learn_with(struct tokenizer_train_options o, const char *path,
                      struct tokenizer_report *report, struct err *err) {
    char *out = path_of("t.model");
    o.input = &path;
    o.n_input = 1;
    o.out = out;
    int rc = tokenizer_train(&o, report, err);
    xfree(out);
    return rc;
}

static struct tokenizer *learn(struct tokenizer_train_options o, const char *path) {
    struct err err = {0};
    struct tokenizer *t;
    char *out = path_of("t.model");
    ASSERT_OK(learn_with(o, path, NULL, &err), err);
    ASSERT_OK(tokenizer_open(&t, out, &err), err);
    xfree(out);
    return t;
}

/* decode(encode(text)) */
static const char *there_and_back(const struct tokenizer *t, const char *text) {
    static char out[8192];
    int32_t ids[4096];
    int n = tokenizer_encode(t, text, strlen(text), ids, 4096);
    assert_in_range(n, 0, 4096);
    int size = tokenizer_decode(t, ids, n, out, sizeof out);
    assert_in_range(size, 0, sizeof out - 1);
    assert_int_equal(strlen(out), size);
    return out;
}

/* ---- types ----------------------------------------------------------------------------------- */

static enum tokenizer_type type_arg(const char *name) {
    int type = 0;
    struct err err = {0};
    ASSERT_OK(choice_parse(&type, tokenizer_type_names, name, &err), err);
    return (enum tokenizer_type)type;
}

TEST(types) {
    enum tokenizer_type type = type_arg(TEST_ARG);
    char *corpus = word_corpus("c", 400);
    struct tokenizer *t = learn((struct tokenizer_train_options){.size = 80, .type = type}, corpus);
    struct err err = {0};
    assert_int_equal(tokenizer_unk(t), 0);
    assert_int_equal(tokenizer_bos(t), 1);
    assert_int_equal(tokenizer_eos(t), 2);
    ASSERT_OK(tokenizer_check_ends(t, &err), err);
    int size = tokenizer_size(t);
    if (type == TOKENIZER_CHAR)
        assert_in_range(size, 15, 30);
    else
        assert_int_equal(size, 80);
    assert_string_equal(tokenizer_piece(t, 0), "<unk>");
    assert_string_equal(tokenizer_piece(t, 2), "</s>");
    assert_null(tokenizer_piece(t, -1));
    assert_null(tokenizer_piece(t, size));
    if (type != TOKENIZER_WORD)
        assert_string_equal(there_and_back(t, "bake limtoto xsur"), "bake limtoto xsur");
    assert_string_equal(there_and_back(t, ""), "");
    assert_string_equal(there_and_back(t, "   "), "");
    tokenizer_free(t);
    xfree(corpus);
}

/* Ids beyond cap are counted but not written; marks decode to nothing, strangers are refused. */
TEST(limits) {
    char *corpus = word_corpus("c", 200);
    struct tokenizer *t = learn((struct tokenizer_train_options){.size = 60}, corpus);
    int32_t ids[64], few[64];
    const char *text = "bake lim to sur nequa";
    int n = tokenizer_encode(t, text, strlen(text), ids, 64);
    assert_in_range(n, 4, 30);
    for (int cap = 0; cap < n; cap++) {
        memset(few, 0xEE, sizeof few);
        assert_int_equal(tokenizer_encode(t, text, strlen(text), few, cap), n);
        assert_memory_equal(few, ids, (size_t)cap * sizeof *ids);
        assert_int_equal(few[cap], (int32_t)0xEEEEEEEE);
    }
    char out[64] = "same";
    assert_int_equal(tokenizer_decode(t, ids, n, out, 5), strlen(text));
    assert_string_equal(out, "same"); /* too small: untouched */
    assert_int_equal(tokenizer_decode(t, ids, n, out, strlen(text)), strlen(text));
    assert_string_equal(out, "same");
    assert_int_equal(tokenizer_decode(t, ids, n, out, strlen(text) + 1), strlen(text));
    assert_string_equal(out, text);
    int32_t marked[66] = {1};
    memcpy(marked + 1, ids, (size_t)n * sizeof *ids);
    marked[n + 1] = 2;
    assert_int_equal(tokenizer_decode(t, marked, n + 2, out, sizeof out), strlen(text));
    assert_string_equal(out, text);
    int32_t unk = 0, below = -1, above = tokenizer_size(t);
    assert_int_equal(tokenizer_decode(t, &unk, 1, out, sizeof out), 5);
    assert_string_equal(out, " \xE2\x81\x87 ");
    assert_int_equal(tokenizer_decode(t, &below, 1, out, sizeof out), HEED_EINVAL);
    assert_int_equal(tokenizer_decode(t, &above, 1, out, sizeof out), HEED_EINVAL);
    assert_int_equal(tokenizer_decode(t, NULL, 0, out, sizeof out), 0);
    char *huge = calloc(1, TOKENIZER_MAX_TEXT + 1);
    assert_int_equal(tokenizer_encode(t, huge, TOKENIZER_MAX_TEXT + 1, ids, 64), HEED_ELIMIT);
    free(huge);
    tokenizer_free(t);
    xfree(corpus);
}

/* ---- Unicode --------------------------------------------------------------------------------- */

static const char *const exotic[] = {
    "Hello, world!",
    /* Japanese */
    "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xAE\xE6\x96\x87\xE7\xAB\xA0\xE3\x80\x82",
    /* Hebrew, Arabic */
    "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D \xD8\xA7\xD9\x84\xD8\xB3\xD9\x84\xD8\xA7\xD9\x85",
    "e\xCC\x81 a\xCC\x88\xCC\xA3 n\xCC\x83", /* combining marks */
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7 "
    "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA", /* emoji */
    "  two  spaces   and more ",
    "tab\tand\xC2\xA0no-break, thin\xE2\x80\x89space",
    "\xEF\xAC\x81 \xE2\x91\xA0 \xEF\xBC\xA1 \xC2\xBD \xEF\xB7\xBA", /* NFKC would change them */
    "\xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87", /* Devanagari */
    "\xF4\x8F\xBF\xBF\xEF\xBF\xBD\xEE\x80\x80", /* the end, U+FFFD, private */
    "<s></s><unk><0x41> \xE2\x81\x87",
};
enum { N_EXOTIC = sizeof exotic / sizeof *exotic };

/* With identity and byte fallback any text comes back byte for byte, seen in training or not. */
TEST(lossless) {
    char *corpus = word_corpus("c", 400); /* none of it is exotic */
    struct tokenizer *t = learn((struct tokenizer_train_options){.size = 340,
                                                                 .type = type_arg(TEST_ARG),
                                                                 .byte_fallback = 1,
                                                                 .normalization = "identity"},
                                corpus);
    for (int i = 0; i < N_EXOTIC; i++) assert_string_equal(there_and_back(t, exotic[i]), exotic[i]);
    struct rng rng = {.key = 3};
    for (int round = 0; round < 300; round++) {
        char text[256];
        size_t n = 0;
        for (uint32_t k = 1 + rng_below(&rng, 40); k > 0; k--) {
            uint32_t code = 1 + rng_below(&rng, round % 2 ? 0x10FFFF : 0x24F);
            if ((code < 0xD800 || code >= 0xE000) && code != 0x2581)
                n += (size_t)utf8_encode(text + n, code);
        }
        text[n] = 0;
        assert_string_equal(there_and_back(t, text), text);
    }
    tokenizer_free(t);
    xfree(corpus);
}

/* The default normalisation changes what NFKC and nmt say, and nothing else that was learnt. */
TEST(normalized) {
    char text[4096] = "";
    for (int i = 0; i < N_EXOTIC; i++) strcat(strcat(text, exotic[i]), "\n");
    char *corpus = text_file("c", text);
    struct tokenizer *t =
        learn((struct tokenizer_train_options){.size = 200, .type = TOKENIZER_CHAR}, corpus);
    assert_string_equal(there_and_back(t, exotic[0]), exotic[0]);
    assert_string_equal(there_and_back(t, exotic[1]), exotic[1]);
    assert_string_equal(there_and_back(t, exotic[2]), exotic[2]);
    assert_string_equal(there_and_back(t, exotic[8]), exotic[8]);
    assert_string_equal(there_and_back(t, "  two  spaces   and more "), "two spaces and more");
    assert_string_equal(there_and_back(t, "e\xCC\x81"), "\xC3\xA9");
    assert_string_equal(there_and_back(t, "\xEF\xBC\xA1"), "A");
    tokenizer_free(t);
    xfree(corpus);
}

/* Bytes that are no text are encoded all the same. */
TEST(any_bytes) {
    char *corpus = word_corpus("c", 200);
    struct tokenizer *t =
        learn((struct tokenizer_train_options){.size = 300, .byte_fallback = 1}, corpus);
    struct rng rng = {.key = 5};
    for (int round = 0; round < 500; round++) {
        char text[100], out[1024];
        int32_t ids[512];
        size_t size = rng_below(&rng, 100);
        for (size_t i = 0; i < size; i++) text[i] = (char)rng_next(&rng);
        int n = tokenizer_encode(t, text, size, ids, 512);
        assert_in_range(n, 0, 512);
        int m = tokenizer_decode(t, ids, n, out, sizeof out);
        assert_in_range(m, 0, sizeof out - 1);
        assert_int_equal(utf8_clean_prefix(out, strlen(out)), strlen(out));
    }
    tokenizer_free(t);
    xfree(corpus);
}

/* A number that the text is full of stays one digit a piece, and only if asked. */
TEST(digits) {
    char text[8192] = "";
    for (int i = 0; i < 300; i++) snprintf(text + strlen(text), 32, "in 2024 and %d\n", 1000 + i);
    char *corpus = text_file("digits", text);
    for (int split = 0; split < 2; split++) {
        struct tokenizer *t =
            learn((struct tokenizer_train_options){.size = split ? 18 : 30, .split_digits = split},
                  corpus);
        int32_t ids[16];
        int n = tokenizer_encode(t, "2024", 4, ids, 16);
        assert_int_equal(n >= 4, split);
        tokenizer_free(t);
    }
    xfree(corpus);
}

/* ---- identity -------------------------------------------------------------------------------- */

/* Symbols are pieces wherever they are spelled, and no part of any other piece. */
TEST(symbols) {
    char *path = word_corpus("a.txt", 2000);
    for (int type = 0; type < 2; type++) {
        struct tokenizer_train_options o = {.size = 120,
                                            .type = type ? TOKENIZER_UNIGRAM : TOKENIZER_BPE,
                                            .symbols = "<bt>,ke,\xC3\x9F,\xE2\x96\x81(S"};
        struct tokenizer *t = learn(o, path);
        int32_t ids[64];
        int bt = tokenizer_find(t, "<bt>"), ke = tokenizer_find(t, "ke");
        assert_true(bt > 2 && ke > 2 && bt != ke && !tokenizer_is_control(t, bt));
        assert_string_equal(tokenizer_piece(t, bt), "<bt>");
        assert_int_equal(tokenizer_find(t, "<b"), -1);
        assert_int_equal(tokenizer_find(t, "</s>"), tokenizer_eos(t));
        assert_int_equal(tokenizer_size(t), 120);
        for (int id = 0; id < 120; id++)
            assert_true(id == ke || !strstr(tokenizer_piece(t, id), "ke"));
        assert_string_equal(there_and_back(t, "bake <bt> to<bt>ke \xC3\x9F"),
                            "bake <bt> to<bt>ke \xC3\x9F");
        const char *text = "bake <bt> toto<bt>kex";
        int n = tokenizer_encode(t, text, strlen(text), ids, 64), seen[2] = {0, 0};
        for (int i = 0; i < n; i++) seen[0] += ids[i] == bt, seen[1] += ids[i] == ke;
        assert_true(seen[0] == 2 && seen[1] == 2);
        n = tokenizer_encode(t, "(S (S<bt>", 9, ids, 64); /* with the space before it */
        int s = tokenizer_find(t, "\xE2\x96\x81(S");
        assert_true(n == 3 && s > 2 && ids[0] == s && ids[1] == s && ids[2] == bt);
        assert_string_equal(there_and_back(t, "(S (S"), "(S (S");
        n = tokenizer_encode(t, "< bt> <B", 8, ids, 64);
        for (int i = 0; i < n; i++) assert_true(ids[i] != bt);
        tokenizer_free(t);
    }
    const struct {
        const char *symbols, *text;
    } wrong[] = {{"", "'' is empty"},
                 {"a,,b", "'' is empty"},
                 {"a,", "'' is empty"},
                 {"<x>,<y>,<x>", "'<x>' is there twice"},
                 {"<x>,a b", "'a b' contains a space"},
                 {"a\"b", "a quotation mark"},
                 {"x\xE2\x96\x81", "keeps for itself"},
                 {"\xE2\x96\x81", "keeps for itself"},
                 {"\xE2\x96\x81\xE2\x96\x81x", "keeps for itself"},
                 {"</s>", "'</s>' is a special piece"},
                 {"\xFFx", "is not UTF-8"},
                 {"01234567890123456789012345678901234567890123456789012345678901234", "too long"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct err err;
        struct tokenizer_train_options o = {.size = 120, .type = TOKENIZER_BPE};
        o.symbols = wrong[i].symbols;
        ASSERT_ERR(learn_with(o, path, NULL, &err), err, HEED_EINVAL, wrong[i].text);
    }
    struct err err;
    ASSERT_ERR(
        learn_with((struct tokenizer_train_options){.size = 5, .symbols = "a,b"}, path, NULL, &err),
        err, HEED_ECONFIG, "size: 5 is not between 6");
    xfree(path);
}

TEST(same_bytes) {
    char *corpus = word_corpus("c", 500), *a = path_of("a.model"), *b = path_of("b.model");
    struct tokenizer_train_options o = {
        .input = (const char *const *)&corpus, .n_input = 1, .size = 70};
    struct tokenizer_report report;
    struct err err = {0};
    for (int type = TOKENIZER_UNIGRAM; type <= TOKENIZER_BPE; type++) {
        o.type = (enum tokenizer_type)type;
        o.sample = 300;
        o.out = a;
        ASSERT_OK(tokenizer_train(&o, &report, &err), err);
        assert_int_equal(report.lines, 500);
        assert_int_equal(report.sampled, 300);
        o.out = b;
        ASSERT_OK(tokenizer_train(&o, NULL, &err), err);
        struct tokenizer *x, *y, *z;
        unsigned char hx[TOKENIZER_HASH_SIZE], hy[TOKENIZER_HASH_SIZE];
        size_t nx, ny, nz;
        ASSERT_OK(tokenizer_open(&x, a, &err), err);
        ASSERT_OK(tokenizer_open(&y, b, &err), err);
        const void *bx = tokenizer_bytes(x, &nx), *by = tokenizer_bytes(y, &ny);
        assert_int_equal(nx, ny);
        assert_memory_equal(bx, by, nx);
        tokenizer_hash(x, hx), tokenizer_hash(y, hy);
        assert_memory_equal(hx, hy, sizeof hx);
        ASSERT_OK(tokenizer_open_memory(&z, bx, nx, &err), err);
        tokenizer_free(x);
        assert_memory_equal(tokenizer_bytes(z, &nz), by, ny);
        tokenizer_hash(z, hx);
        assert_memory_equal(hx, hy, sizeof hx);
        tokenizer_free(y), tokenizer_free(z);
        o.seed++; /* another sample, another tokenizer */
        ASSERT_OK(tokenizer_train(&o, NULL, &err), err);
        ASSERT_OK(tokenizer_open(&y, b, &err), err);
        tokenizer_hash(y, hy);
        assert_memory_not_equal(hx, hy, sizeof hx);
        tokenizer_free(y);
    }
    xfree(corpus), xfree(a), xfree(b);
}

struct encode_job {
    const struct tokenizer *t;
    int bad;
};

static void *encode_often(void *ctx) {
    struct encode_job *job = ctx;
    for (int round = 0; round < 300; round++)
        for (int i = 0; i < N_EXOTIC; i++) {
            int32_t ids[256];
            char out[1024];
            int n = tokenizer_encode(job->t, exotic[i], strlen(exotic[i]), ids, 256);
            int m = n < 0 ? n : tokenizer_decode(job->t, ids, n, out, sizeof out);
            if (m < 0 || strcmp(out, exotic[i]) != 0) job->bad++;
        }
    return NULL;
}

TEST(threads) {
    char *corpus = word_corpus("c", 300);
    struct tokenizer *t = learn((struct tokenizer_train_options){.size = 320,
                                                                 .byte_fallback = 1,
                                                                 .normalization = "identity"},
                                corpus);
    pthread_t thread[4];
    struct encode_job job[4];
    for (int i = 0; i < 4; i++) {
        job[i] = (struct encode_job){.t = t};
        assert_int_equal(pthread_create(&thread[i], NULL, encode_often, &job[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(job[i].bad, 0);
    }
    tokenizer_free(t);
    xfree(corpus);
}

/* ---- errors ---------------------------------------------------------------------------------- */

TEST(errors) {
    struct err err = {0};
    struct tokenizer_report report;
    char *corpus = text_file("c", "hello world\nwe are here\nhello there\n");
    struct tokenizer_train_options o = {.size = 20, .type = TOKENIZER_BPE};
    ASSERT_OK(learn_with(o, corpus, &report, &err), err);
    assert_int_equal(report.pieces, 20);
    assert_int_equal(report.chars, 10);
    o.size = 8000;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG,
               "size: 8000 is more than this corpus allows (50)");
    o.type = TOKENIZER_UNIGRAM;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG,
               "more than this corpus allows (17)");
    o.type = TOKENIZER_WORD;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG,
               "more than this corpus allows (9)");
    o.size = 5, o.type = TOKENIZER_BPE;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG,
               "size: 5 is too small, the characters");
    o.size = 2;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG,
               "size: 2 is not between 4 and");
    o.size = 200, o.byte_fallback = 1;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG, "not between 260 and");
    o.size = 20, o.byte_fallback = 0, o.coverage = 0.5;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG,
               "coverage: 0.5 is not between");
    o.coverage = NAN;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ECONFIG, "coverage: ");
    o.coverage = 0, o.normalization = "nfd";
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_EINVAL, "normalization: 'nfd'");
    o.normalization = NULL;
    ASSERT_ERR(learn_with(o, "/no/such/file", NULL, &err), err, HEED_EIO, "/no/such/file: No such");
    o.n_input = 0;
    ASSERT_ERR(tokenizer_train(&o, NULL, &err), err, HEED_EINVAL, "input: no text file");
    o.input = (const char *const *)&corpus, o.n_input = 1;
    ASSERT_ERR(tokenizer_train(&o, NULL, &err), err, HEED_EINVAL, "out: no file");
    o.out = test_dir();
    ASSERT_ERR(tokenizer_train(&o, NULL, &err), err, HEED_EIO, "is a directory");
    o.out = "/no/such/dir/t.model";
    ASSERT_ERR(tokenizer_train(&o, NULL, &err), err, HEED_EIO, "/no/such/dir: No such");
    xfree(corpus);
}

/* Nothing to learn from, in several disguises: an error each, above all not the end of the
 * process. */
TEST(blank) {
    static const char *const blank[] = {
        "",
        "\n",
        "  \n\t\n \r\n",
        "\xE2\x80\x8B\xE2\x80\x8B\n\xE2\x80\x8B\n",
        "\xEF\xBB\xBF\n",
        "\xE3\x80\x80\n",
        "\x01\x02\n",
        "\xE2\x96\x85\n\xE2\x96\x85 a b c\n\xC2\xA0\n",
        "\xE2\x96\x81\n",
    };
    for (size_t i = 0; i < sizeof blank / sizeof *blank; i++)
        for (int type = TOKENIZER_UNIGRAM; type <= TOKENIZER_CHAR; type++) {
            struct err err = {0};
            char *corpus = text_file("c", blank[i]);
            struct tokenizer_train_options o = {.size = 8, .type = (enum tokenizer_type)type};
            ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_EFORMAT,
                       "no text to learn from");
            xfree(corpus);
        }
}

/* Text that SentencePiece has its own ideas about: learnt or refused, but always told. */
TEST(odd_text) {
    struct rng rng = {.key = 11};
    static const char *const part[] = {"a",
                                       "b",
                                       "\t",
                                       " ",
                                       "\xE3\x80\x80",
                                       "\xE2\x80\x8B",
                                       "\x01",
                                       "\xEF\xBF\xBD",
                                       "\xE6\x97\xA5",
                                       "\xE2\x96\x81",
                                       "\xE2\x81\x87",
                                       "<s>",
                                       "<unk>",
                                       "\xCC\x81",
                                       "\xF0\x9F\x98\x80",
                                       "\xE2\x96\x85",
                                       "\r",
                                       "\xE2\x80\xA8",
                                       "\xEF\xB7\xBA",
                                       "0",
                                       "<0x41>",
                                       "\xEF\xBF\xBF"};
    int rounds = TEST_SANITIZED ? 20 : 60, learnt = 0;
    for (int round = 0; round < rounds; round++) {
        char text[512] = "";
        for (uint32_t n = 1 + rng_below(&rng, 16); n > 0; n--) {
            strcat(text, part[rng_below(&rng, sizeof part / sizeof *part)]);
            if (rng_below(&rng, 5) == 0) strcat(text, "\n");
        }
        char *corpus = text_file("c", text);
        for (int type = TOKENIZER_UNIGRAM; type <= TOKENIZER_CHAR; type++) {
            struct err err = {0};
            struct tokenizer_train_options o = {.size = 4 + (int)rng_below(&rng, 20),
                                                .type = (enum tokenizer_type)type,
                                                .normalization =
                                                    rng_below(&rng, 2) ? "identity" : NULL};
            int rc = learn_with(o, corpus, NULL, &err);
            assert_true(rc == 0 || rc == HEED_ECONFIG || rc == HEED_EFORMAT);
            assert_true(rc == 0 || err.msg[0]);
            learnt += rc == 0;
        }
        xfree(corpus);
    }
    assert_true(learnt > rounds / 2);
}

TEST(report) {
    char *corpus = path_of("c");
    FILE *f = fopen(corpus, "w");
    for (int i = 0; i < 200; i++) fprintf(f, "aaa bbb aab abb baa\n");
    fprintf(f, "\n \n\xFF\xFE z\n\xE2\x96\x85\n");
    for (int i = 0; i < 9000; i++) fputc('q', f); /* too long to learn from */
    fputc('\n', f);
    for (int i = 0; i < 90000; i++) fputc('q', f); /* too long to be kept */
    fclose(f);
    struct err err = {0};
    struct tokenizer_report r;
    struct tokenizer_train_options o = {.size = 8, .type = TOKENIZER_CHAR, .coverage = 0.99};
    ASSERT_OK(learn_with(o, corpus, &r, &err), err);
    assert_int_equal(r.lines, 206);
    assert_int_equal(r.empty, 2);
    assert_int_equal(r.too_long, 2);
    assert_int_equal(r.reserved, 1);
    assert_int_equal(r.replaced, 2);
    assert_int_equal(r.sampled, 201);
    assert_int_equal(r.chars, 5);         /* a b space U+FFFD z */
    assert_int_equal(r.chars_unknown, 1); /* z; U+FFFD is normalised to a space */
    assert_int_equal(r.unknown, 1);
    xfree(corpus);
}

static int stop_at_second(void *ctx, const struct tokenizer_report *r, const char *file) {
    (void)r, (void)file;
    return ++*(int *)ctx == 2 ? HEED_ELIMIT : 0;
}

TEST(stopped) {
    int calls = 0;
    char *corpus = word_corpus("c", 5000);
    struct err err = {0};
    struct tokenizer_train_options o = {
        .size = 60, .progress = stop_at_second, .progress_ctx = &calls};
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_ELIMIT, "stopped");
    assert_int_equal(calls, 2);
    xfree(corpus);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int die_at_rename(const char *from, const char *to) {
    (void)from, (void)to;
    _exit(9);
}

static ssize_t full_disk(int fd, const void *data, size_t size) {
    (void)fd, (void)data, (void)size;
    errno = ENOSPC;
    return -1;
}

/* A kill just before the end, or a full disk: the old file stays as it was. */
TEST(old_file_stays) {
    char *corpus = word_corpus("c", 200), *out = text_file("t.model", "the old one");
    struct tokenizer_train_options o = {.size = 60};
    struct err err = {0};
    pid_t child = fork();
    if (child == 0) {
        file_calls.rename = die_at_rename;
        learn_with(o, corpus, NULL, NULL);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    char *data;
    size_t size;
    ASSERT_OK(file_read_all(&data, &size, out, 100, &err), err);
    assert_string_equal(data, "the old one");
    xfree(data);
    struct file_calls real = file_calls;
    file_calls.write = full_disk;
    ASSERT_ERR(learn_with(o, corpus, NULL, &err), err, HEED_EIO, "no space left");
    file_calls = real;
    ASSERT_OK(file_read_all(&data, &size, out, 100, &err), err);
    assert_string_equal(data, "the old one");
    xfree(data), xfree(corpus), xfree(out);
}

/* ---- sample ---------------------------------------------------------------------------------- */

/* Each of 100 lines is kept equally often, in a sample bounded by lines and in one bounded by
 * bytes. */
TEST(sample_is_even) {
    for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
        int kept[100] = {0}, total = 0;
        for (uint64_t seed = 0; seed < 4000; seed++) {
            struct sample s;
            sample_init(&s, by_bytes ? 50 : 20, by_bytes ? 200 : 1000000, seed);
            for (int i = 0; i < 100; i++) {
                char text[10] = {(char)i};
                sample_add(&s, text, sizeof text);
                assert_true(s.n <= s.max_lines && s.bytes <= s.max_bytes && s.bytes == 10 * s.n);
            }
            for (uint64_t i = 0; i < s.n; i++) kept[(int)s.line[i]->text[0]]++;
            total += (int)s.n;
            sample_release(&s);
        }
        double mean = total / 100.0, slack = 6 * sqrt(mean);
        assert_true(mean > 400);
        for (int i = 0; i < 100; i++) ASSERT_NEAR(kept[i], mean, slack);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static int open_proto(struct tokenizer **t, const struct proto *p, struct err *err) {
    return tokenizer_open_memory(t, p->data, p->size, err);
}

/* Special ids as other tools choose them: padding first, no beginning. */
TEST(files_of_others) {
    struct proto *p = calloc(1, sizeof *p);
    struct err err = {0};
    struct tokenizer *t;
    put_piece(p, "<pad>", CONTROL);
    put_piece(p, "</s>", CONTROL);
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "\xE2\x96\x81hi", NORMAL);
    put_piece(p, "\xE2\x96\x81", NORMAL);
    put_piece(p, "<extra>", USER);
    ASSERT_OK(open_proto(&t, p, &err), err);
    assert_int_equal(tokenizer_eos(t), 1);
    assert_int_equal(tokenizer_unk(t), 2);
    assert_int_equal(tokenizer_bos(t), -1);
    ASSERT_ERR(tokenizer_check_ends(t, &err), err, HEED_EFORMAT, "no beginning piece (<s>)");
    assert_string_equal(there_and_back(t, "hi hi"), "hi hi");
    assert_string_equal(there_and_back(t, "hi<extra>"), "hi<extra>");
    int32_t ids[8] = {0};
    assert_int_equal(tokenizer_encode(t, "hi zz hi", 8, ids, 8), 4); /* unknown runs are one unk */
    assert_int_equal(ids[2], 2);
    tokenizer_free(t);
    p->size = 0;
    put_piece(p, "<s>", CONTROL);
    put_piece(p, "what?", UNKNOWN); /* known by its kind, not by its name */
    put_piece(p, "a", NORMAL);
    ASSERT_OK(open_proto(&t, p, &err), err);
    ASSERT_ERR(tokenizer_check_ends(t, &err), err, HEED_EFORMAT, "no end piece (</s>)");
    assert_int_equal(tokenizer_unk(t), 1);
    tokenizer_free(t);
    free(p);
}

TEST(not_models) {
    struct err err = {0};
    struct tokenizer *t;
    struct proto *p = calloc(1, sizeof *p);
    char *path = text_file("garbage", "this is not a model at all, just words\n");
    ASSERT_ERR(tokenizer_open(&t, path, &err), err, HEED_EFORMAT,
               "garbage: not a SentencePiece model");
    assert_null(t);
    xfree(path);
    path = text_file("empty", "");
    ASSERT_ERR(tokenizer_open(&t, path, &err), err, HEED_EFORMAT,
               "empty: not a SentencePiece model");
    xfree(path);
    ASSERT_ERR(tokenizer_open(&t, test_dir(), &err), err, HEED_EIO, test_dir());
    ASSERT_ERR(tokenizer_open(&t, "/no/such.model", &err), err, HEED_EIO,
               "/no/such.model: No such");
    put_piece(p, "a", NORMAL);
    ASSERT_ERR(open_proto(&t, p, &err), err, HEED_EFORMAT, "unk");
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "a", NORMAL);
    ASSERT_ERR(open_proto(&t, p, &err), err, HEED_EFORMAT, "a is already defined");
    p->size = 0;
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "", NORMAL);
    ASSERT_ERR(open_proto(&t, p, &err), err, HEED_EFORMAT, "piece must not be empty");
    p->size = 0;
    put_piece(p, "<unk>", UNKNOWN);
    for (int n = 1; n <= 65; n++) {
        char text[80] = {0};
        memset(text, 'u', (size_t)n);
        put_piece(p, text, USER);
    }
    ASSERT_ERR(open_proto(&t, p, &err), err, HEED_EFORMAT, "user-defined pieces begin alike");
    ASSERT_ERR(tokenizer_open_memory(&t, p->data, (size_t)TOKENIZER_MAX_FILE + 1, &err), err,
               HEED_ELIMIT, "bytes; at most");
    free(p);
}

/* A model with these normalisation rules: units of the trie, then strings. */
static int open_rules(uint32_t *unit, uint32_t n_unit, const char *strings, size_t size,
                      struct err *err) {
    struct proto *p = calloc(1, sizeof *p), *rules = calloc(1, sizeof *rules),
                 *spec = calloc(1, sizeof *spec);
    uint32_t bytes = n_unit * 4;
    memcpy(rules->data, &bytes, 4);
    memcpy(rules->data + 4, unit, bytes);
    memcpy(rules->data + 4 + bytes, strings, size);
    rules->size = 4 + bytes + size;
    put_piece(p, "<unk>", UNKNOWN);
    put_piece(p, "a", NORMAL);
    put_bytes(spec, 2, rules->data, rules->size);
    put_bytes(p, 3, spec->data, spec->size);
    struct tokenizer *t;
    int rc = open_proto(&t, p, err);
    if (!rc) {
        int32_t ids[64];
        assert_true(tokenizer_encode(t, "aaaa bbbb aaab", 14, ids, 64) >= 0);
    }
    tokenizer_free(t);
    free(p), free(rules), free(spec);
    return rc;
}

/* Rules whose trie leads out of its memory, runs in circles, or finds too many prefixes. A unit is
 * offset << 10 | leaf << 8 | label; the root's base is 1 here, so that byte c is at 1 ^ c. */
TEST(hostile_rules) {
    enum { N = 512, LEAF = 1 << 8, ROOT = 1 << 10, A = 1 ^ 'a' };
    uint32_t unit[N];
    struct err err = {0};
    memset(unit, 0xFF, sizeof unit); /* labels with the top bit lead nowhere */
    unit[0] = ROOT;
    ASSERT_OK(open_rules(unit, N, "", 1, &err), err);
    unit[A] = (256u ^ A) << 10 | LEAF | 'a'; /* "a" -> strings[unit[256]] */
    unit[256] = 0x80000000u | 2;
    ASSERT_OK(open_rules(unit, N, "x\0y", 4, &err), err);
    unit[256] = 0x80000000u | 4; /* a string behind the last */
    ASSERT_ERR(open_rules(unit, N, "x\0y", 4, &err), err, HEED_EFORMAT, "normalization rules");
    unit[256] = 0x80000000u | 2;
    ASSERT_ERR(open_rules(unit, N, "x\0y", 3, &err), err, HEED_EFORMAT, "normalization rules");
    ASSERT_ERR(open_rules(unit, 255, "", 1, &err), err, HEED_EFORMAT, "normalization rules");
    ASSERT_ERR(open_rules(unit, 256, "x\0y", 4, &err), err, HEED_EFORMAT, "normalization rules");
    ASSERT_ERR(open_rules(unit, 0, "", 1, &err), err, HEED_EFORMAT, "normalization rules");
    unit[A] = 0x1FFFFFu << 10 | LEAF | 'a'; /* far away */
    ASSERT_ERR(open_rules(unit, N, "x", 2, &err), err, HEED_EFORMAT, "normalization rules");
    unit[A] = (uint32_t)'a' << 10 | 'a'; /* back to the root's base */
    ASSERT_ERR(open_rules(unit, N, "x", 2, &err), err, HEED_EFORMAT, "normalization rules");
    unit[A] = 0xFFFFFFFFu;
    unit[0] = 0xFFFFFFFFu; /* the root itself leads away */
    ASSERT_ERR(open_rules(unit, N, "x", 2, &err), err, HEED_EFORMAT, "normalization rules");
    /* "b", "bb", ... each a rule: the k-th has base k << 8 | 1. */
    for (uint32_t depth = 32; depth <= 33; depth++) {
        uint32_t n = (depth + 1) << 8, *chain = malloc(n * 4);
        memset(chain, 0xFF, n * 4);
        chain[0] = ROOT;
        for (uint32_t k = 0; k < depth; k++) {
            uint32_t at = k << 8 | (1 ^ 'b'), below = (k + 1) << 8 | 1;
            chain[at] = (at ^ below) << 10 | LEAF | 'b';
            chain[below] = 0x80000000u;
        }
        int rc = open_rules(chain, n, "", 1, &err);
        assert_int_equal(rc, depth == 32 ? 0 : HEED_EFORMAT);
        free(chain);
    }
}

/* A real model, cut at many places and with bytes changed: opens or is refused, and then works or
 * fails in peace. */
TEST(damaged_models) {
    char *corpus = word_corpus("c", 200);
    struct tokenizer *t =
        learn((struct tokenizer_train_options){.size = 300, .byte_fallback = 1}, corpus);
    size_t size;
    const void *bytes = tokenizer_bytes(t, &size);
    unsigned char *copy = malloc(size);
    struct rng rng = {.key = 13};
    int rounds = TEST_SANITIZED ? 150 : 600, refused = 0;
    for (int round = 0; round < rounds; round++) {
        memcpy(copy, bytes, size);
        /* Mostly among the pieces and at the end, where the small fields are. */
        size_t n = round % 3 == 0 ? rng_below(&rng, (uint32_t)size) : size;
        for (uint32_t k = rng_below(&rng, 6); k > 0 && n > 0; k--) {
            size_t area = rng_below(&rng, 2) ? 9000 : n,
                   at = rng_below(&rng, (uint32_t)(area < n ? area : n));
            if (rng_below(&rng, 4) == 0) at = n - 1 - (at % (n < 64 ? n : 64));
            copy[at] = (unsigned char)rng_next(&rng);
        }
        struct err err = {0};
        struct tokenizer *bad;
        int rc = tokenizer_open_memory(&bad, copy, n, &err);
        assert_true(rc == 0 || rc == HEED_EFORMAT || rc == HEED_EINTERNAL || rc == HEED_ELIMIT);
        refused += rc != 0;
        if (rc) continue;
        int32_t ids[256];
        char out[4096];
        int m = tokenizer_encode(bad, "bake limto \xC3\xA9 xx", 16, ids, 256);
        if (m > 0 && m <= 256) tokenizer_decode(bad, ids, m, out, sizeof out);
        for (int id = 0; id < tokenizer_size(bad); id++) assert_non_null(tokenizer_piece(bad, id));
        tokenizer_free(bad);
    }
    assert_true(refused > rounds / 10);
    free(copy);
    tokenizer_free(t);
    xfree(corpus);
}

/* The same texts and options find what was learnt; other ones do not; damage is learnt over. */
TEST(cached) {
    char *a = word_corpus("a.txt", 300), *b = text_file("b.txt", "two words\n");
    char *cache = path_of("cache"), *path[5];
    const char *const input[] = {a, b}, *const swapped[] = {b, a};
    struct tokenizer_train_options o[] = {
        {.input = input, .n_input = 2, .size = 60, .type = TOKENIZER_BPE},
        {.input = input, .n_input = 2, .size = 61, .type = TOKENIZER_BPE},
        {.input = input, .n_input = 1, .size = 60, .type = TOKENIZER_BPE},
        {.input = swapped, .n_input = 2, .size = 60, .type = TOKENIZER_BPE},
        {.input = input, .n_input = 2, .size = 60, .type = TOKENIZER_BPE, .seed = 2}};
    struct err err = {0};
    int reused;
    for (int i = 0; i < 5; i++) {
        ASSERT_OK(tokenizer_cached(&path[i], &reused, &o[i], cache, &err), err);
        assert_false(reused);
        for (int k = 0; k < i; k++) assert_string_not_equal(path[i], path[k]);
    }
    for (int i = 0; i < 5; i++) xfree(path[i]);
    for (int damaged = 0; damaged < 2; damaged++) {
        ASSERT_OK(tokenizer_cached(&path[0], &reused, &o[0], cache, &err), err);
        assert_true(reused);
        ASSERT_OK(file_write_all(path[0], "x", 1, &err), err);
        xfree(path[0]);
        ASSERT_OK(tokenizer_cached(&path[0], &reused, &o[0], cache, &err), err);
        assert_false(reused);
        xfree(path[0]);
    }
    const char *none = "none.txt";
    o[0].input = &none;
    o[0].n_input = 1;
    ASSERT_ERR(tokenizer_cached(&path[0], &reused, &o[0], cache, &err), err, HEED_EIO, "none.txt");
    xfree(path[0]), xfree(a), xfree(b), xfree(cache);
}

TESTS(TP(types, "bpe"), TP(types, "unigram"), TP(types, "word"), TP(types, "char"), T(limits),
      TP(lossless, "bpe"), TP(lossless, "unigram"), T(normalized), T(any_bytes), T(digits),
      T(symbols), T(same_bytes), T(threads), T(errors), T(blank), T(odd_text), T(report),
      T(stopped), T(old_file_stays), T(sample_is_even), T(files_of_others), T(not_models),
      T(hostile_rules), T(damaged_models), T(cached))
