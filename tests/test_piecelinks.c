/* test_piecelinks.c — links between words: as pieces, packed, and through a corpus cache into
 * batches. */
#include "base/mem.h"
#include "base/rng.h"
#include "corpora.h"
#include "data/batches.h"
#include "data/corpus_file.h"
#include "data/piecelinks.h"
#include "data/subword.h"
#include "data/text.h"
#include "data/words.h"
#include "test.h"

/* ---- pieces ---------------------------------------------------------------------------------- */

static int from_text(struct piece_link *link, const char *text, const struct link_side *src,
                     const struct link_side *tgt) {
    struct links words = {0};
    struct err err;
    ASSERT_OK(links_parse(&words, NULL, text, strlen(text), &err), err);
    links_turn(&words);
    int n = piecelinks_of_words(link, &words, src, tgt);
    links_release(&words);
    return n;
}

static void check_links(const struct piece_link *got, int n, const struct piece_link *want,
                        int n_want) {
    assert_int_equal(n, n_want);
    for (int i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("link %d: %d-%d to %d-%d, want %d-%d to %d-%d", i, got[i].src, got[i].src_end,
                     got[i].tgt, got[i].tgt_end, want[i].src, want[i].src_end, want[i].tgt,
                     want[i].tgt_end);
}
#define CHECK(got, n, ...)                                                                         \
    check_links(got, n, (const struct piece_link[]){__VA_ARGS__},                                  \
                sizeof((const struct piece_link[]){__VA_ARGS__}) / sizeof(struct piece_link))

TEST(words_become_ranges_of_pieces) {
    struct piece_link link[16];
    /* Source: words of 1, 2, 1, 1 pieces and one of no word. Target: 2, 1; word 2 has no piece. */
    const int src_of[] = {0, 1, 1, 2, 3, -1}, tgt_of[] = {0, 0, 1, 3};
    const struct link_side src = {src_of, 6, 4}, tgt = {tgt_of, 4, 4};
    assert_int_equal(from_text(link, "", &src, &tgt), 0);
    int n = from_text(link, "1-0", &src, &tgt);
    CHECK(link, n, {1, 3, 0, 2});
    /* By target, whatever the order of the line, each once; neighbours make one range. */
    n = from_text(link, "3-1 0-1 0-1 2-0 1-0 3-3", &src, &tgt);
    CHECK(link, n, {1, 4, 0, 2}, {0, 1, 2, 3}, {4, 5, 2, 3}, {4, 5, 3, 4});
    /* A word without pieces has nothing to say; one that is not there is found out. */
    n = from_text(link, "0-2 0-3", &src, &tgt);
    CHECK(link, n, {0, 1, 3, 4});
    assert_int_equal(from_text(link, "0-0 4-0", &src, &tgt), -1);
    assert_int_equal(from_text(link, "0-4", &src, &tgt), -1);
}

/* Random links of a pair, in order. */
static int random_links(struct piece_link *link, struct rng *rng, int n_src, int n_tgt) {
    int n = 0;
    for (int t = (int)rng_below(rng, 3); t < n_tgt;) {
        int t_end = t + 1 + (int)rng_below(rng, 3);
        if (t_end > n_tgt) t_end = n_tgt;
        for (int s = (int)rng_below(rng, (uint32_t)n_src); s < n_src;) {
            int s_end = s + 1 + (int)rng_below(rng, 3);
            if (s_end > n_src) s_end = n_src;
            link[n++] = (struct piece_link){s, s_end, t, t_end};
            s = s_end + (int)rng_below(rng, 200);
        }
        t = t_end + (int)rng_below(rng, 300) / 100;
    }
    return n;
}

TEST(packed_links_come_back) {
    enum { LONG = 20000 };
    struct rng rng = {.key = 3};
    struct piece_link *link = xcalloc(4 * LONG, sizeof *link),
                      *back = xcalloc(4 * LONG, sizeof *back);
    unsigned char *bytes = xmalloc((size_t)4 * LONG * LINK_BYTES);
    for (int round = 0; round < 2000; round++) {
        int most = round % 100 ? 60 : LONG, n_src = 1 + (int)rng_below(&rng, (uint32_t)most);
        int n_tgt = 1 + (int)rng_below(&rng, most == LONG ? 400 : 60);
        int n = random_links(link, &rng, n_src, n_tgt);
        size_t size = piecelinks_pack(bytes, link, n);
        assert_true(size <= (size_t)n * LINK_BYTES);
        assert_int_equal(piecelinks_unpack(back, n, bytes, size, n_src, n_tgt), 0);
        check_links(back, n, link, n);
        if (n == 0) continue;
        /* One byte less, one link more, a shorter sentence: noticed. */
        assert_int_equal(piecelinks_unpack(back, n, bytes, size - 1, n_src, n_tgt), -1);
        assert_int_equal(piecelinks_unpack(back, n + 1, bytes, size, n_src, n_tgt), -1);
        assert_int_equal(piecelinks_unpack(back, n, bytes, size, n_src, link[n - 1].tgt_end - 1),
                         -1);
    }
    xfree(link);
    xfree(back);
    xfree(bytes);
}

/* Whatever the bytes: links in order and within the sentence, or none. */
TEST(any_bytes_are_links_or_refused) {
    struct rng rng = {.key = 4};
    int good = 0;
    for (int round = 0; round < 200000; round++) {
        unsigned char bytes[24];
        struct piece_link link[8];
        int size = (int)rng_below(&rng, 25), n = (int)rng_below(&rng, 8);
        int n_src = 1 + (int)rng_below(&rng, 40), n_tgt = 1 + (int)rng_below(&rng, 40);
        uint32_t limit = round % 2 ? 256 : 8;
        for (int i = 0; i < size; i++) bytes[i] = (unsigned char)rng_below(&rng, limit);
        if (piecelinks_unpack(link, n, bytes, (size_t)size, n_src, n_tgt)) continue;
        good++;
        for (int i = 0; i < n; i++) {
            const struct piece_link *l = &link[i];
            assert_true(0 <= l->src && l->src < l->src_end && l->src_end <= n_src);
            assert_true(0 <= l->tgt && l->tgt < l->tgt_end && l->tgt_end <= n_tgt);
            if (i == 0) continue;
            if (l->tgt == l[-1].tgt)
                assert_true(l->tgt_end == l[-1].tgt_end && l->src >= l[-1].src_end);
            else
                assert_true(l->tgt >= l[-1].tgt_end);
        }
    }
    assert_true(good > 1000);
}

TEST(other_pieces_take_links_along) {
    /* |abc|de|f| cut as |ab|cd|ef|: the last two have their middle on an edge and go right */
    const int32_t old[] = {3, 2, 1}, new[] = {2, 2, 2};
    int32_t to[4];
    piecelinks_edges(to, old, 3, new, 3);
    assert_memory_equal(to, ((int32_t[]){0, 1, 2, 3}), sizeof to);
    piecelinks_edges(to, old, 3, old, 3);
    assert_memory_equal(to, ((int32_t[]){0, 1, 2, 3}), sizeof to);
    piecelinks_edges(to, old, 3, (int32_t[]){1, 1, 1, 1, 1, 1}, 6);
    assert_memory_equal(to, ((int32_t[]){0, 3, 5, 6}), sizeof to);
    /* |abc|de|f| as |abcdef|: one piece of all; its middle is on the first edge */
    piecelinks_edges(to, old, 3, (int32_t[]){6}, 1);
    assert_memory_equal(to, ((int32_t[]){0, 0, 1, 1}), sizeof to);
    struct piece_link link[] = {{0, 1, 0, 1}, {2, 3, 0, 1}, {1, 2, 1, 3}};
    int n = piecelinks_move(link, 3, to, NULL);
    CHECK(link, n, {0, 1, 1, 3}); /* words 0 and 2 of the source have no piece any more */
    n = piecelinks_move(link, 1, NULL, (int32_t[]){0, 2, 3, 5});
    CHECK(link, n, {0, 1, 2, 5});
}

/* ---- corpus ---------------------------------------------------------------------------------- */

static struct corpus_options three_texts(const char *src, const char *tgt, const char *links,
                                         int n_vocab) {
    corpora_write("t.src", src, strlen(src));
    corpora_write("t.tgt", tgt, strlen(tgt));
    struct corpus_options o = corpora_options("t", n_vocab);
    o.links = corpora_write("t.links", links, strlen(links));
    return o;
}

static int links_at(const struct corpus *c, int64_t i, struct piece_link *link) {
    struct corpus_place place;
    int32_t scratch[256];
    struct err err;
    ASSERT_OK(corpus_find(c, i, &place, &err), err);
    assert_true(place.n_link_id <= 256);
    ASSERT_OK(corpus_read_links(c, &place, link, scratch, &err), err);
    return place.n_link;
}

TEST(links_come_back) {
    int n_vocab = atoi(TEST_ARG);
    struct corpus_options o = three_texts("1 3 2\n4\n\n5 6\n8 9\n", "5 2\n6 7\n7\n8\n2\n",
                                          "0-0 1-1\n\n7-7\n1-0\t0-0\n0-9\n", n_vocab);
    struct corpus c;
    struct corpus_report r;
    struct err err;
    struct piece_link link[64];
    char text[200];
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_int_equal(c.n_pair, 4);
    assert_true(c.has_links && r.n_linked == 2 && r.n_unlinked == 1 && r.first_unlinked == 5);
    int n = links_at(&c, 0, link);
    CHECK(link, n, {0, 2, 0, 1}, {2, 3, 1, 2}); /* "1 3" is one word of two pieces */
    assert_int_equal(links_at(&c, 1, link), 0);
    n = links_at(&c, 2, link);
    CHECK(link, n, {0, 2, 0, 1});
    assert_int_equal(links_at(&c, 3, link), 0);
    corpus_report_text(&r, text, sizeof text);
    assert_non_null(strstr(text, "; 2 aligned, 1 alignment ignored that does not fit (first: line "
                                 "5)"));
    int32_t src[8], tgt[8];
    struct corpus_place place;
    ASSERT_OK(corpus_find(&c, 2, &place, &err), err);
    ASSERT_OK(corpus_read(&c, &place, src, tgt, &err), err);
    assert_true(place.n_src == 3 && src[0] == 5 && src[1] == 6 && tgt[0] == 8);
    corpus_close(&c);
    struct corpus_report again;
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(again.reused && again.n_linked == 2 && again.first_unlinked == 5);
    corpus_close(&c);
    /* Other links, or none, are another corpus. */
    corpora_write("t.links", "0-0\n\n\n\n\n", 8);
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(!again.reused && again.n_linked == 1);
    corpus_close(&c);
    o.link_unit = 1;
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(!again.reused);
    corpus_close(&c);
    o.links = NULL;
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(!again.reused && !c.has_links && links_at(&c, 0, link) == 0);
    corpus_close(&c);
}

TEST(bad_links_are_named) {
    struct corpus c;
    struct err err;
    struct corpus_options o = three_texts("1\n2\n3\n", "1\n2\n3\n", "0-0\n0-0 0:0\n", 100);
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EFORMAT, "t.src has 3 lines");
    assert_non_null(strstr(err.msg, "t.links has 2: line i must align pair i"));
    o = three_texts("1\n2\n3\n", "1\n2\n3\n", "0-0\n0-0 0:0\n\n", 100);
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EFORMAT, "t.links, line 2: '0:0'");
    o = three_texts("1\n\n3\n", "1\n2\n3\n", "0-0\nx\n\n",
                    100); /* also where the pair is not kept */
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EFORMAT, "t.links, line 2: 'x'");
    o.links = corpora_path("none");
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EIO, "none");
    o.encoder.words = NULL;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EINVAL, "knows no words");
}

