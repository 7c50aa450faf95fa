/* test_tongues.c — models whose ids are not their tokenizer's, and whose two sides differ: they say
 * what the plain model says whose rows they have in another order, whoever asks and whatever copies
 * them; and hostile descriptions. */
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/json.h"
#include "model/modeldir.h"
#include "model/tongues.h"
#include "search/scorer.h"
#include "search/translator.h"
#include "test.h"
#include "toy.h"
#include "train/average.h"

enum { N_PIECE = 300, N_TEXT = 12, N_MORE = 4 };
static const char *const more[N_MORE] = {"<pad>", ">>deu<<", "eng_Latn", "extra"};

static const char *const texts[N_TEXT] = {"the cat sat",
                                          "the cat number 7 sat on mat 21, and so did dog 35.",
                                          "",
                                          "so did dog 1",
                                          "\xC3\xA9t\xC3\xA9 on the mat",
                                          "a b c d e f g",
                                          "mat 99 dog 12 cat 31",
                                          "number on sat",
                                          "and so did dog 35",
                                          "cat cat cat",
                                          "the mat and the dog sat",
                                          "12 34 56"};

/* ---- twins ----------------------------------------------------------------------------------- */

/* How a twin differs from the model it is made of: the order of each side's tokens (0: the file's),
 * two sides, and what it says about tokens. */
struct twin {
    uint64_t seed[2];
    int two_sides, n_more; /* n_more tokens more, which the plain model does not have */
    const char *tokens;    /* JSON with %d for the new ids of <s>, </s>, <unk>; or NULL */
};

struct order {
    int of[N_PIECE + N_MORE]; /* the old row of each new id; -1: a row of the twin's own */
    int n;
};

static struct order shuffle(uint64_t seed, int n_more) {
    struct order o = {.n = N_PIECE + n_more};
    struct rng rng = {.key = seed};
    for (int i = 0; i < o.n; i++) o.of[i] = i < N_PIECE ? i : -1 - (i - N_PIECE);
    for (int i = o.n; seed && i > 1; i--) {
        int k = (int)rng_below(&rng, (uint32_t)i), swap = o.of[k];
        o.of[k] = o.of[i - 1];
        o.of[i - 1] = swap;
    }
    return o;
}

static int new_id(const struct order *o, int old) {
    int i = 0;
    while (o->of[i] != old) i++;
    return i;
}

static void write_tokens(const char *dir, const char *name, const struct order *o,
                         const struct tokenizer *t) {
    char text[1 << 14] = "", *path = path_join(dir, name);
    struct err err = {0};
    for (int i = 0; i < o->n; i++)
        strcat(strcat(text, o->of[i] < 0 ? more[-1 - o->of[i]] : tokenizer_piece(t, o->of[i])),
               "\n");
    ASSERT_OK(file_write_all(path, text, strlen(text), &err), err);
    xfree(path);
}

static int from_flat(void *ctx, size_t offset, size_t count, float *out, struct err *err) {
    (void)err;
    memcpy(out, (const float *)ctx + offset, count * sizeof *out);
    return 0;
}

/* All weights of a model in the twin's order. */
static void write_weights(const char *dir, const struct config *c, const struct modeldir *md,
                          const struct order order[2]) {
    struct param_table table;
    struct err err = {0};
    struct rng rng = {.key = 77};
    char *path = path_join(dir, MODELDIR_WEIGHTS);
    param_table_init(&table, c);
    float *flat = xcalloc(table.n_elem, sizeof *flat);
    size_t d = (size_t)c->d_model;
    for (int i = 0; i < table.n_param; i++) {
        const struct param *p = &table.param[i];
        float *to = flat + p->offset;
        int embeds = !strcmp(p->name, "src_embed") || !strcmp(p->name, "tgt_embed") ||
                     !strcmp(p->name, "out");
        const struct order *o = &order[strcmp(p->name, "src_embed") != 0];
        const struct param *was = param_table_find(&md->table, embeds ? "tgt_embed" : p->name);
        assert_non_null(was);
        int at = (int)(was - md->table.param);
        if (!embeds) modeldir_values(md, at, 0, (size_t)p->rows * (size_t)p->cols, to);
        for (int r = 0; embeds && r < p->rows; r++)
            if (o->of[r] >= 0)
                modeldir_values(md, at, (size_t)o->of[r] * d, d, to + (size_t)r * d);
            else
                for (size_t k = 0; k < d && strcmp(p->name, "out"); k++)
                    to[(size_t)r * d + k] = ((float)rng_below(&rng, 2001) - 1000) / 5000;
    }
    struct weights_options options = {.step = 1, .type = DTYPE_F32};
    ASSERT_OK(weights_write(path, &table, from_flat, flat, &options, &err), err);
    param_table_release(&table);
    xfree(flat), xfree(path);
}

