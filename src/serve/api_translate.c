/* api_translate.c — handlers that translate: /translate and its relatives under /heed/.
 *
 * A request is checked in the order in which LibreTranslate checks it, so that clients meet the
 * messages they know; then it is a job of the desk. The engine's thread only wakes the server's,
 * which makes the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "io/json.h"
#include "serve/errand.h"
#include "serve/web.h"

enum { ATTENTION_MOST = 160 }; /* tokens of one side that are shown */

static void release(struct http_exchange *x) {
    struct errand *e = x->own;
    if (!e) return;
    if (e->job) desk_release(e->job);
    for (int i = 0; i < e->n && e->copy; i++) xfree(e->copy[i]);
    xfree(e->copy);
    xfree(e->text);
    xfree(e->term);
    json_decref(e->glossary);
    if (e->free_more) e->free_more(e->more);
    xfree(e->partial);
    pthread_mutex_destroy(&e->lock);
    body_release(&e->body);
    xfree(e);
    x->own = NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static size_t count_characters(const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* Forms have line ends of their own. */
static void unify_lines(struct errand *e, int i) {
    struct desk_text *t = &e->text[i];
    if (!memchr(t->text, '\r', t->size)) return;
    if (!e->copy) e->copy = xcalloc((size_t)e->n, sizeof *e->copy);
    char *to = e->copy[i] = xmalloc(t->size + 1);
    size_t n = 0;
    for (size_t k = 0; k < t->size; k++) {
        if (t->text[k] != '\r')
            to[n++] = t->text[k];
        else if (k + 1 == t->size || t->text[k + 1] != '\n')
            to[n++] = '\n';
    }
    t->text = to;
    t->size = n;
}

int errand_missing(struct http_exchange *x, int got, const char *name) {
    if (got > 0)
        api_refuse(x, 400, "Invalid request: missing %s parameter", name);
    else
        api_refuse(x, 400, "Invalid request: %s parameter is not a string", name);
    return 400;
}

/* q: a text, or a list of them. */
static int read_texts(struct errand *e, struct http_exchange *x) {
    const json_t *list = e->body.json ? json_object_get(e->body.json, "q") : NULL;
    struct body_text one;
    if (!json_is_array(list)) {
        int got = body_string(&e->body, "q", &one);
        if (got) return errand_missing(x, got, "q");
        e->text = xcalloc(1, sizeof *e->text);
        e->text[0] = (struct desk_text){.text = one.text, .size = one.size};
        e->n = 1;
        return 0;
    }
    if (e->purpose != TRANSLATE) return errand_missing(x, -1, "q");
    size_t n = json_array_size(list);
    if (!n) return errand_missing(x, 1, "q");
    e->is_list = 1;
    e->text = xcalloc(n, sizeof *e->text);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_string(v)) {
            api_refuse(x, 400, "Invalid request: q parameter is not a string or a list of strings");
            return 400;
        }
        e->text[i] =
            (struct desk_text){.text = json_string_value(v), .size = json_string_length(v)};
    }
    e->n = (int)n;
    return 0;
}

static int read_alternatives(struct errand *e, struct http_exchange *x) {
    const json_t *v = e->body.json ? json_object_get(e->body.json, "alternatives") : NULL;
    struct body_text text;
    long n = 0;
    int most = e->api->options.alternatives, good = 1;
    if (json_is_integer(v)) {
        n = json_integer_value(v) > most ? most + 1L : (long)json_integer_value(v);
    } else if (v && !json_is_string(v) && !json_is_null(v)) {
        good = 0;
    } else if (body_string(&e->body, "alternatives", &text) == 0) {
        char word[24], *end;
        snprintf(word, sizeof word, "%.*s", (int)(text.size < 20 ? text.size : 20), text.text);
        n = strtol(word, &end, 10);
        good = end != word && !*end && text.size < 20;
    }
    if (!good) {
        api_refuse(x, 400, "Invalid request: alternatives parameter is not a number");
        return 400;
    }
    if (n > most) {
        api_refuse(x, 400, "Invalid request: alternatives parameter must be <= %d", most);
        return 400;
    }
    e->alternatives = n < 0 ? 0 : (int)n;
    return 0;
}

