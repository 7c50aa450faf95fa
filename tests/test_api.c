/* test_api.c — heed.h as an embedder uses it: batches, alternatives, alignments, threads,
 * cancelling, errors.
 *
 * The model is small and random: what it says is nonsense, but it says the same every time, and
 * that is what is compared. */
#define _GNU_SOURCE /* strcasestr */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/file.h"
#include "model/modeldir.h"
#include "search/align.h"
#include "search/engine.h"
#include "test.h"
#include "toy.h"

enum { N_TEXT = 24 };

static heed_model *open_model(const char *dir, int sessions, int threads) {
    heed_model_options o;
    heed_model *model;
    heed_error error;
    heed_model_options_init(&o, sizeof o);
    o.sessions = sessions;
    o.threads = threads;
    if (heed_model_open(&model, dir, &o, &error)) fail_msg("%s", error.message);
    return model;
}

static void make_texts(char text[N_TEXT][128], const char *pointer[N_TEXT]) {
    for (int i = 0; i < N_TEXT; i++) {
        int n = 0;
        text[i][0] = 0;
        for (int k = 0; k < i % 7; k++)
            n += snprintf(text[i] + n, 128 - (size_t)n, "cat %d sat ", i * 31 + k);
        pointer[i] = text[i];
    }
}

TEST(options_have_defaults) {
    heed_translate_options o;
    heed_translate_options_init(&o, sizeof o);
    assert_int_equal(o.size, sizeof o);
    assert_int_equal(o.beam, 4);
    assert_int_equal(o.n_best, 1);
    assert_int_equal(o.max_extra, 50);
    assert_int_equal(o.alignment_layer, -1);
    assert_int_equal(o.alignment_head, -1);
    ASSERT_NEAR(o.alpha, 0.6, 1e-6);
    /* A caller that knows only the beginning of the structure gets no more. */
    unsigned char old[offsetof(heed_translate_options, alpha) + 1];
    memset(old, 0xAA, sizeof old);
    heed_translate_options_init((heed_translate_options *)(void *)old, sizeof old - 1);
    assert_int_equal(old[sizeof old - 1], 0xAA);
}

TEST(translates_batches) {
    char text[N_TEXT][128];
    const char *pointer[N_TEXT];
    heed_error error;
    heed_result *all, *one;
    heed_translate_options o;
    make_texts(text, pointer);
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.n_best = 3;
    o.alignment = 1;
    o.max_extra = 5;
    assert_int_equal(heed_translate(model, pointer, N_TEXT, &o, &all, &error), HEED_OK);
    assert_int_equal(error.code, 0);
    assert_int_equal(heed_result_size(all), N_TEXT);
    for (size_t i = 0; i < N_TEXT; i++) {
        assert_int_equal(heed_translate(model, pointer + i, 1, &o, &one, &error), HEED_OK);
        size_t n = heed_result_alternatives(all, i), n_source, n_other;
        assert_int_equal(n, heed_result_alternatives(one, 0));
        assert_int_equal(n, i % 7 ? 3 : 1);
        const char *const *source = heed_result_source(all, i, &n_source);
        heed_result_source(one, 0, &n_other);
        assert_non_null(source);
        assert_int_equal(n_source, n_other);
        for (size_t k = 0; k < n; k++) {
            const heed_translation *a = heed_result_get(all, i, k), *b = heed_result_get(one, 0, k);
            assert_string_equal(a->text, b->text);
            assert_memory_equal(&a->score, &b->score, sizeof a->score);
            assert_int_equal(a->n_links, b->n_links);
            assert_int_equal(a->n_pieces, b->n_pieces);
            if (k > 0) assert_true(a->score <= heed_result_get(all, i, k - 1)->score);
            for (size_t j = 0; j < a->n_links; j++) {
                assert_in_range(a->links[j].source, 0, n_source - 1);
                assert_in_range(a->links[j].target, 0, a->n_pieces - 1);
                assert_true(strlen(a->pieces[a->links[j].target]) > 0);
            }
        }
        if (i % 7 == 0) assert_string_equal(heed_result_get(all, i, 0)->text, "");
        heed_result_free(one);
    }
    heed_model_close(model); /* results stay */
    assert_true(strlen(heed_result_get(all, 1, 0)->text) > 0);
    assert_null(heed_result_get(all, N_TEXT, 0));
    assert_null(heed_result_get(all, 0, 3));
    assert_int_equal(heed_result_alternatives(all, N_TEXT), 0);
    heed_result_free(all);
    heed_result_free(NULL);
    heed_model_close(NULL);
}

