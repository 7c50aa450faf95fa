/* pairs.c — see pairs.h. */
#include "serve/pairs.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "model/card.h"
#include "model/modeldir.h"

/* A language of a model. */
struct language {
    const char *code; /* as clients have it */
    const char *own;  /* as the model has it; NULL: it is not told */
};

/* What a model directory says. */
struct model_words {
    const char *dir;
    char card[2][LANGUAGES_CODE]; /* "": not said */
    struct language *language;    /* [n] that the model knows */
    int n;
    int told[2]; /* is it told the source's language, the target's? */
};

/* ---- reading --------------------------------------------------------------------------------- */

static int too_long(const char *dir, const char *code, struct err *err) {
    return err_set(err, HEED_EINVAL, "%.120s: '%.60s' is too long for a language", dir, code);
}

static int read_card(struct model_words *m, const struct model_notes *notes, struct err *err) {
    struct card card = {0};
    int rc = card_from_json(&card, notes->card, m->dir, err);
    const char *const tag[] = {card.source, card.target};
    for (int i = 0; i < 2 && !rc; i++)
        if (tag[i] && languages_of_model(m->card[i], tag[i])) rc = too_long(m->dir, tag[i], err);
    return rc;
}

/* Of several that clients would call the same, the first is, and others keep their own names. */
static int read_language(struct model_words *m, const char *own, struct keep *keep,
                         struct err *err) {
    char code[LANGUAGES_CODE];
    int rc = languages_of_model(code, own);
    for (int i = 0; i < m->n && !rc; i++)
        if (strcmp(m->language[i].code, code) == 0) rc = languages_code(code, own, strlen(own));
    if (rc) return too_long(m->dir, own, err);
    m->language[m->n++] =
        (struct language){keep_text(keep, code, strlen(code)), keep_text(keep, own, strlen(own))};
    return 0;
}

/* The file is looked at again when the model is opened (tongues.h), and refused if it is wrong. */
static int read_languages(struct model_words *m, const json_t *tokens, struct keep *keep,
                          struct err *err) {
    const json_t *languages = json_object_get(tokens, "languages");
    const char *before = json_string_value(json_object_get(languages, "before_source")), *own;
    json_t *codes = json_object_get(languages, "codes"), *value;
    int rc = 0;
    m->told[0] = before && strcmp(before, "source") == 0;
    m->told[1] = (before && strcmp(before, "target") == 0) ||
                 json_object_get(languages, "before_target") != NULL;
    m->language = keep_take(keep, (json_object_size(codes) + 1) * sizeof *m->language);
    json_object_foreach(codes, own, value) {
        if (!rc) rc = read_language(m, own, keep, err);
    }
    return rc;
}