/* "glossary": {"term": "translation", ...}; texts of JSON have no NUL in them. */
int errand_terms(struct errand *e, struct http_exchange *x) {
    json_t *all = e->body.json ? json_object_get(e->body.json, "glossary") : NULL, *value;
    struct body_text text;
    const char *term;
    int bad = 0;
    if (!e->body.json && body_string(&e->body, "glossary", &text) == 0) {
        bad = json_in_text(&e->glossary, text.text, text.size, "glossary", NULL);
        all = e->glossary;
    }
    bad |= all && !json_is_object(all) && !json_is_null(all);
    size_t n = json_object_size(all);
    if (!bad && n > DESK_MAX_TERMS) {
        api_refuse(x, 400, "Invalid request: glossary (%zu) exceeds term limit (%d)", n,
                   DESK_MAX_TERMS);
        return 400;
    }
    e->term = n && !bad ? xcalloc(n, sizeof *e->term) : NULL;
    if (e->term) json_object_foreach(all, term, value) {
            bad |= !json_is_string(value);
            e->term[e->n_term++] = (struct desk_term){term, json_string_value(value)};
        }
    if (!bad) return 0;
    api_refuse(x, 400, "Invalid request: glossary parameter must be a JSON object of texts");
    return 400;
}

/* Words come with /heed/align, and with a stream that asks for them: true, or in a form 1. */
static void read_words(struct errand *e) {
    struct body_text text;
    if (e->purpose == ALIGN)
        e->words = 1;
    else if (e->body.json)
        e->words = json_is_true(json_object_get(e->body.json, "words"));
    else
        e->words = !body_string(&e->body, "words", &text) && strchr("1tT", *text.text) != NULL;
    e->words &= e->purpose == ALIGN || e->purpose == STREAM;
}

static int check_size(struct errand *e, struct http_exchange *x) {
    int batch = e->api->options.batch_limit, limit = e->api->options.char_limit;
    if (e->is_list && batch && e->n > batch) {
        api_refuse(x, 400, "Invalid request: request (%d) exceeds text limit (%d)", e->n, batch);
        return 400;
    }
    for (int i = 0; i < e->n && limit; i++) {
        size_t n = count_characters(e->text[i].text, e->text[i].size);
        if (n <= (size_t)limit) continue;
        api_refuse(x, 400, "Invalid request: request (%zu) exceeds text limit (%d)", n, limit);
        return 400;
    }
    return 0;
}

/* All texts as one, as far as a detector looks. */
static void detect(struct errand *e) {
    enum { LOOK = 16 << 10 };
    char all[LOOK];
    size_t n = 0;
    struct languages_guess guess[LANGUAGES_GUESSES];
    for (int i = 0; i < e->n && n < LOOK; i++) {
        size_t most = LOOK - n - 1, take = e->text[i].size < most ? e->text[i].size : most;
        memcpy(all + n, e->text[i].text, take);
        n += take;
        all[n++] = '\n';
    }
    int got = languages_detect(guess, api_languages(e->api), all, n, e->format == DESK_HTML);
    snprintf(e->source, sizeof e->source, "%s", got ? guess[0].code : "en");
    e->confidence = got ? guess[0].confidence : 0;
    e->detected = 1;
}

static int unsupported(struct http_exchange *x, struct body_text language) {
    api_refuse(x, 400, "%.*s is not supported", (int)(language.size < 40 ? language.size : 40),
               language.text);
    return 400;
}

/* format: text or html, where it was given. */
static int read_format(struct errand *e, struct http_exchange *x, struct body_text *format) {
    int got = body_string(&e->body, "format", format);
    if (got < 0) return errand_missing(x, got, "format");
    int html = format->size == 4 && memcmp(format->text, "html", 4) == 0;
    e->format = html && e->purpose == TRANSLATE ? DESK_HTML : DESK_TEXT;
    if (html || (format->size == 4 && memcmp(format->text, "text", 4) == 0)) format->size = 0;
    return 0;
}