/* Placeholders of a text are in its translation, whatever the model makes of them. */
TEST(keeps_placeholders) {
    const char *const text[] = {"Cat 1 sat.", "Did {name} sit on %s? A ${cat}.", "%d cats sat."};
    heed_error error;
    heed_result *result, *plain;
    heed_translate_options o;
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.max_extra = 5;
    assert_int_equal(heed_translate(model, text, 3, &o, &plain, &error), HEED_OK);
    o.format = HEED_FORMAT_TEXT;
    assert_int_equal(heed_translate(model, text, 3, &o, &result, &error), HEED_OK);
    assert_string_equal(heed_result_get(result, 0, 0)->text, heed_result_get(plain, 0, 0)->text);
    static const char *const held[] = {"{name}", "%s", "${cat}", "%d"};
    for (int i = 0; i < 4; i++)
        assert_non_null(strstr(heed_result_get(result, 1 + (i == 3), 0)->text, held[i]));
    heed_result_free(plain);
    heed_result_free(result);
    heed_model_close(model);
}

/* A text's translation is those of its sentences, with everything between them kept. */
TEST(keeps_the_form_of_a_text) {
    const char *const part[] = {"Cat 1 sat.", "Did cat 2 sit?", "cat 3"};
    const char *const text[] = {"  Cat 1 sat.\t Did cat 2 sit?\r\n\r\n - cat 3 \n", " \n***\n",
                                "Cat 1 sat. Did cat 2 sit?"};
    char want[1024];
    heed_error error;
    heed_result *parts, *whole;
    heed_translate_options o;
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.max_extra = 5;
    o.n_best = 2;
    o.alignment = HEED_ALIGNMENT_WORDS;
    assert_int_equal(heed_translate(model, part, 3, &o, &parts, &error), HEED_OK);
    o.format = HEED_FORMAT_TEXT;
    assert_int_equal(heed_translate(model, text, 3, &o, &whole, &error), HEED_OK);
    for (size_t k = 0; k < 2; k++) {
        const heed_translation *t[3];
        for (size_t i = 0; i < 3; i++) t[i] = heed_result_get(parts, i, k);
        snprintf(want, sizeof want, "  %s\t %s\r\n\r\n - %s \n", t[0]->text, t[1]->text,
                 t[2]->text);
        assert_string_equal(heed_result_get(whole, 0, k)->text, want);
        snprintf(want, sizeof want, "%s %s", t[0]->text, t[1]->text);
        const heed_translation *both = heed_result_get(whole, 2, k);
        assert_string_equal(both->text, want);
        assert_int_equal(both->n_links, t[0]->n_links + t[1]->n_links);
        assert_int_equal(both->n_words, t[0]->n_words + t[1]->n_words);
        size_t first, all;
        heed_result_source_words(parts, 0, &first);
        heed_result_source_words(whole, 2, &all);
        for (size_t i = 0; i < both->n_links; i++) { /* links stay in their sentence */
            int behind = both->links[i].target >= (int)t[0]->n_words;
            assert_in_range(both->links[i].source, behind ? first : 0, (behind ? all : first) - 1);
        }
    }
    assert_string_equal(heed_result_get(whole, 1, 0)->text, text[1]);
    assert_int_equal(heed_result_notes(whole, 0) & HEED_NOTE_SPLIT, 0);
    o.format = 7;
    heed_result_free(parts);
    assert_int_equal(heed_translate(model, text, 1, &o, &parts, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "format"));
    heed_result_free(whole);
    heed_model_close(model);
}

static void words_fit(const char *text, const heed_word *word, size_t n) {
    for (size_t i = 0, at = 0; i < n; at = word[i++].end) {
        assert_true(at <= word[i].begin && word[i].begin < word[i].end);
        assert_true(word[i].end <= strlen(text));
    }
}

TEST(links_between_words) {
    const char *text[] = {"cat 31 sat, on mat.", "", "cat \xFF on"};
    heed_error error;
    heed_result *r;
    heed_translate_options o;
    size_t n = 77;
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.alignment = HEED_ALIGNMENT_WORDS;
    o.max_extra = 5;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_OK);
    const heed_word *word = heed_result_source_words(r, 0, &n);
    assert_int_equal(n, 7); /* cat 31 sat , on mat . */
    words_fit(text[0], word, n);
    assert_int_equal(word[2].begin, 7);
    assert_int_equal(word[2].end, 10);
    const heed_translation *t = heed_result_get(r, 0, 0);
    words_fit(t->text, t->words, t->n_words);
    assert_true(t->n_words > 0 && t->n_links > 0 && t->n_links <= t->n_words);
    for (size_t j = 0; j < t->n_links; j++) {
        assert_in_range(t->links[j].source, 0, n - 1);
        assert_in_range(t->links[j].target, 0, t->n_words - 1);
    }
    heed_result_source_words(r, 1, &n);
    assert_int_equal(n, 0);
    word = heed_result_source_words(r, 2, &n);
    assert_int_equal(n, 3);
    assert_int_equal(word[2].begin, 8); /* behind the three bytes of U+FFFD */
    heed_result_free(r);
    o.alignment = HEED_ALIGNMENT_PIECES;
    assert_int_equal(heed_translate(model, text, 1, &o, &r, &error), HEED_OK);
    assert_null(heed_result_source_words(r, 0, &n));
    assert_null(heed_result_get(r, 0, 0)->words);
    assert_null(heed_result_source_words(r, 1, NULL));
    heed_result_free(r);
    o.alignment = 3;
    assert_int_equal(heed_translate(model, text, 1, &o, &r, &error), HEED_EINVAL);
    heed_model_close(model);
}