/* A line that links everything to everything is more than anyone means. */
TEST(too_many_links_are_ignored) {
    enum { N = 40 };
    char side[3 * N + 2] = "", *links = xmalloc(N * N * 6 + 2), *at = links;
    for (int i = 0; i < N; i++) strcat(side, i ? " 2" : "2");
    strcat(side, "\n");
    /* Every second word, so that ranges do not join. */
    for (int i = 0; i < N; i += 2)
        for (int j = 0; j < N; j++) at += sprintf(at, "%d-%d ", i, j);
    strcpy(at, "\n");
    struct corpus_options o = three_texts(side, side, links, 100);
    struct corpus c;
    struct corpus_report r;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(r.n_linked == 0 && r.n_unlinked == 1);
    corpus_close(&c);
    xfree(links);
}

/* Pairs of up to `longest` words, word i of the one linked with word i of the other, some lines
 * empty. */
static struct corpus_options generate(int n, int longest) {
    FILE *f[3];
    const char *const name[] = {"g.src", "g.tgt", "g.links"};
    struct rng rng = {.key = 5};
    for (int i = 0; i < 3; i++) assert_non_null(f[i] = fopen(corpora_path(name[i]), "wb"));
    for (int i = 0; i < n; i++) {
        int k = 1 + (int)rng_below(&rng, (uint32_t)longest);
        for (int j = 0; j < k; j++) {
            fprintf(f[0], "%d ", 2 * (i + j)); /* even: each is a word */
            fprintf(f[1], "%d ", 2 * (i + 2 * j));
            if (i % 4) fprintf(f[2], "%d-%d ", k - 1 - j, j);
        }
        for (int s = 0; s < 3; s++) fputc('\n', f[s]);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(fclose(f[i]), 0);
    struct corpus_options o = corpora_options("g", 60000);
    o.links = corpora_path("g.links");
    return o;
}

static char *slurp_cache(size_t *size) {
    char *data, path[2048];
    struct err err;
    struct dir_names names;
    ASSERT_OK(dir_read(&names, corpora_path("cache"), &err), err);
    for (int i = 0; i < names.n; i++)
        if (strstr(names.name[i], ".corpus"))
            snprintf(path, sizeof path, "%s/%s", corpora_path("cache"), names.name[i]);
    dir_names_release(&names);
    ASSERT_OK(file_read_all(&data, size, path, 1 << 26, &err), err);
    return data;
}

TEST(threads_do_not_matter) {
    struct corpus_options o = generate(9000, 12);
    char *data[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        struct corpus c;
        struct err err;
        o.threads = 1 + 4 * i;
        o.rebuild = 1;
        ASSERT_OK(corpus_build(&c, &o, NULL, &err), err);
        corpus_close(&c);
        data[i] = slurp_cache(&size[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(data[0], data[1], size[0]);
    xfree(data[0]);
    xfree(data[1]);
}

/* Every pair that can be found and read: no harm, whatever the file says. */
static void read_all(const struct corpus *c) {
    int32_t *ids = xcalloc((size_t)(c->max_src + c->max_tgt), sizeof *ids);
    for (int64_t i = 0; i < c->n_pair; i++) {
        struct corpus_place place;
        struct err err;
        ASSERT_OK(corpus_find(c, i, &place, &err), err);
        corpus_read(c, &place, ids, ids + c->max_src, NULL);
        size_t most = LINKS_PER_TOKEN * (size_t)(place.n_src + place.n_tgt);
        struct piece_link *link = xcalloc(most, sizeof *link);
        int32_t *scratch = xcalloc((size_t)place.n_link_id + 1, sizeof *scratch);
        assert_true((size_t)place.n_link <= most);
        corpus_read_links(c, &place, link, scratch, NULL);
        xfree(link);
        xfree(scratch);
    }
    xfree(ids);
}

TEST(damage_is_found_and_forgery_does_no_harm) {
    struct corpus_options o = generate(8, 5);
    struct corpus c;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, NULL, &err), err);
    corpus_close(&c);
    size_t size;
    char *data = slurp_cache(&size), *forged = xmalloc(size);
    ASSERT_OK(corpus_open_memory(&c, data, size, &err), err);
    assert_true(c.has_links && c.report.n_linked == 6);
    read_all(&c);
    corpus_close(&c);
    for (size_t i = 0; i < size * 8; i++) {
        data[i / 8] ^= (char)(1 << i % 8);
        ASSERT_ERR(corpus_open_memory(&c, data, size, &err), err, HEED_EFORMAT, "memory: ");
        data[i / 8] ^= (char)(1 << i % 8);
    }
    static const unsigned char values[] = {0, 1, 2, 0x7f, 0x80, 0xff};
    int opened = 0;
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k < sizeof values; k++) {
            memcpy(forged, data, size);
            forged[i] = (char)values[k];
            corpora_sign(forged, size);
            if (corpus_open_memory(&c, forged, size, &err) == 0) read_all(&c), opened++;
            corpus_close(&c);
        }
    assert_true(opened > 100);
    xfree(forged);
    xfree(data);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* Each row of a batch against what its pair says: the pair's number is its first id. */
static int check_batch(const struct batch *b) {
    int guided = 0;
    for (int s = 0; s < b->n_seq; s++) {
        int first = b->tgt.start[s], n = b->tgt.start[s + 1] - first - 1; /* words */
        int number = b->src.ids[b->src.start[s]] / 2;
        for (int i = 0; i <= n; i++) {
            int row = first + i, begin = b->span[2 * row], linked = b->span[2 * row + 1] - begin;
            int want = i > 0 && number % 4 ? 1 : 0; /* row 0 has the begin mark */
            if (linked != want) fail_msg("pair %d, row %d: %d links", number, i, linked);
            if (!want) continue;
            assert_true(b->range[2 * begin] == n - i && b->range[2 * begin + 1] == n - i + 1);
            guided++;
        }
    }
    assert_int_equal(b->n_guided, guided);
    return guided;
}

TEST(batches_carry_links) {
    struct corpus_options o = generate(3000, 12);
    struct corpus c, plain;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, NULL, &err), err);
    o.links = NULL;
    ASSERT_OK(corpus_build(&plain, &o, NULL, &err), err);
    struct batches *with, *without;
    struct batches_source source = {.corpus = &c}, other = {.corpus = &plain};
    struct batches_options options = {.source = &source,
                                      .n_source = 1,
                                      .seed = 7,
                                      .tokens = 500,
                                      .pool = 1000,
                                      .prefetch = atoi(TEST_ARG),
                                      .bos = 1};
    ASSERT_OK(batches_new(&with, &options, &err), err);
    options.source = &other;
    ASSERT_OK(batches_new(&without, &options, &err), err);
    struct batch a, b;
    ASSERT_OK(batches_batch_init(with, &a, &err), err);
    ASSERT_OK(batches_batch_init(without, &b, &err), err);
    assert_true(a.span && !b.span);
    int guided = 0;
    for (int i = 0; i < 200; i++) {
        ASSERT_OK(batches_next(with, &a, &err), err);
        ASSERT_OK(batches_next(without, &b, &err), err);
        guided += check_batch(&a);
        /* The links change nothing else. */
        assert_true(a.n_seq == b.n_seq && a.src.n_tok == b.src.n_tok);
        assert_memory_equal(a.src.ids, b.src.ids, (size_t)a.src.n_tok * sizeof *a.src.ids);
        assert_memory_equal(a.tgt_out, b.tgt_out, (size_t)a.tgt.n_tok * sizeof *a.tgt_out);
    }
    assert_true(guided > 10000);
    struct sweep *sweep;
    const struct batch *one;
    int n = 0, rc;
    ASSERT_OK(sweep_new(&sweep, &(struct batches_source){.corpus = &c}, 500, 1, &err), err);
    while ((rc = sweep_next(sweep, &one, &err)) > 0) check_batch(one), n += one->n_seq;
    ASSERT_OK(rc, err);
    assert_int_equal(n, 3000);
    sweep_free(sweep);
    batch_release(&a);
    batch_release(&b);
    batches_free(with);
    batches_free(without);
    corpus_close(&c);
    corpus_close(&plain);
}