int errand_pair(struct errand *e, struct http_exchange *x, struct body_text source,
                struct body_text target) {
    const struct languages *l = api_languages(e->api);
    struct body_text format = {NULL, 0};
    if (e->purpose != WHOLE_FILE && read_format(e, x, &format)) return 400;
    for (int i = 0; i < e->n && e->purpose != WHOLE_FILE && e->format == DESK_HTML; i++)
        if (utf8_clean_prefix(e->text[i].text, e->text[i].size) < e->text[i].size) {
            api_refuse(x, 400, "Invalid request: q is not UTF-8");
            return 400;
        }
    int bad = languages_code(e->source, source.text, source.size);
    if (!bad && strcmp(e->source, "auto") == 0) detect(e);
    const struct served *from = bad ? NULL : languages_meant(l, e->source);
    if (!from) return unsupported(x, source);
    bad = languages_code(e->target, target.text, target.size);
    if (bad || !languages_meant(l, e->target)) return unsupported(x, target);
    if (format.size) {
        api_refuse(x, 400, "%.*s format is not supported",
                   (int)(format.size < 40 ? format.size : 40), format.text);
        return 400;
    }
    if (languages_pair(from, e->target)) return 0;
    api_refuse(x, 400, "%s (%s) is not available as a target language from %s (%s)",
               languages_name(e->target, NULL), e->target, languages_name(e->source, NULL),
               e->source);
    return 400;
}

/* Everything that may be wrong with a request, in order. */
static int read_errand(struct errand *e, struct http_exchange *x) {
    struct body_text source, target, given;
    int got, rc = api_admit(e->api, x, &e->body, &e->caller);
    if (!rc) rc = read_texts(e, x);
    if (!rc && (got = body_string(&e->body, "source", &source)))
        rc = errand_missing(x, got, "source");
    if (!rc && (got = body_string(&e->body, "target", &target)))
        rc = errand_missing(x, got, "target");
    if (!rc && e->purpose == SCORE) {
        if ((got = body_string(&e->body, "translation", &given)))
            rc = errand_missing(x, got, "translation");
        else
            e->text[0].given = given.text, e->text[0].given_size = given.size;
    }
    if (!rc) rc = read_alternatives(e, x);
    if (!rc) rc = errand_terms(e, x);
    if (!rc) read_words(e);
    for (int i = 0; i < e->n && !rc && !e->body.json; i++) unify_lines(e, i);
    if (!rc) rc = check_size(e, x);
    if (!rc && !api_desk(e->api)) {
        api_later(x, rc = 503, 2, "The models are being loaded");
        return rc;
    }
    if (!rc) rc = errand_pair(e, x, source, target);
    if (!rc) rc = api_charge(e->api, x, &e->caller, e->n);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* One value, or a list of them where the request was one. */
static json_t *per_text(const struct errand *e, json_t *(*make)(const struct errand *, int)) {
    if (!e->is_list) return make(e, 0);
    json_t *all = json_array();
    for (int i = 0; i < e->n; i++) json_array_append_new(all, make(e, i));
    return all;
}

static json_t *make_text(const struct errand *e, int i) {
    if (!e->job) return api_text(e->text[i].text, e->text[i].size); /* into its own language */
    const struct desk_candidate *best = desk_answer(e->job, i)->best;
    return api_text(best->text, best->size);
}

static json_t *make_others(const struct errand *e, int i) {
    json_t *all = json_array();
    const struct desk_answer *a = e->job ? desk_answer(e->job, i) : NULL;
    for (int k = 1; a && k < a->n && k <= e->alternatives; k++)
        json_array_append_new(all, api_text(a->best[k].text, a->best[k].size));
    return all;
}

static json_t *make_detected(const struct errand *e, int i) {
    (void)i;
    return json_pack("{s:f,s:s}", "confidence", e->confidence, "language", e->source);
}

/* Bytes to characters, in ascending order: *byte and *n remember where the last one was. */
static json_int_t position(const char *text, size_t *byte, size_t *n, size_t to) {
    for (; *byte < to; ++*byte) *n += ((unsigned char)text[*byte] & 0xC0) != 0x80;
    return (json_int_t)*n;
}

static json_t *make_words(const struct desk_answer *a) {
    json_t *all = json_array();
    size_t byte = 0, n = 0;
    for (int i = 0; i < a->n_translated; i++) {
        const struct desk_word *w = &a->translated[i];
        json_int_t from = position(a->best->text, &byte, &n, w->at.begin);
        json_int_t to = position(a->best->text, &byte, &n, w->at.end);
        json_array_append_new(
            all,
            json_pack("[I,I,o]", from, to, json_real((int)(w->confidence * 1000 + 0.5f) / 1000.0)));
    }
    return all;
}

static void add_links(json_t *o, const struct desk_answer *a) {
    json_t *source = json_array(), *links = json_array();
    size_t byte = 0, n = 0;
    for (int i = 0; i < a->n_word; i++) {
        json_int_t from = position(a->source, &byte, &n, a->word[i].begin);
        json_int_t to = position(a->source, &byte, &n, a->word[i].end);
        json_array_append_new(source, json_pack("[I,I]", from, to));
    }
    for (int i = 0; i < a->n_link; i++)
        json_array_append_new(links, json_pack("[i,i]", a->link[i].src, a->link[i].tgt));
    json_object_set_new(o, "sourceWords", source);
    json_object_set_new(o, "targetWords", make_words(a));
    json_object_set_new(o, "links", links);
}

static json_t *make_answer(const struct errand *e) {
    json_t *o = json_pack("{s:o}", "translatedText", per_text(e, make_text));
    if (e->detected) json_object_set_new(o, "detectedLanguage", per_text(e, make_detected));
    if (e->alternatives) json_object_set_new(o, "alternatives", per_text(e, make_others));
    if (e->words) add_links(o, e->job ? desk_answer(e->job, 0) : &(struct desk_answer){0});
    return o;
}

static json_t *make_score(const struct desk_answer *a) {
    double sum = (double)a->best->log_prob;
    return json_pack("{s:f,s:i,s:f,s:o}", "logProbability", sum, "pieces", a->n_piece, "perPiece",
                     a->n_piece ? sum / a->n_piece : 0, "targetWords", make_words(a));
}

/* ---- attention ------------------------------------------------------------------------------- */

/* There are too many numbers for a JSON library: they are written as text. */
struct writer {
    char *at;
    size_t n, cap;
};

static void put(struct writer *w, const char *text, size_t size) {
    if (w->n + size > w->cap) {
        w->cap = 2 * (w->n + size);
        w->at = xrealloc(w->at, w->cap);
    }
    memcpy(w->at + w->n, text, size);
    w->n += size;
}

static void put_string(struct writer *w, const char *text) { put(w, text, strlen(text)); }

static void put_value(struct writer *w, json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text) put_string(w, text);
    free(text);
    json_decref(value);
}