/* A piece before the source is read, and counts for nothing: links are those of the whole source
 * without its first column, as an aligner of our own finds them. */
TEST(html) {
    const char *plain[] = {"cat 31 sat"},
               *text[] = {"<p id='a&b'> <b>cat 31 sat</b>\n<hr>", "", "<i>"};
    char want[512];
    heed_error error;
    heed_result *r;
    heed_translate_options o;
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    assert_int_equal(o.format, HEED_FORMAT_LINES);
    o.max_extra = 5;
    assert_int_equal(heed_translate(model, plain, 1, &o, &r, &error), HEED_OK);
    const char *said = heed_result_get(r, 0, 0)->text;
    assert_null(strpbrk(said, "&<>")); /* nothing to escape */
    snprintf(want, sizeof want, "<p id='a&b'> <b>%s</b>\n<hr>", said);
    heed_result_free(r);
    o.format = HEED_FORMAT_HTML;
    o.n_best = 2;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_OK);
    assert_string_equal(heed_result_get(r, 0, 0)->text, want);
    assert_int_equal(heed_result_alternatives(r, 0), 2);
    assert_memory_equal(heed_result_get(r, 0, 1)->text, want, 16);
    assert_string_equal(heed_result_get(r, 1, 0)->text, "");
    assert_string_equal(heed_result_get(r, 2, 0)->text, "<i>");
    assert_null(heed_result_get(r, 0, 0)->links);
    heed_result_free(r);
    o.alignment = HEED_ALIGNMENT_WORDS;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "format: HTML does not go with alignment"));
    o.alignment = 0;
    o.format = 3;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "format"));
    heed_model_close(model);
}

TEST(prefix_token_leads) {
    enum { MOST = 64 };
    const char *dir = model_dir("m", 1, 300), *text = "cat 31 sat on mat";
    char token[16] = "a";
    struct engine *e;
    struct aligner *aligner;
    struct err err;
    heed_error error;
    heed_result *r, *plain;
    heed_translate_options o;
    heed_model *model = open_model(dir, 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.alignment = HEED_ALIGNMENT_PIECES;
    o.alignment_layer = o.alignment_head = 0;
    o.max_extra = 9;
    assert_int_equal(heed_translate(model, &text, 1, &o, &plain, &error), HEED_OK);
    o.prefix_token = token;
    assert_int_equal(heed_translate(model, &text, 1, &o, &r, &error), HEED_OK);
    const heed_translation *t = heed_result_get(r, 0, 0);
    assert_true(t->log_prob != heed_result_get(plain, 0, 0)->log_prob);

    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    ASSERT_OK(engine_open(&e, &from, &err), err);
    int32_t src[MOST], tgt[MOST];
    src[0] = tokenizer_find(e->source, token);
    int n_src = 1 + tokenizer_encode_end(e->source, text, strlen(text), src + 1, MOST - 1);
    int n_tgt = 0;
    for (; n_tgt < (int)t->n_pieces; n_tgt++)
        tgt[n_tgt] = tokenizer_find(e->target, t->pieces[n_tgt]);
    tgt[n_tgt++] = tokenizer_eos(e->target);
    struct align_options choice = {.layer = 1, .head = 1};
    struct aligner_setup setup = {
        .bos = tokenizer_bos(e->target), .choice = &choice, .n_choice = 1, .caps = {MOST, MOST, 1}};
    float out[MOST * MOST];
    ASSERT_OK(aligner_new(&aligner, e->model[0], &setup, &err), err);
    ASSERT_OK(aligner_run(aligner, &(struct align_pair){src, tgt, n_src, n_tgt, out}, 1, &err),
              err);
    assert_int_equal(t->n_links, t->n_pieces);
    for (size_t j = 0; j < t->n_links; j++) {
        const float *row = out + t->links[j].target * n_src;
        int best = 1;
        for (int i = 2; i < n_src - 1; i++)
            if (row[i] > row[best]) best = i;
        assert_int_equal(t->links[j].source, best - 1);
    }
    size_t n_source;
    const char *const *source = heed_result_source(r, 0, &n_source);
    assert_int_equal(n_source, n_src - 2);
    assert_string_equal(source[0], tokenizer_piece(e->source, src[1]));
    aligner_free(aligner);
    engine_close(e);
    float with_a = t->log_prob;
    heed_result_free(r);

    /* The caller's memory is read anew in every call. */
    strcpy(token, "c");
    assert_int_equal(heed_translate(model, &text, 1, &o, &r, &error), HEED_OK);
    assert_true(heed_result_get(r, 0, 0)->log_prob != with_a);
    heed_result_free(r);
    strcpy(token, "nonsense");
    assert_int_equal(heed_translate(model, &text, 1, &o, &r, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "prefix_token: the model's tokenizer has no piece 'non"));
    heed_result_free(plain);
    heed_model_close(model);
}

TEST(glossary) {
    heed_error error;
    heed_result *r, *plain;
    heed_glossary *g;
    heed_translate_options o;
    const char *text[] = {"The cat sat.", "on mat", "a cat on a Cat"};
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.max_extra = 20;
    assert_int_equal(heed_translate(model, text, 3, &o, &plain, &error), HEED_OK);
    assert_int_equal(heed_glossary_open(&g, NULL, NULL, "", 0, &error), HEED_OK);
    assert_int_equal(heed_glossary_add(g, "dog", "mat", &error), HEED_OK);
    o.glossary = g;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_OK);
    for (size_t i = 0; i < 3; i++) /* no term in it: the same to the bit */
        assert_true(heed_result_get(r, i, 0)->score == heed_result_get(plain, i, 0)->score);
    heed_result_free(r);
    assert_int_equal(heed_glossary_add(g, "cat", "the mat", &error), HEED_OK);
    o.n_best = 2;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_OK);
    for (size_t k = 0; k < 2; k++) {
        assert_non_null(strcasestr(heed_result_get(r, 0, k)->text, "the mat"));
        const char *twice = strcasestr(heed_result_get(r, 2, k)->text, "the mat");
        assert_true(twice && strcasestr(twice + 7, "the mat"));
    }
    assert_int_equal(heed_result_notes(r, 0) & HEED_NOTE_MISSED, 0);
    assert_true(heed_result_get(r, 1, 0)->score == heed_result_get(plain, 1, 0)->score);
    heed_result_free(r);
    o.max_length = 3; /* no room for it */
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_OK);
    assert_true(heed_result_notes(r, 2) & HEED_NOTE_MISSED);
    heed_result_free(r);
    heed_result_free(plain);
    o.sample = 1;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_EINVAL);
    assert_string_equal(error.message, "glossary: terms can be searched for, not sampled");
    assert_int_equal(heed_glossary_add(g, " ", "x", &error), HEED_EFORMAT);
    assert_string_equal(error.message, "the source term is empty");
    assert_int_equal(heed_glossary_add(g, "x", NULL, &error), HEED_EINVAL);
    assert_string_equal(error.message, "target is NULL");
    assert_int_equal(heed_glossary_add(NULL, "x", "y", NULL), HEED_EINVAL);
    heed_glossary_free(g);
    heed_glossary_free(NULL);
    assert_int_equal(heed_glossary_open(&g, "/nowhere/terms", NULL, NULL, 0, &error), HEED_EIO);
    assert_null(g);
    assert_int_equal(heed_glossary_open(NULL, NULL, NULL, NULL, 0, &error), HEED_EINVAL);
    heed_model_close(model);
}