/* The first lines of the demo's text, and as their translation the same tokens backwards. */
static struct corpus_options backwards(const struct tokenizer *t, int n) {
    FILE *f[3];
    const char *const name[] = {"w.src", "w.tgt", "w.links"};
    struct text *text;
    struct line line;
    struct err err;
    ASSERT_OK(text_open(&text, "demo/train.en.xz", &err), err);
    for (int i = 0; i < 3; i++) assert_non_null(f[i] = fopen(corpora_path(name[i]), "wb"));
    while (n-- > 0 && text_next(text, &line, &err) > 0) {
        struct span word[64];
        int k = words_split(word, 64, WORDS_TOKENS, line.text, line.size);
        assert_in_range(k, 1, 64);
        fprintf(f[0], "%s\n", line.text);
        for (int i = 0; i < k; i++) {
            const struct span *w = &word[k - 1 - i];
            fprintf(f[1], "%.*s ", w->end - w->begin, line.text + w->begin);
            fprintf(f[2], "%d-%d ", i, k - 1 - i);
        }
        fputc('\n', f[1]);
        fputc('\n', f[2]);
    }
    text_close(text);
    for (int i = 0; i < 3; i++) assert_int_equal(fclose(f[i]), 0);
    struct corpus_options o = corpora_options("w", 1);
    o.encoder = corpus_encoder_of(t);
    o.links = corpora_path("w.links");
    o.link_unit = WORDS_TOKENS;
    return o;
}