static char *make_twin(const char *from, const char *name, const struct twin *w) {
    struct modeldir md;
    struct tokenizer *t;
    struct err err = {0};
    struct order order[2] = {shuffle(w->seed[0], w->n_more),
                             shuffle(w->seed[!!w->two_sides], w->n_more)};
    char *dir = path_join(test_dir(), name), *pieces = path_join(from, MODELDIR_TOKENIZER),
         *second = path_join(dir, MODELDIR_TARGET_TOKENIZER);
    ASSERT_OK(modeldir_open(&md, from, &err), err);
    ASSERT_OK(tokenizer_open(&t, pieces, &err), err);
    ASSERT_OK(dir_make(dir, &err), err);
    ASSERT_OK(modeldir_copy_tokenizer(dir, pieces, &err), err);
    write_tokens(dir, MODELDIR_TOKENS, &order[0], t);
    if (w->two_sides) write_tokens(dir, MODELDIR_TARGET_TOKENS, &order[1], t);
    if (w->two_sides) ASSERT_OK(file_copy(second, pieces, &err), err);
    struct config c = md.config;
    c.n_vocab_src = c.n_vocab_tgt = N_PIECE + w->n_more;
    c.tie = TIE_NONE;
    struct model_notes notes = {0};
    char text[1000];
    /* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
    snprintf(text, sizeof text, w->tokens ? w->tokens : "", new_id(&order[1], 1),
             new_id(&order[1], 2), new_id(&order[1], 0));
    if (w->tokens) ASSERT_OK(json_in_text(&notes.tokens, text, strlen(text), "tokens", &err), err);
    ASSERT_OK(modeldir_init(dir, &c, &notes, NULL, &err), err);
    write_weights(dir, &c, &md, order);
    model_notes_release(&notes);
    tokenizer_free(t);
    modeldir_close(&md);
    xfree(pieces), xfree(second);
    return dir;
}

/* ---- translating ----------------------------------------------------------------------------- */

struct said {
    char text[3][2000];
    float score[3];
    struct align_link link[200];
    int n, n_link;
};

static void translate(struct said *said, const char *dir, const struct translator_options *o) {
    struct engine *engine;
    struct err err = {0};
    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    struct translator_input in[N_TEXT];
    struct translation out[N_TEXT];
    ASSERT_OK(engine_open(&engine, &from, &err), err);
    struct translator *t = translator_new(engine);
    ASSERT_OK(translator_set(t, o, &err), err);
    for (int i = 0; i < N_TEXT; i++)
        in[i] = (struct translator_input){.text = texts[i], .size = strlen(texts[i])};
    ASSERT_OK(translator_run(t, in, N_TEXT, out, NULL, &err), err);
    for (int i = 0; i < N_TEXT; i++) {
        said[i].n = out[i].n;
        for (int k = 0; k < out[i].n; k++) {
            assert_in_range(out[i].best[k].size, 0, sizeof said->text[0] - 1);
            strcpy(said[i].text[k], out[i].best[k].text);
            said[i].score[k] = out[i].best[k].score;
        }
        said[i].n_link = out[i].best[0].n_link;
        memcpy(said[i].link, out[i].best[0].link,
               (size_t)said[i].n_link * sizeof *out[i].best[0].link);
    }
    translator_free(t);
    engine_close(engine);
}

/* The same texts in the same order, the same links, and nearly the same scores: other orders of
 * tokens are other orders of summing. */
static void assert_same(const char *dir, const struct said *as, struct translator_options *o) {
    static struct said said[N_TEXT];
    translate(said, dir, o);
    for (int i = 0; i < N_TEXT; i++) {
        assert_int_equal(said[i].n, as[i].n);
        assert_int_equal(said[i].n_link, as[i].n_link);
        for (int k = 0; k < as[i].n; k++) {
            assert_string_equal(said[i].text[k], as[i].text[k]);
            ASSERT_NEAR(said[i].score[k], as[i].score[k], 1e-4);
        }
        assert_memory_equal(said[i].link, as[i].link, (size_t)as[i].n_link * sizeof *as[i].link);
    }
}

static struct translator_options options(int alignment) {
    struct translator_options o = translator_defaults();
    o.search.n_best = 3;
    o.search.max_extra = 6;
    o.alignment = alignment;
    return o;
}

TEST(shuffled_ids) {
    static struct said said[N_TEXT];
    char *from = xstrdup(model_dir("plain", 3, N_PIECE));
    struct twin one = {.seed = {5}}, two = {.seed = {5, 6}, .two_sides = 1};
    char *joint = make_twin(from, "joint", &one), *apart = make_twin(from, "apart", &two);
    int different = 0;
    for (int alignment = ALIGNMENT_NONE; alignment <= ALIGNMENT_WORDS; alignment++) {
        struct translator_options o = options(alignment);
        translate(said, from, &o);
        assert_same(joint, said, &o);
        assert_same(apart, said, &o);
    }
    for (int i = 1; i < N_TEXT; i++) different += strcmp(said[i].text[0], said[0].text[0]) != 0;
    assert_true(different > 5);
    xfree(from), xfree(joint), xfree(apart);
}

/* Copies keep the files and the notes. */
TEST(copies) {
    static struct said said[N_TEXT];
    struct err err = {0};
    char *from = xstrdup(model_dir("plain", 4, N_PIECE));
    struct twin two = {.seed = {8, 9},
                       .two_sides = 1,
                       .n_more = N_MORE,
                       .tokens = "{\"start\": %d, \"end\": %d, \"unknown\": %d, \"banned\": [0]}"};
    char *apart = make_twin(from, "apart", &two), *mean = path_join(test_dir(), "mean"),
         *tiled = path_join(test_dir(), "tiled");
    struct translator_options o = options(ALIGNMENT_PIECES);
    translate(said, apart, &o);
    ASSERT_OK(average_models(mean, (const char *[]){apart, apart}, 2, &err), err);
    assert_same(mean, said, &o);
    struct frozen *frozen;
    ASSERT_OK(frozen_open(&frozen, apart, PRECISION_F32, NULL, 1, &err), err);
    ASSERT_OK(frozen_write(frozen, tiled, apart, &err), err);
    frozen_close(frozen);
    assert_same(tiled, said, &o);
    /* and notice what was changed */
    char *words = path_join(tiled, MODELDIR_TARGET_TOKENS), *text;
    size_t size;
    ASSERT_OK(file_read_all(&text, &size, words, 1 << 20, &err), err);
    text[size - 2] = '~';
    ASSERT_OK(file_write_all(words, text, size, &err), err);
    struct modeldir md;
    ASSERT_ERR(modeldir_open_any(&md, tiled, &err), err, HEED_EFORMAT, "is not the tokenizer");
    ASSERT_ERR(average_models(mean, (const char *[]){apart, from}, 2, &err), err, HEED_EINVAL,
               "in");
    xfree(text), xfree(words), xfree(from), xfree(apart), xfree(mean), xfree(tiled);
}

/* ---- descriptions ---------------------------------------------------------------------------- */

TEST(bad_tokens) {
    static const struct {
        const char *tokens, *says;
    } bad[] = {
        {"{\"begin\": 1}", "config.json: there is no field 'begin'"},
        {"{\"start\": -2}", "start: expected an id, or -1, got -2"},
        {"{\"start\": 304}", "the start token is 304, but there are 304 tokens"},
        {"{\"end\": -1}", "end: expected an id, got -1"},
        {"{\"end\": \"</s>\"}", "end: expected a whole number, got \"</s>\""},
        {"{\"end\": 4294967297}", "end: expected an id"},
        {"{\"unknown\": 999}", "the unknown token is 999"},
        {"{\"source_end\": 304}", "the end token is 304"},
        {"{\"banned\": 3}", "banned: expected a list of at most 16 ids"},
        {"{\"banned\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}", "at most 16 ids"},
        {"{\"banned\": [304]}", "banned: expected ids of the target vocabulary"},
        {"{\"banned\": [-1]}", "banned: expected ids of the target vocabulary"},
        {"{\"banned\": [1.5]}", "banned: expected ids of the target vocabulary"},
        {"{\"banned\": [2]}", "banned: 2 is the end mark"},
        {"{\"languages\": 1}", "languages: expected an object"},
        {"{\"languages\": {}}", "codes: expected an object, got nothing"},
        {"{\"languages\": {\"codes\": {\"de\": \">>deu<<\"}}}", "expected \"before_source\""},
        {"{\"languages\": {\"before_source\": \"target\", \"codes\": {}}}", "between 1 and 1024"},
        {"{\"languages\": {\"before_source\": \"both\", \"codes\": {}}}",
         "before_source: expected \"source\" or \"target\", got \"both\""},
        {"{\"languages\": {\"before_target\": \"source\", \"codes\": {}}}",
         "before_target: expected \"target\", got \"source\""},
        {"{\"languages\": {\"before_source\": \"target\", \"codes\": {\"de\": 5}}}",
         "de: expected a string, got 5"},
        {"{\"languages\": {\"before_source\": \"target\", \"codes\": {\"de\": \"<de>\"}}}",
         "'de' is '<de>', which is not in the vocabulary"},
        {"{\"languages\": {\"before_source\": \"target\", \"codes\": {\"\": \">>deu<<\"}}}",
         "codes: expected codes of at most 32"},
    };
    char *from = xstrdup(model_dir("plain", 4, N_PIECE));
    char *dir = make_twin(from, "twin", &(struct twin){.n_more = N_MORE});
    struct config c;
    struct tongues *tongues;
    struct err err = {0};
    ASSERT_OK(modeldir_read_config(dir, &c, NULL, &err), err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *tokens;
        ASSERT_OK(json_in_text(&tokens, bad[i].tokens, strlen(bad[i].tokens), "t", &err), err);
        ASSERT_ERR(tongues_open(&tongues, dir, &c, tokens, &err), err, HEED_EFORMAT, bad[i].says);
        assert_null(tongues);
        json_decref(tokens);
    }
    json_t *none = json_array();
    ASSERT_ERR(tongues_open(&tongues, dir, &c, none, &err), err, HEED_EFORMAT, "an object");
    json_decref(none);
    c.n_vocab_tgt--;
    ASSERT_ERR(tongues_open(&tongues, dir, &c, NULL, &err), err, HEED_EFORMAT,
               "vocabulary.txt: 304 tokens, but the model's vocabularies have 304 and 303");
    char *words = path_join(dir, MODELDIR_TOKENS);
    ASSERT_OK(file_write_all(words, "", 0, &err), err);
    ASSERT_ERR(tongues_open(&tongues, dir, &c, NULL, &err), err, HEED_EFORMAT, "no tokens");
    xfree(words), xfree(from), xfree(dir);
}

/* A source without an end mark: what the translator searches is the text's tokens alone. */
TEST(no_source_end) {
    static struct said said[N_TEXT];
    char *from = xstrdup(model_dir("plain", 3, N_PIECE));
    char *dir =
        make_twin(from, "twin", &(struct twin){.seed = {5}, .tokens = "{\"source_end\": -1}"});
    struct translator_options o = options(ALIGNMENT_WORDS);
    o.search.n_best = 1;
    translate(said, dir, &o);
    struct engine *engine;
    struct err err = {0};
    struct engine_options how = {
        .dir = (const char *const[]){dir}, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    ASSERT_OK(engine_open(&engine, &how, &err), err);
    assert_int_equal(tokenizer_eos(engine->source), -1);
    struct searcher *searcher;
    struct search_setup setup = {
        .model = engine->model, .n_model = 1, .marks = engine_marks(engine), .caps = {1, 64, 64}};
    ASSERT_OK(searcher_new(&searcher, &setup, &o.search, &err), err);
    for (int i = 0; i < N_TEXT; i++) {
        int32_t ids[64];
        char text[2000];
        struct search_result r;
        struct search_input in = {
            .src = ids,
            .n_src = tokenizer_encode(engine->source, texts[i], strlen(texts[i]), ids, 64)};
        if (!in.n_src) continue;
        ASSERT_OK(searcher_run(searcher, &in, 1, &r, NULL, &err), err);
        assert_true(tokenizer_decode(engine->target, r.best[0].ids, r.best[0].n, text, 2000) >= 0);
        assert_string_equal(said[i].text[0], text);
    }
    searcher_free(searcher);
    engine_close(engine);
    xfree(from), xfree(dir);
}

/* ---- languages ------------------------------------------------------------------------------- */

static const char before_both[] =
    "{\"languages\": {\"before_source\": \"source\", \"before_target\": \"target\","
    " \"codes\": {\"de\": \">>deu<<\", \"en\": \"eng_Latn\"}}}";
static const char before_source[] = "{\"languages\": {\"before_source\": \"target\","
                                    " \"codes\": {\"de\": \">>deu<<\", \"en\": \"eng_Latn\"}}}";

static struct engine *engine_of(const char *dir) {
    struct engine *engine;
    struct err err = {0};
    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    ASSERT_OK(engine_open(&engine, &from, &err), err);
    return engine;
}

/* What the searcher makes of a text between these tags, by hand. */
static void by_hand(char text[2000], const struct engine *e, const char *source, int32_t before,
                    const int32_t *lead, const struct search_options *o) {
    struct err err = {0};
    struct searcher *searcher;
    struct search_result r;
    int32_t ids[64] = {before};
    struct search_setup setup = {
        .model = e->model, .n_model = 1, .marks = engine_marks(e), .caps = {1, 64, 64}};
    ASSERT_OK(searcher_new(&searcher, &setup, o, &err), err);
    struct search_input in = {.src = ids, .prefix = lead, .n_prefix = !!lead, .n_lead = !!lead};
    in.n_src = 1 + tokenizer_encode_end(e->source, source, strlen(source), ids + 1, 63);
    ASSERT_OK(searcher_run(searcher, &in, 1, &r, NULL, &err), err);
    assert_true(tokenizer_decode(e->target, r.best[0].ids, r.best[0].n, text, 2000) >= 0);
    searcher_free(searcher);
}

TEST(languages_lead) {
    static struct said said[2][N_TEXT];
    char *from = xstrdup(model_dir("plain", 3, N_PIECE)), text[2000];
    struct twin two = {.seed = {5, 6}, .two_sides = 1, .n_more = N_MORE, .tokens = before_both};
    struct twin one = {.seed = {5}, .n_more = N_MORE, .tokens = before_source};
    char *both = make_twin(from, "both", &two), *source = make_twin(from, "source", &one);
    int different = 0;
    for (int k = 0; k < 2; k++) {
        const char *dir = k ? source : both;
        struct engine *e = engine_of(dir);
        struct translator_options o = options(ALIGNMENT_WORDS);
        o.search.n_best = 1;
        int32_t de = tokenizer_find(e->target, ">>deu<<"),
                en = tokenizer_find(e->target, "eng_Latn");
        o.source_lang = k ? NULL : "en";
        o.target_lang = "de";
        translate(said[0], dir, &o);
        for (int i = 0; i < N_TEXT; i++) {
            if (!*texts[i]) continue;
            int32_t tag =
                k ? tokenizer_find(e->source, ">>deu<<") : tokenizer_find(e->source, "eng_Latn");
            by_hand(text, e, texts[i], tag, k ? NULL : &de, &o.search);
            assert_string_equal(said[0][i].text[0], text);
            for (int l = 0; l < said[0][i].n_link; l++) assert_true(said[0][i].link[l].src >= 0);
        }
        o.source_lang = k ? NULL : "de";
        o.target_lang = "en";
        translate(said[1], dir, &o);
        for (int i = 0; i < N_TEXT; i++)
            different += strcmp(said[0][i].text[0], said[1][i].text[0]) != 0;
        assert_int_not_equal(en, -1);
        engine_close(e);
    }
    assert_true(different > N_TEXT);
    xfree(from), xfree(both), xfree(source);
}

TEST(languages_are_asked_for) {
    static const struct {
        const char *dir;
        struct engine_said said;
        const char *says;
    } bad[] = {
        {"plain", {.source_lang = "de"}, "source_lang: the model has no languages to choose from"},
        {"plain", {.target_lang = "de"}, "target_lang: the model has no languages to choose from"},
        {"both", {0}, "source_lang: not given, but the model has 2 languages: de, en"},
        {"both", {.source_lang = "de"}, "target_lang: not given, but the model has 2 languages"},
        {"both", {.source_lang = "de", .target_lang = "fr"}, "does not know 'fr'; it knows de, en"},
        {"source", {0}, "target_lang: not given"},
        {"source",
         {.source_lang = "de", .target_lang = "en"},
         "source_lang: the model is not told"},
        {"source", {.prefix_token = "<nothing>"}, "prefix_token: the model's tokenizer has no"},
    };
    struct err err = {0};
    struct engine_tags tags;
    char *from = xstrdup(model_dir("plain", 3, N_PIECE));
    struct twin two = {.two_sides = 1, .n_more = N_MORE, .tokens = before_both};
    struct twin one = {.n_more = N_MORE, .tokens = before_source};
    char *both = make_twin(from, "both", &two), *source = make_twin(from, "source", &one);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *dir = path_join(test_dir(), bad[i].dir);
        struct engine *e = engine_of(dir);
        ASSERT_ERR(engine_tags(e, &bad[i].said, &tags, &err), err, HEED_EINVAL, bad[i].says);
        engine_close(e);
        xfree(dir);
    }
    struct engine *e = engine_of(source);
    struct engine_said said = {.prefix_token = "<pad>"}; /* stands where the language would */
    ASSERT_OK(engine_tags(e, &said, &tags, &err), err);
    assert_int_equal(tags.source, tokenizer_find(e->source, "<pad>"));
    assert_int_equal(tags.target, -1);
    engine_close(e);
    /* what the model says of itself holds where nothing is said */
    struct config c;
    struct weights_form form;
    struct model_notes notes;
    ASSERT_OK(modeldir_read_any(both, &c, &form, &notes, &err), err);
    notes.translate = json_pack("{s:s, s:s}", "source_lang", "en", "target_lang", "de");
    ASSERT_OK(modeldir_annotate(both, &notes, &err), err);
    model_notes_release(&notes);
    e = engine_of(both);
    ASSERT_OK(engine_tags(e, &(struct engine_said){0}, &tags, &err), err);
    assert_string_equal(tokenizer_piece(e->source, tags.source), "eng_Latn");
    assert_string_equal(tokenizer_piece(e->target, tags.target), ">>deu<<");
    said = (struct engine_said){.source_lang = "de", .target_lang = "en"};
    ASSERT_OK(engine_tags(e, &said, &tags, &err), err);
    assert_string_equal(tokenizer_piece(e->source, tags.source), ">>deu<<");
    engine_close(e);
    xfree(from), xfree(both), xfree(source);
}

/* ---- the commands ---------------------------------------------------------------------------- */

/* What `heed ARGUMENTS` prints. */
static char *heed(const char *arguments) {
    char path[600], command[3000];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = 0;
    *strrchr(path, '/') = 0; /* build/tests */
    snprintf(command, sizeof command, "%s/../heed %s 2>&1", path, arguments);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    char *out = calloc(1, 1 << 20);
    size_t size = fread(out, 1, (1 << 20) - 1, f);
    if (pclose(f)) fail_msg("heed %s: %s", arguments, out);
    out[size] = 0;
    return out;
}

/* The same output for two models, numbers apart that differ in their last digits. */
static void same_output(const char *format, const char *a, const char *b) {
    char arguments[2][2000];
    char *out[2];
    const char *const dir[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        /* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
        snprintf(arguments[i], sizeof arguments[i], format, dir[i]);
        out[i] = heed(arguments[i]);
    }
    const char *x = out[0], *y = out[1];
    while (*x && *y) {
        char *x_end, *y_end;
        double p = strtod(x, &x_end), q = strtod(y, &y_end);
        if (x_end > x && y_end > y) {
            ASSERT_NEAR(p, q, 1e-3);
            x = x_end, y = y_end;
        } else if (*x++ != *y++) {
            fail_msg("heed %s: %s instead of %s", arguments[1], out[1], out[0]);
        }
    }
    assert_int_equal(*x, *y);
    assert_true(strlen(out[0]) > 20);
    free(out[0]), free(out[1]);
}

/* log P(tgt | src) between the tokens of en and de, without that of de itself. */
static double score_of(const char *dir, const char *src, const char *tgt) {
    struct engine *e = engine_of(dir);
    struct err err = {0};
    struct scorer *scorer;
    int32_t from[64] = {tokenizer_find(e->source, "eng_Latn")},
            to[64] = {tokenizer_find(e->target, ">>deu<<")};
    float out[64];
    double sum = 0;
    int n = 1 + tokenizer_encode_end(e->source, src, strlen(src), from + 1, 63);
    int m = 1 + tokenizer_encode_end(e->target, tgt, strlen(tgt), to + 1, 63);
    struct batch_caps caps = {64, 64, 1};
    ASSERT_OK(scorer_new(&scorer, e->model[0], tokenizer_bos(e->target), &caps, &err), err);
    ASSERT_OK(scorer_run(scorer, &(struct score_pair){from, to, n, m, out}, 1, &err), err);
    for (int i = 1; i < m; i++) sum += (double)out[i];
    scorer_free(scorer);
    engine_close(e);
    return sum;
}

TEST(commands) {
    char *from = xstrdup(model_dir("plain", 3, N_PIECE)), src[600], tgt[600], text[3000];
    struct twin two = {.seed = {5, 6}, .two_sides = 1};
    char *apart = make_twin(from, "apart", &two);
    struct twin many = {.seed = {7, 8}, .two_sides = 1, .n_more = N_MORE, .tokens = before_both};
    char *both = make_twin(from, "both", &many);
    snprintf(src, sizeof src, "%s/src", test_dir());
    snprintf(tgt, sizeof tgt, "%s/tgt", test_dir());
    FILE *f = fopen(src, "w"), *g = fopen(tgt, "w");
    for (int i = 0; i < N_TEXT; i++) {
        fprintf(f, "%s\n", texts[i]);
        fprintf(g, "%s\n", texts[(i + 5) % N_TEXT]);
    }
    fclose(f), fclose(g);
    snprintf(text, sizeof text,
             "translate --model %%s --quiet --json --nbest 2 --beam 4 --alignment pieces %s", src);
    same_output(text, from, apart);
    snprintf(text, sizeof text, "score --model %%s --quiet --json --token-scores --src %s --tgt %s",
             src, tgt);
    same_output(text, from, apart);
    snprintf(text, sizeof text, "align --model %%s --quiet --json --src %s --tgt %s", src, tgt);
    same_output(text, from, apart);
    snprintf(text, sizeof text,
             "align --model %s --quiet --source-lang en --target-lang de --src %s --tgt %s", both,
             src, tgt);
    free(heed(text));
    snprintf(text, sizeof text,
             "attend --model %s --quiet --source-lang en --target-lang de --src 'the cat' --out "
             "%s/a.svg",
             both, test_dir());
    free(heed(text));
    snprintf(text, sizeof text,
             "score --model %s --quiet --json --source-lang en --target-lang de --src %s --tgt %s",
             both, src, tgt);
    char *scored = heed(text);
    json_t *first = json_loads(scored, JSON_DISABLE_EOF_CHECK, NULL);
    ASSERT_NEAR(json_number_value(json_object_get(first, "log_prob")),
                score_of(both, texts[0], texts[5]), 1e-3);
    json_decref(first);
    snprintf(text, sizeof text, "inspect %s", both);
    char *shown = heed(text);
    assert_non_null(strstr(shown, "languages            2: de en"));
    free(shown), free(scored);
    xfree(from), xfree(apart), xfree(both);
}

TESTS(TL(commands, 120), T(languages_lead), T(languages_are_asked_for), T(shuffled_ids), T(copies),
      T(bad_tokens), T(no_source_end))