TEST(notes_and_limits) {
    heed_error error;
    heed_result *r;
    heed_translate_options o;
    char many[1200] = "";
    for (int i = 0; i < 60; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "cat %d. ", i);
    const char *text[] = {"cat \xFF sat", "cat sat", many};
    const char *prefix[] = {NULL, "the mat", ""};
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.max_extra = 3;
    o.prefix = prefix;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_OK);
    assert_true(heed_result_notes(r, 0) & HEED_NOTE_REPLACED);
    assert_int_equal(heed_result_notes(r, 1) & (HEED_NOTE_REPLACED | HEED_NOTE_SPLIT), 0);
    assert_true(heed_result_notes(r, 2) & HEED_NOTE_SPLIT);
    assert_int_equal(strncmp(heed_result_get(r, 1, 0)->text, "the mat", 7), 0);
    assert_null(heed_result_source(r, 0, NULL)); /* not asked for */
    heed_result_free(r);

    o.refuse_long = 1;
    assert_int_equal(heed_translate(model, text, 3, &o, &r, &error), HEED_ELIMIT);
    assert_non_null(strstr(error.message, "text 2: "));
    heed_model_close(model);
}

/* Every way to fail has a status, a message, and no result. */
static void refuse(heed_model *model, const char *const *text, size_t n,
                   const heed_translate_options *o, int status, const char *part) {
    heed_error error = {0};
    heed_result *r = (heed_result *)(uintptr_t)8;
    assert_int_equal(heed_translate(model, text, n, o, &r, &error), status);
    assert_null(r);
    assert_int_equal(error.code, status);
    if (!strstr(error.message, part)) fail_msg("'%s' lacks '%s'", error.message, part);
    assert_int_equal(heed_translate(model, text, n, o, &r, NULL), status);
}