static json_t *make_pieces(const char *const *piece, int n) {
    json_t *all = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(all, api_text(piece[i], strlen(piece[i])));
    return all;
}

struct look {
    const char *kind;
    int layers;
    const char *const *query, *const *key;
    int n_query, n_key;
    const float *at;
};

static void put_look(struct writer *w, const struct look *k, int heads) {
    size_t n = (size_t)k->layers * (size_t)heads * (size_t)k->n_query * (size_t)k->n_key;
    char number[16] = "";
    put_string(w, "{\"key\":");
    put_value(w, make_pieces(k->key, k->n_key));
    put_string(w, ",\"kind\":\"");
    put_string(w, k->kind);
    put_string(w, "\",\"layers\":");
    put(w, number, (size_t)snprintf(number, sizeof number, "%d", k->layers));
    put_string(w, ",\"probs\":[");
    for (size_t i = 0; i < n; i++) {
        int thousandths = (int)(k->at[i] * 1000 + 0.5f);
        if (i) put(w, ",", 1);
        if (thousandths <= 0)
            put(w, "0", 1);
        else if (thousandths >= 1000)
            put(w, "1", 1);
        else
            put(w, number, (size_t)snprintf(number, sizeof number, "0.%03d", thousandths));
    }
    put_string(w, "],\"query\":");
    put_value(w, make_pieces(k->query, k->n_query));
    put(w, "}", 1);
}