static void spell(char *out, const struct tokenizer *t, const int32_t *ids, int n) {
    for (*out = 0; n-- > 0; ids++) strcat(out, tokenizer_piece(t, *ids));
}

/* The pieces of every target token and those linked to it spell the same; returns how many pieces
 * there were on both sides. */
static int check_spelling(const struct batch *b, const struct tokenizer *t, int tagged) {
    int n = 0;
    for (int s = 0; s < b->n_seq; s++) {
        int first = b->tgt.start[s], end = b->tgt.start[s + 1], src = b->src.start[s];
        if (tagged) assert_int_equal(b->src.ids[src], 5);
        for (int row = first + 1, last; row < end; row = last) {
            int span = b->span[2 * row];
            for (last = row; last < end && b->span[2 * last] == span; last++) continue;
            assert_int_equal(b->span[2 * row + 1] - span, 1);
            const int32_t *range = b->range + 2 * span;
            char x[512], y[512];
            spell(x, t, b->src.ids + src + range[0], range[1] - range[0]);
            spell(y, t, b->tgt.ids + row, last - row);
            if (strcmp(x, y) != 0) fail_msg("'%s' is linked with '%s'", x, y);
            n += range[1] - range[0] + last - row;
        }
    }
    return n;
}

/* Sampled segmentations, drawn anew for both sides, and a tag before the source: links follow. */
TEST(links_follow_sampled_pieces) {
    static const char *const demo[] = {"demo/train.en.xz", "demo/train.de.xz"};
    struct tokenizer *t;
    struct subword *sample;
    struct corpus c;
    struct err err;
    struct tokenizer_train_options learn = {
        .input = demo, .n_input = 2, .type = TOKENIZER_BPE, .size = 2000};
    learn.out = corpora_path("t.model");
    ASSERT_OK(tokenizer_train(&learn, NULL, &err), err);
    ASSERT_OK(tokenizer_open(&t, learn.out, &err), err);
    struct corpus_options o = backwards(t, 2000);
    ASSERT_OK(corpus_build(&c, &o, NULL, &err), err);
    assert_true(c.report.n_linked == (uint64_t)c.n_pair && c.n_pair > 1900);
    ASSERT_OK(subword_new(&sample, t, &(struct subword_options){0.4, 0}, &err), err);
    int n[8];
    for (int i = 0; i < 8; i++) {
        struct batches_source source = {.corpus = &c, .tagged = i / 4, .tag = 5};
        struct batches_options options = {.source = &source,
                                          .n_source = 1,
                                          .tokens = 1000,
                                          .bos = tokenizer_bos(t),
                                          .sample_src = i & 1 ? sample : NULL,
                                          .sample_tgt = i & 2 ? sample : NULL,
                                          .sample_len = 256};
        struct batches *batches;
        struct batch b;
        ASSERT_OK(batches_new(&batches, &options, &err), err);
        ASSERT_OK(batches_batch_init(batches, &b, &err), err);
        struct batches_state at = {0};
        for (n[i] = 0; at.epoch == 0; batches_state(batches, &at)) {
            ASSERT_OK(batches_next(batches, &b, &err), err);
            n[i] += check_spelling(&b, t, i / 4);
        }
        batch_release(&b);
        batches_free(batches);
    }
    assert_true(n[1] > 1.2 * n[0] && n[2] > 1.2 * n[0] && n[3] > 1.2 * n[1]);
    assert_true(n[4] == n[0] && n[7] == n[3]);
    subword_free(sample);
    corpus_close(&c);
    tokenizer_free(t);
}

TESTS(T(words_become_ranges_of_pieces), T(packed_links_come_back),
      T(any_bytes_are_links_or_refused), T(other_pieces_take_links_along),
      TP(links_come_back, "100"), TP(links_come_back, "100000"), T(bad_links_are_named),
      T(too_many_links_are_ignored), T(threads_do_not_matter),
      T(damage_is_found_and_forgery_does_no_harm), TP(batches_carry_links, "0"),
      TP(batches_carry_links, "4"), T(links_follow_sampled_pieces))