TEST(errors) {
    heed_error error;
    heed_model *model;
    heed_model_options mo;
    heed_translate_options o;
    const char *dir = model_dir("m", 1, 300), *text[] = {"cat", NULL};
    const char *other[] = {model_dir("other", 2, 320)};
    assert_int_equal(heed_model_open(&model, "/nowhere", NULL, &error), HEED_EIO);
    assert_non_null(strstr(error.message, "/nowhere"));
    assert_null(model);
    assert_int_equal(heed_model_open(&model, NULL, NULL, NULL), HEED_EINVAL);
    heed_model_options_init(&mo, sizeof mo);
    mo.precision = "f12";
    assert_int_equal(heed_model_open(&model, dir, &mo, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "f12"));
    heed_model_options_init(&mo, sizeof mo);
    mo.device = "abacus";
    assert_int_equal(heed_model_open(&model, dir, &mo, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "abacus"));
    heed_model_options_init(&mo, sizeof mo);
    mo.sessions = 0;
    assert_int_equal(heed_model_open(&model, dir, &mo, &error), HEED_EINVAL);
    heed_model_options_init(&mo, sizeof mo);
    mo.ensemble = other;
    mo.n_ensemble = 1;
    assert_int_equal(heed_model_open(&model, dir, &mo, &error), HEED_ECONFIG);
    assert_non_null(strstr(error.message, "tokenizer"));
    mo.size = 0;
    assert_int_equal(heed_model_open(&model, dir, &mo, &error), HEED_EINVAL);

    model = open_model(dir, 1, 1);
    refuse(model, text, 2, NULL, HEED_EINVAL, "text 1 is NULL");
    refuse(model, NULL, 1, NULL, HEED_EINVAL, "texts is NULL");
    heed_translate_options_init(&o, sizeof o);
    o.beam = 0;
    refuse(model, text, 1, &o, HEED_EINVAL, "beam");
    heed_translate_options_init(&o, sizeof o);
    o.n_best = 5;
    refuse(model, text, 1, &o, HEED_EINVAL, "n_best: 5 is more than the beam");
    heed_translate_options_init(&o, sizeof o);
    o.alignment = 1;
    o.alignment_layer = 2; /* the last is 1 */
    refuse(model, text, 1, &o, HEED_EINVAL, "alignment_layer: there is no such layer");
    o.alignment_layer = -2;
    refuse(model, text, 1, &o, HEED_EINVAL, "alignment_layer: -2");
    heed_translate_options_init(&o, sizeof o);
    o.repetition = -1;
    refuse(model, text, 1, &o, HEED_EINVAL, "repetition: -1");
    o.repetition = 1;
    o.no_repeat = -1;
    refuse(model, text, 1, &o, HEED_EINVAL, "no_repeat: -1");
    heed_translate_options_init(&o, sizeof o);
    o.max_source = 65;
    refuse(model, text, 1, &o, HEED_EINVAL, "64");
    heed_translate_options_init(&o, sizeof o);
    o.max_source = 3;
    o.refuse_long = 1;
    text[1] = "cat number one sat on mat two";
    refuse(model, text, 2, &o, HEED_ELIMIT, "text 1");
    heed_result *r;
    assert_int_equal(heed_translate(model, text, 1, NULL, NULL, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "result is NULL"));
    assert_int_equal(heed_translate(model, NULL, 0, NULL, &r, NULL), HEED_OK); /* nothing is fine */
    assert_int_equal(heed_result_size(r), 0);
    heed_result_free(r);
    assert_int_equal(heed_translate(model, text, 1, NULL, &r, NULL),
                     HEED_OK); /* and it still works */
    heed_result_free(r);
    heed_translate_options_init(&o, sizeof o);
    o.alignment = 1;
    o.alignment_layer = 1;
    o.alignment_head = 3;
    o.sample = 1;
    o.temperature = 1e-9f;
    assert_int_equal(heed_translate(model, text, 1, &o, &r, NULL), HEED_OK);
    heed_result_free(r);
    heed_model_close(model);
}

TEST(null_pointers) {
    heed_error error;
    size_t n = 77;
    assert_int_equal(heed_model_open(NULL, "m", NULL, &error), HEED_EINVAL);
    assert_non_null(strstr(error.message, "pointer to the model is NULL"));
    heed_model_options_init(NULL, sizeof(heed_model_options));
    heed_translate_options_init(NULL, sizeof(heed_translate_options));
    heed_model_describe(NULL, NULL, 0);
    heed_model_close(NULL);
    heed_result_free(NULL);
    assert_int_equal(heed_result_size(NULL), 0);
    assert_int_equal(heed_result_alternatives(NULL, 0), 0);
    assert_null(heed_result_get(NULL, 0, 0));
    assert_int_equal(heed_result_notes(NULL, 0), 0);
    assert_null(heed_result_source(NULL, 0, &n));
    assert_int_equal(n, 0);
}

TEST(describes) {
    heed_model_info info;
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_model_describe(model, &info, sizeof info);
    assert_int_equal(info.models, 1);
    assert_int_equal(info.vocabulary, 300);
    assert_int_equal(info.d_model, 32);
    assert_int_equal(info.max_tokens, 64);
    assert_string_equal(info.precision, "f32");
    assert_true(info.weight_bytes > 300 * 32 * 4);
    assert_string_equal(info.source, "");
    assert_string_equal(info.licence, "");
    heed_model_close(model);
}