static void answer_attention(struct errand *e, struct http_exchange *x) {
    const struct desk_answer *a = desk_answer(e->job, 0);
    const struct desk_attention *t = a->attention;
    if (!t) {
        api_refuse(x, 400, "There is no attention to show of this text");
        return;
    }
    if (t->n_src > ATTENTION_MOST || t->n_tgt > ATTENTION_MOST) {
        api_refuse(x, 400, "The sentence is too long to show its attention: %d and %d tokens",
                   t->n_src, t->n_tgt);
        return;
    }
    const char *before[ATTENTION_MOST] = {"<s>"}; /* what each row of the decoder reads */
    for (int i = 1; i < t->n_tgt; i++) before[i] = t->tgt[i - 1];
    const struct look look[] = {
        {"encoder", t->n_layer_enc, t->src, t->src, t->n_src, t->n_src, t->enc},
        {"decoder", t->n_layer_self, t->tgt, before, t->n_tgt, t->n_tgt, t->dec},
        {"cross", t->n_layer_dec, t->tgt, t->src, t->n_tgt, t->n_src, t->cross}};
    struct writer w = {0};
    char number[16] = "";
    put_string(&w, "{\"heads\":");
    put(&w, number, (size_t)snprintf(number, sizeof number, "%d", t->n_head));
    put_string(&w, ",\"kinds\":[");
    for (int i = 0, n = 0; i < 3; i++) {
        if (!look[i].layers) continue;
        if (n++) put(&w, ",", 1);
        put_look(&w, &look[i], t->n_head);
    }
    put_string(&w, "],\"translatedText\":");
    put_value(&w, make_text(e, 0));
    put_string(&w, "}\n");
    size_t size = 0;
    char *packed = web_takes_gzip(http_header(&x->head, "accept-encoding"))
                       ? web_gzip(w.at, w.n, &size)
                       : NULL;
    if (packed) xfree(w.at);
    http_answer(x, &(struct http_answer){.status = 200,
                                         .type = "application/json",
                                         .headers = packed ? "Content-Encoding: gzip\r\n"
                                                             "Vary: Accept-Encoding\r\n"
                                                           : "Vary: Accept-Encoding\r\n",
                                         .body = packed ? packed : w.at,
                                         .size = packed ? size : w.n,
                                         .owned = packed ? packed : w.at});
}

/* ---- streams --------------------------------------------------------------------------------- */

#define EVENTS "text/event-stream", "Cache-Control: no-store\r\n"

static void send_event(struct http_exchange *x, const char *name, json_t *value) {
    char *data = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    json_decref(value);
    size_t cap = strlen(data) + strlen(name) + 32;
    char *text = xmalloc(cap);
    int n = snprintf(text, cap, "event: %s\ndata: %s\n\n", name, data);
    http_write(x, text, (size_t)n);
    xfree(text);
    free(data);
}

/* The engine's thread: keeps the last one, and wakes the server's. */
static void on_partial(void *ctx, struct desk_job *job, const struct desk_partial *p) {
    struct http_exchange *x = ctx;
    struct errand *e = x->own;
    (void)job;
    pthread_mutex_lock(&e->lock);
    e->partial = xrealloc(e->partial, p->size + 1);
    memcpy(e->partial, p->out, p->size);
    e->n_partial = p->size;
    e->settled = p->settled;
    e->partial_of = 1;
    pthread_mutex_unlock(&e->lock);
    http_wake(x, WAKE_PARTIAL);
}