static int read_words(struct model_words *m, const char *dir, struct keep *keep, struct err *err) {
    struct config config;
    struct weights_form form;
    struct model_notes notes;
    *m = (struct model_words){.dir = dir};
    int rc = modeldir_read_any(dir, &config, &form, &notes, err);
    if (!rc) rc = read_card(m, &notes, err);
    if (!rc) rc = read_languages(m, notes.tokens, keep, err);
    model_notes_release(&notes);
    return rc;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

int pairs_parse(char code[2][LANGUAGES_CODE], const char *word, size_t n) {
    const char *dash = memchr(word, '-', n);
    if (!dash || dash == word || memchr(dash + 1, '-', n - (size_t)(dash - word) - 1)) return -1;
    size_t first = (size_t)(dash - word), second = n - first - 1;
    if (!second || languages_code(code[0], word, first) ||
        languages_code(code[1], dash + 1, second))
        return -1;
    return 0;
}

/* Of the first n. */
static int find_pair(const struct pairs *p, int n, const char *source, const char *target) {
    for (int i = 0; i < n; i++)
        if (strcmp(p->model[i].source, source) == 0 && strcmp(p->model[i].target, target) == 0)
            return i;
    return -1;
}

const char *pairs_before(const char *word, size_t *size, const char **rest) {
    const char *equals = strchr(word, '=');
    *rest = word;
    if (!equals || memchr(word, '/', (size_t)(equals - word))) return NULL;
    *rest = equals + 1;
    *size = (size_t)(equals - word);
    return word;
}

int pairs_model(const struct pairs *p, const char *source, const char *target) {
    return find_pair(p, p->n, source, target);
}

static void add(struct pairs *p, const struct model_words *m, const struct language side[2]) {
    if (p->n == p->cap) {
        p->cap = max_int(2 * p->cap, 8);
        p->model = xrealloc(p->model, (size_t)p->cap * sizeof *p->model);
    }
    p->model[p->n++] =
        (struct desk_model){.source = side[0].code,
                            .target = side[1].code,
                            .dir = m->dir,
                            .said = {.source_lang = side[0].own, .target_lang = side[1].own}};
}

/* What the model calls a language of one side. */
static int find_own(const struct model_words *m, int side, struct language *l, struct err *err) {
    char own[LANGUAGES_CODE];
    if (!m->told[side]) return 0;
    for (int i = 0; i < m->n && !l->own; i++)
        if (strcmp(m->language[i].code, l->code) == 0 ||
            (!languages_code(own, m->language[i].own, strlen(m->language[i].own)) &&
             strcmp(own, l->code) == 0))
            l->own = m->language[i].own;
    if (l->own) return 0;
    return err_set(err, HEED_EINVAL,
                   "%.120s does not know the language '%s'; heed inspect shows which it "
                   "has",
                   m->dir, l->code);
}

/* A pair that was asked for. */
static int add_asked(struct pairs *p, const struct model_words *m, const char *source,
                     const char *target, struct err *err) {
    const char *const code[] = {source, target};
    struct language side[2] = {{.own = NULL}};
    int before = find_pair(p, p->n, source, target), rc = 0;
    if (before >= 0)
        return err_set(err, HEED_EINVAL, "two models for %s-%s: %.90s and %.90s", source, target,
                       p->model[before].dir, m->dir);
    if (strcmp(source, target) == 0)
        return err_set(err, HEED_EINVAL, "%.90s translates %s into %s", m->dir, source, target);
    for (int i = 0; i < 2 && !rc; i++) {
        side[i].code = keep_text(&p->keep, code[i], strlen(code[i]));
        rc = find_own(m, i, &side[i], err);
    }
    if (!rc) add(p, m, side);
    return rc;
}

static int add_named(struct pairs *p, const struct model_words *m, const struct pairs_from *from,
                     struct err *err) {
    char code[2][LANGUAGES_CODE];
    int rc = 0;
    for (size_t at = 0, size; at <= from->size && !rc; at += size + 1) {
        const char *word = from->named + at, *comma = memchr(word, ',', from->size - at);
        size = comma ? (size_t)(comma - word) : from->size - at;
        if (pairs_parse(code, word, size))
            rc = err_set(err, HEED_EINVAL, "'%.*s' is not a pair of languages like en-de",
                         (int)(size > 60 ? 60 : size), word);
        else
            rc = add_asked(p, m, code[0], code[1], err);
    }
    return rc;
}

/* The languages of one side: those the model is told, or the card's. */
static int side_of(const struct model_words *m, int side, const struct language **list,
                   struct language *of_card) {
    *of_card = (struct language){m->card[side], NULL};
    *list = m->told[side] ? m->language : of_card;
    return m->told[side] ? m->n : m->card[side][0] != 0;
}

/* Everything that it can do. */
static int add_all(struct pairs *p, const struct model_words *m, struct err *err) {
    const struct language *list[2];
    struct language of_card[2];
    int n[2], before = p->n;
    for (int i = 0; i < 2; i++) n[i] = side_of(m, i, &list[i], &of_card[i]);
    for (int i = 0; i < 2; i++)
        of_card[i].code = keep_text(&p->keep, of_card[i].code, strlen(of_card[i].code));
    if (!n[0] || !n[1])
        return err_set(err, HEED_EINVAL,
                       "%.120s does not say its languages: name them, as in en-de=%.60s, "
                       "or store them with heed describe",
                       m->dir, m->dir);
    if (m->n > PAIRS_MAX_LANGUAGES)
        return err_set(err, HEED_EINVAL,
                       "%.120s has %d languages: name the pairs, as in "
                       "en-de,en-fr=%.60s",
                       m->dir, m->n, m->dir);
    for (int i = 0; i < n[0]; i++)
        for (int k = 0; k < n[1]; k++) {
            struct language side[2] = {list[0][i], list[1][k]};
            if (strcmp(side[0].code, side[1].code) != 0 &&
                find_pair(p, before, side[0].code, side[1].code) < 0)
                add(p, m, side);
        }
    return 0;
}

int pairs_find(struct pairs *p, const struct pairs_from *from, int n, struct err *err) {
    struct model_words *m = xcalloc((size_t)n + 1, sizeof *m);
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        rc = read_words(&m[i], from[i].dir, &p->keep, err);
        if (!rc && from[i].named)
            rc = add_named(p, &m[i], &from[i], err);
        else if (!rc && m[i].card[0][0] && m[i].card[1][0])
            rc = add_asked(p, &m[i], m[i].card[0], m[i].card[1], err);
    }
    for (int i = 0; i < n && !rc; i++)
        if (!from[i].named && !(m[i].card[0][0] && m[i].card[1][0])) rc = add_all(p, &m[i], err);
    xfree(m);
    return rc;
}

void pairs_release(struct pairs *p) {
    xfree(p->model);
    keep_release(&p->keep);
    *p = (struct pairs){0};
}