TEST(opens_by_name) {
    struct err err = {0};
    heed_model *model;
    heed_model_info info;
    heed_error error;
    heed_model_options o;
    const char *further[] = {"second"};
    const char *dir = model_dir("first", 1, 300);
    struct model_notes notes = {.card = json_pack("{s:s, s:s, s:s}", "source", "en", "target",
                                                  "de-AT", "licence", "CC0-1.0")};
    ASSERT_OK(modeldir_annotate(dir, &notes, &err), err);
    model_notes_release(&notes);
    model_dir("second", 2, 300);
    setenv("HEED_MODELS", test_dir(), 1);
    heed_model_options_init(&o, sizeof o);
    o.ensemble = further;
    o.n_ensemble = 1;
    if (heed_model_open(&model, "first", &o, &error)) fail_msg("%s", error.message);
    heed_model_describe(model, &info, sizeof info);
    assert_int_equal(info.models, 2);
    assert_string_equal(info.source, "en");
    assert_string_equal(info.target, "de-AT");
    assert_string_equal(info.licence, "CC0-1.0");
    heed_model_close(model);
    further[0] = "third";
    assert_int_equal(heed_model_open(&model, "first", &o, &error), HEED_EIO);
    assert_null(model);
    assert_non_null(strstr(error.message, "third: no such directory, and no model"));
    assert_non_null(strstr(error.message, "found there: "));
    assert_non_null(strstr(error.message, "first, second")); /* and perhaps those in ./models */
    unsetenv("HEED_MODELS");
    assert_int_equal(heed_model_open(&model, "first", NULL, &error), HEED_EIO);
}

/* Gives the model's config.json a "translate" of its own. */
static void set_defaults(const char *dir, const char *text) {
    struct err err = {0};
    struct model_notes notes = {.translate = json_loads(text, 0, NULL)};
    ASSERT_OK(modeldir_annotate(dir, &notes, &err), err);
    model_notes_release(&notes);
}

TEST(models_bring_defaults) {
    heed_translate_options o, plain;
    heed_result *own, *same, *other;
    heed_error error;
    const char *text = "the cat number 7 sat on mat 8";
    const char *dir = model_dir("m", 1, 300);
    set_defaults(dir, "{\"beam\": 2, \"alpha\": -0.5, \"max_extra\": 3, \"no_unknown\": true}");
    heed_model *model = open_model(dir, 1, 1);
    heed_model_translate_options(model, &o, sizeof o);
    assert_int_equal(o.size, sizeof o);
    assert_int_equal(o.beam, 2);
    ASSERT_NEAR(o.alpha, -0.5, 1e-6);
    assert_int_equal(o.max_extra, 3);
    assert_int_equal(o.no_unknown, 1);
    assert_int_equal(o.n_best, 1);
    heed_translate_options_init(&plain, sizeof plain);
    assert_int_equal(plain.beam, 4);
    assert_int_equal(heed_translate(model, &text, 1, NULL, &own, &error), HEED_OK);
    assert_int_equal(heed_translate(model, &text, 1, &o, &same, &error), HEED_OK);
    assert_int_equal(heed_translate(model, &text, 1, &plain, &other, &error), HEED_OK);
    assert_string_equal(heed_result_get(own, 0, 0)->text, heed_result_get(same, 0, 0)->text);
    assert_true(heed_result_get(own, 0, 0)->score == heed_result_get(same, 0, 0)->score);
    assert_true(heed_result_get(own, 0, 0)->score != heed_result_get(other, 0, 0)->score);
    heed_result_free(own);
    heed_result_free(same);
    heed_result_free(other);
    heed_model_close(model);
    heed_model_translate_options(NULL, &o, sizeof o); /* no model: heed's own */
    assert_memory_equal(&o, &plain, sizeof o);
    /* a tag */
    plain.prefix_token = "a";
    for (int i = 0; i < 2; i++) {
        set_defaults(dir, i ? "{\"prefix_token\": \"a\"}" : "{}");
        model = open_model(dir, 1, 1);
        assert_int_equal(heed_translate(model, &text, 1, &plain, &same, &error), HEED_OK);
        assert_int_equal(heed_translate(model, &text, 1, &o, &other, &error), HEED_OK);
        int equal = heed_result_get(same, 0, 0)->score == heed_result_get(other, 0, 0)->score;
        assert_int_equal(equal, i);
        heed_result_free(same);
        heed_result_free(other);
        heed_model_close(model);
    }
}

