/* corpora.c — see corpora.h. */
#include "corpora.h"

#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/corpus_file.h"
#include "data/words.h"
#include "test.h"

atomic_long numbers_calls;

static int numbers_encode(const void *ctx, int32_t *ids, int cap, const char *text, size_t size,
                          struct err *err) {
    (void)err;
    uint32_t n_vocab = *(const uint32_t *)ctx;
    atomic_fetch_add(&numbers_calls, 1);
    int n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t id = 0, sum = 0;
        int digits = 1;
        size_t begin = i;
        for (; i < size && text[i] != ' '; i++) {
            digits &= text[i] >= '0' && text[i] <= '9';
            id = id * 10 + (uint32_t)(text[i] - '0');
            sum += (unsigned char)text[i];
        }
        if (i > begin && n++ < cap) ids[n - 1] = (int32_t)((digits ? id : sum) % n_vocab);
        if (i < size) i++;
    }
    return n;
}

/* Words are what spaces part, and every id is one; but two ids in a row that are odd are one word,
 * so that words have pieces. */
static int numbers_words(const void *ctx, struct words *words, int unit, const char *text,
                         size_t size, struct err *err) {
    (void)unit;
    int n = numbers_encode(ctx, NULL, 0, text, size, err), word = -1;
    words->ids = xrealloc(words->ids, (size_t)(n + 1) * sizeof *words->ids);
    words->of = xrealloc(words->of, (size_t)(n + 1) * sizeof *words->of);
    numbers_encode(ctx, words->ids, n, text, size, err);
    for (int i = 0, joined = 0; i < n; i++) {
        joined = i > 0 && !joined && words->ids[i] % 2 && words->ids[i - 1] % 2;
        words->of[i] = word += !joined;
    }
    words->n = word + 1;
    return words->n_piece = n;
}

struct corpus_encoder numbers_encoder(int n_vocab) {
    static uint32_t sizes[16];
    static int n;
    uint32_t *size = &sizes[n++ % 16];
    *size = (uint32_t)n_vocab;
    struct corpus_encoder e = {.encode = numbers_encode,
                               .words = numbers_words,
                               .ctx = size,
                               .n_vocab = n_vocab,
                               .eos = n_vocab - 1};
    memcpy(e.hash, "numbers numbers", CORPUS_KEY_SIZE);
    return e;
}

const char *corpora_path(const char *name) {
    static char path[16][1024];
    char want[1024];
    snprintf(want, sizeof want, "%s/%s", test_dir(), name);
    int i = 0;
    while (path[i][0] && strcmp(path[i], want) != 0) assert_true(++i < 16);
    return strcpy(path[i], want);
}

const char *corpora_write(const char *name, const char *text, size_t size) {
    const char *path = corpora_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void generate_side(FILE *f, int i, int n, struct rng *rng) {
    fprintf(f, "%d", i);
    for (int k = 1; k < n; k++) fprintf(f, " %u", rng_below(rng, 1000));
    fputc('\n', f);
}

void corpora_generate(const char *name, int n, uint64_t seed) {
    char file[2][64];
    snprintf(file[0], sizeof file[0], "%s.src", name);
    snprintf(file[1], sizeof file[1], "%s.tgt", name);
    FILE *src = fopen(corpora_path(file[0]), "wb"), *tgt = fopen(corpora_path(file[1]), "wb");
    assert_non_null(src);
    assert_non_null(tgt);
    struct rng rng = {.key = seed};
    for (int i = 0; i < n; i++) {
        double length = exp(2.6 + 0.6 * rng_normal(&rng));
        int n_src = 1 + (int)length, n_tgt = 1 + (int)(length * exp(0.15 * rng_normal(&rng)));
        generate_side(src, i, n_src, &rng);
        generate_side(tgt, i, n_tgt, &rng);
    }
    assert_int_equal(fclose(src) | fclose(tgt), 0);
}

struct corpus_options corpora_options(const char *name, int n_vocab) {
    char file[2][64];
    snprintf(file[0], sizeof file[0], "%s.src", name);
    snprintf(file[1], sizeof file[1], "%s.tgt", name);
    return (struct corpus_options){.src = corpora_path(file[0]),
                                   .tgt = corpora_path(file[1]),
                                   .cache_dir = corpora_path("cache"),
                                   .encoder = numbers_encoder(n_vocab),
                                   .threads = 2};
}

void corpora_make(struct corpus *corpus, const char *name, int n, int n_vocab) {
    corpora_generate(name, n, 1);
    struct corpus_options o = corpora_options(name, n_vocab);
    struct err err;
    ASSERT_OK(corpus_build(corpus, &o, NULL, &err), err);
}

void corpora_sign(void *data, size_t size) {
    struct corpus_trailer t;
    if (size < sizeof t) return;
    unsigned char *at = (unsigned char *)data + size - sizeof t;
    memcpy(&t, at, sizeof t);
    t.body_hash = XXH3_64bits(data, size - sizeof t);
    t.trailer_hash = XXH3_64bits(&t, offsetof(struct corpus_trailer, trailer_hash));
    memcpy(at, &t, sizeof t);
}