static void send_partial(struct errand *e, struct http_exchange *x) {
    pthread_mutex_lock(&e->lock);
    char *text = e->partial;
    size_t n = e->n_partial, settled = e->settled;
    int there = e->partial_of;
    e->partial = NULL;
    e->partial_of = 0;
    pthread_mutex_unlock(&e->lock);
    if (there)
        send_event(x, "partial",
                   json_pack("{s:o,s:I}", "text", api_text(text, n), "settled",
                             (json_int_t)count_characters(text, settled < n ? settled : n)));
    xfree(text);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void on_done(void *ctx, struct desk_job *job) {
    (void)job;
    http_wake(ctx, WAKE_DONE);
}

static void on_gone(struct http_exchange *x) {
    struct errand *e = x->own;
    if (e->job) desk_cancel(e->job);
}

/* Of a job that has failed: its status and message. */
int errand_failure(const struct errand *e, const char **message) {
    switch (desk_status(e->job)) {
    case DESK_DONE:
        return 0;
    case DESK_REFUSED:
        *message = desk_message(e->job);
        return 400;
    case DESK_DEADLINE:
        *message = "The translation took too long";
        return 504;
    case DESK_CANCELLED:
        *message = "The translation was cancelled";
        return 503;
    default:
        *message = desk_message(e->job);
        return 500;
    }
}

static void conclude_stream(struct errand *e, struct http_exchange *x) {
    const char *message = "";
    int status = errand_failure(e, &message);
    if (status)
        send_event(
            x, "error",
            json_pack("{s:o,s:i}", "error", api_text(message, strlen(message)), "status", status));
    else
        send_event(x, "done", make_answer(e));
    http_end(x);
}

static void conclude(struct errand *e, struct http_exchange *x) {
    const char *message = "";
    int status = errand_failure(e, &message);
    if (status == 503) {
        api_later(x, 503, 5, message);
    } else if (status) {
        api_refuse(x, status, "%s", message);
    } else if (e->purpose == ATTENTION) {
        answer_attention(e, x);
    } else if (e->purpose == SCORE) {
        api_answer(x, 200, make_score(desk_answer(e->job, 0)));
    } else {
        api_answer(x, 200, make_answer(e));
    }
}

static void on_woken(struct http_exchange *x, unsigned what) {
    struct errand *e = x->own;
    if (what & WAKE_PARTIAL) send_partial(e, x);
    if (!(what & WAKE_DONE)) return;
    if (e->purpose == STREAM)
        conclude_stream(e, x);
    else
        conclude(e, x);
}

void errand_submit(struct errand *e, struct http_exchange *x) {
    static const unsigned extras[] = {[STREAM] = DESK_PARTIAL,
                                      [ATTENTION] = DESK_ATTENTION,
                                      [SCORE] = DESK_SCORE,
                                      [WHOLE_FILE] = 0};
    int seconds = e->api->options.deadline;
    struct desk_refusal refusal = {.retry_after = 1};
    struct desk_order order = {.text = e->text,
                               .n = e->n,
                               .source = e->source,
                               .target = e->target,
                               .format = e->format,
                               .alternatives = e->alternatives,
                               .term = e->term,
                               .n_term = e->n_term,
                               .client = e->caller.client,
                               .deadline = seconds ? clock_seconds() + seconds : 0,
                               .extras = extras[e->purpose] | (e->words ? DESK_WORDS : 0U),
                               .done = on_done,
                               .partial = e->purpose == STREAM ? on_partial : NULL,
                               .ctx = x};
    if (!x->woken) x->woken = on_woken;
    x->gone = on_gone;
    switch (desk_submit(api_desk(e->api), &order, &e->job, &refusal)) {
    case DESK_ACCEPTED:
        if (e->purpose == STREAM) http_begin(x, EVENTS);
        return;
    case DESK_FULL:
        api_later(x, 503, refusal.retry_after, "The server is busy");
        return;
    case DESK_DRAINING:
        api_later(x, 503, refusal.retry_after, "The server is shutting down");
        return;
    default:
        api_refuse(x, 400, "%s", refusal.err.msg);
    }
}

struct errand *errand_new(struct api *api, struct http_exchange *x, enum purpose purpose) {
    struct body body;
    if (api_body(&body, x)) return NULL;
    struct errand *e = xcalloc(1, sizeof *e);
    *e = (struct errand){.api = api, .purpose = purpose, .body = body};
    pthread_mutex_init(&e->lock, NULL);
    x->own = e;
    x->release = release;
    return e;
}

static void run(struct api *api, struct http_exchange *x, enum purpose purpose) {
    struct errand *e = errand_new(api, x, purpose);
    if (!e || read_errand(e, x)) return;
    if (strcmp(e->source, e->target) != 0) {
        errand_submit(e, x);
    } else if (purpose == TRANSLATE || purpose == ALIGN) {
        api_answer(x, 200, make_answer(e));
    } else if (purpose == STREAM) {
        http_begin(x, EVENTS);
        send_event(x, "done", make_answer(e));
        http_end(x);
    } else {
        api_refuse(x, 400, "%s (%s) is not available as a target language from %s (%s)",
                   languages_name(e->target, NULL), e->target, languages_name(e->source, NULL),
                   e->source);
    }
}

void api_translate(struct api *api, struct http_exchange *x) { run(api, x, TRANSLATE); }
void api_stream(struct api *api, struct http_exchange *x) { run(api, x, STREAM); }
void api_align(struct api *api, struct http_exchange *x) { run(api, x, ALIGN); }
void api_attention(struct api *api, struct http_exchange *x) { run(api, x, ATTENTION); }
void api_score(struct api *api, struct http_exchange *x) { run(api, x, SCORE); }