/* The layer and head that links come from, unless others are asked for. */
TEST(models_choose_their_alignment) {
    heed_translate_options o;
    heed_result *result[5];
    heed_error error;
    const char *text = "the cat number 7 sat on mat 8 and so did dog 99";
    const char *dir = model_dir("m", 1, 300);
    heed_model *model = open_model(dir, 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.alignment = 1;
    for (int i = 0; i < 5; i++) { /* by default; 2:3 twice; 2; 2:3 as the model's choice */
        if (i == 4) {
            heed_model_close(model);
            set_defaults(dir, "{\"alignment_layer\": 2, \"alignment_head\": 3}");
            model = open_model(dir, 1, 1);
        }
        o.alignment_layer = i == 0 || i == 4 ? -1 : 1;
        o.alignment_head = i == 1 || i == 2 ? 2 : -1;
        assert_int_equal(heed_translate(model, &text, 1, &o, &result[i], &error), HEED_OK);
    }
    int same[5] = {0};
    const heed_translation *want = heed_result_get(result[1], 0, 0);
    for (int i = 0; i < 5; i++) {
        const heed_translation *t = heed_result_get(result[i], 0, 0);
        assert_int_equal(t->n_links, want->n_links);
        same[i] = memcmp(t->links, want->links, t->n_links * sizeof *t->links) == 0;
    }
    assert_true(same[2] && same[4] && !same[0] && !same[3]);
    for (int i = 0; i < 5; i++) heed_result_free(result[i]);
    heed_model_close(model);
}

TEST(bad_defaults_are_refused) {
    static const char *const cases[][2] = {
        {"{\"beam\": 0}", "beam: 0 is not between 1 and 64"},
        {"{\"beam\": 1e9}", "beam: expected a whole number, got 1000000000.0"},
        {"{\"beam\": \"4\"}", "beam: expected a whole number, got \"4\""},
        {"{\"beam\": 9223372036854775807}", "beam: 922337203685477"},
        {"{\"alpha\": 1e300}", "alpha: 1"},
        {"{\"no_unknown\": 1}", "no_unknown: expected true or false, got 1"},
        {"{\"max_extra\": -1}", "max_extra: -1 is not between"},
        {"{\"seed\": 7}", "a model cannot set 'seed'"},
        {"{\"batch-tokens\": 7}", "a model cannot set 'batch-tokens'"},
        {"{\"max-extra\": 7}", "a model cannot set 'max-extra'"},
        {"{\"min_length\": 9, \"max_length\": 8}", "min_length: 9 is more than"},
        {"{\"alignment_layer\": 3}", "alignment_layer: 3, but the decoder has 2 layers"},
        {"{\"alignment_row\": 1}", "alignment_row: expected a string, got 1"},
        {"{\"alignment_row\": \"next\"}", "alignment_row: 'next'"},
        {"{\"prefix_token\": \"nonsense\"}", "prefix_token: the tokenizer has no piece 'nonsense'"},
        {"{\"prefix_token\": 3}", "prefix_token: expected a string, got 3"},
        {"{\"prefix_token\": \"a\\u001b\"}", "prefix_token: too long, or with control"},
        {"{\"alignment_head\": 5}", "alignment_head: 5, but there are 4 heads"}};
    heed_model *model;
    heed_error error;
    const char *dir = model_dir("m", 1, 300);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_defaults(dir, cases[i][0]);
        assert_int_equal(heed_model_open(&model, dir, NULL, &error), HEED_EFORMAT);
        if (!strstr(error.message, cases[i][1]) || !strstr(error.message, "m/config.json"))
            fail_msg("no '%s' in: %s", cases[i][1], error.message);
    }
}

TEST(ensembles) {
    heed_model_options o;
    heed_model *model;
    heed_error error;
    heed_result *single, *both, *same;
    const char *a = model_dir("a", 1, 300), *b = model_dir("b", 2, 300), *text[] = {"cat 12 sat"};
    heed_model_options_init(&o, sizeof o);
    o.n_ensemble = 1;
    o.ensemble = &b;
    model = open_model(a, 1, 1);
    assert_int_equal(heed_translate(model, text, 1, NULL, &single, NULL), HEED_OK);
    heed_model_close(model);
    if (heed_model_open(&model, a, &o, &error)) fail_msg("%s", error.message);
    assert_int_equal(heed_translate(model, text, 1, NULL, &both, NULL), HEED_OK);
    heed_model_close(model);
    o.ensemble = &a; /* a model with itself is itself */
    if (heed_model_open(&model, a, &o, &error)) fail_msg("%s", error.message);
    assert_int_equal(heed_translate(model, text, 1, NULL, &same, NULL), HEED_OK);
    heed_model_close(model);
    const heed_translation *s = heed_result_get(single, 0, 0), *t = heed_result_get(same, 0, 0);
    assert_string_equal(s->text, t->text);
    ASSERT_NEAR(s->log_prob, t->log_prob, 1e-4 * fabs((double)s->log_prob));
    assert_true(fabsf(s->log_prob - heed_result_get(both, 0, 0)->log_prob) > 1e-4f);
    heed_result_free(single);
    heed_result_free(both);
    heed_result_free(same);
}

/* ---- threads --------------------------------------------------------------------------------- */

struct worker {
    heed_model *model;
    const char *const *text;
    const heed_result *want;
    int wrong;
};

static void *work(void *ctx) {
    struct worker *w = ctx;
    for (int round = 0; round < 4; round++) {
        heed_translate_options o;
        heed_result *r;
        heed_translate_options_init(&o, sizeof o);
        o.batch_sentences = 1 + round; /* sessions are set up anew again and again */
        o.max_extra = 5;
        w->wrong += heed_translate(w->model, w->text, N_TEXT, &o, &r, NULL) != 0;
        for (size_t i = 0; r && i < N_TEXT; i++)
            w->wrong +=
                strcmp(heed_result_get(r, i, 0)->text, heed_result_get(w->want, i, 0)->text) != 0;
        heed_result_free(r);
    }
    return NULL;
}

/* More threads than sessions. */
TEST(threads_share_a_model) {
    enum { N = 5 };
    char text[N_TEXT][128];
    const char *pointer[N_TEXT];
    pthread_t thread[N];
    struct worker worker[N];
    heed_result *want;
    heed_translate_options o;
    make_texts(text, pointer);
    heed_model *model = open_model(model_dir("m", 1, 300), 3, 1);
    heed_translate_options_init(&o, sizeof o);
    o.max_extra = 5;
    assert_int_equal(heed_translate(model, pointer, N_TEXT, &o, &want, NULL), HEED_OK);
    for (int i = 0; i < N; i++) {
        worker[i] = (struct worker){model, pointer, want, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
    }
    for (int i = 0; i < N; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < N; i++) assert_int_equal(worker[i].wrong, 0);
    heed_result_free(want);
    heed_model_close(model);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

struct watch {
    size_t calls, stop_at, done, total;
    atomic_int *holding, *release; /* of a call that keeps its session until it may go on */
};

static int watch(void *ctx, size_t done, size_t total) {
    struct watch *w = ctx;
    w->calls++;
    w->done = done;
    w->total = total;
    if (w->holding) {
        atomic_store(w->holding, 1);
        while (!atomic_load(w->release)) usleep(1000);
    }
    return w->stop_at && w->calls >= w->stop_at;
}

TEST(cancels) {
    char text[N_TEXT][128];
    const char *pointer[N_TEXT];
    heed_translate_options o;
    heed_result *r;
    struct watch w = {0};
    make_texts(text, pointer);
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    heed_translate_options_init(&o, sizeof o);
    o.progress = watch;
    o.progress_context = &w;
    o.batch_sentences = 4;
    o.max_extra = 5;
    assert_int_equal(heed_translate(model, pointer, N_TEXT, &o, &r, NULL), HEED_OK);
    heed_result_free(r);
    size_t calls = w.calls;
    assert_true(calls > 5);
    assert_int_equal(w.total, N_TEXT - (N_TEXT + 6) / 7); /* every seventh is empty */
    assert_true(w.done < w.total);
    for (size_t stop = 1; stop <= calls; stop += calls / 4) {
        w = (struct watch){.stop_at = stop};
        refuse(model, pointer, N_TEXT, &o, HEED_ECANCELLED, "");
    }
    w = (struct watch){0};
    assert_int_equal(heed_translate(model, pointer, N_TEXT, &o, &r, NULL), HEED_OK);
    assert_int_equal(w.calls, calls); /* as if nothing had happened */
    heed_result_free(r);
    heed_model_close(model);
}

static void *hold(void *ctx) {
    struct worker *w = ctx;
    atomic_int *flag = (atomic_int *)(uintptr_t)w->want;
    struct watch watching = {.holding = &flag[0], .release = &flag[1]};
    heed_translate_options o;
    heed_result *r;
    heed_translate_options_init(&o, sizeof o);
    o.progress = watch;
    o.progress_context = &watching;
    w->wrong = heed_translate(w->model, w->text, 1, &o, &r, NULL);
    heed_result_free(r);
    return NULL;
}

/* The only session is busy: waiting can be cancelled, too. */
TEST(cancels_waiting) {
    const char *text[] = {"cat 12 sat"};
    atomic_int flag[2] = {0, 0};
    pthread_t thread;
    heed_translate_options o;
    struct watch w = {.stop_at = 2};
    heed_model *model = open_model(model_dir("m", 1, 300), 1, 1);
    struct worker holder = {model, text, (const heed_result *)(const void *)flag, 1};
    assert_int_equal(pthread_create(&thread, NULL, hold, &holder), 0);
    while (!atomic_load(&flag[0])) usleep(1000);
    heed_translate_options_init(&o, sizeof o);
    o.progress = watch;
    o.progress_context = &w;
    heed_result *r;
    heed_error error;
    assert_int_equal(heed_translate(model, text, 1, &o, &r, &error), HEED_ECANCELLED);
    assert_int_equal(w.total, 0);
    assert_non_null(strstr(error.message, "waiting"));
    atomic_store(&flag[1], 1);
    pthread_join(thread, NULL);
    assert_int_equal(holder.wrong, 0);
    heed_model_close(model);
}

TESTS(T(options_have_defaults), T(translates_batches), T(keeps_placeholders),
      T(keeps_the_form_of_a_text), T(links_between_words), T(html), T(prefix_token_leads),
      T(glossary), T(notes_and_limits), T(models_bring_defaults), T(models_choose_their_alignment),
      T(bad_defaults_are_refused), T(errors), T(null_pointers), T(describes), T(opens_by_name),
      T(ensembles), TL(threads_share_a_model, 120), T(cancels), T(cancels_waiting))
