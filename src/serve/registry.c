/* registry.c — see registry.h. */
#include "serve/registry.h"

#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"

struct entry {
    int source, target; /* languages */
    void *server;
    struct engine_said said;
};

/* A text that was given, and our copy of it. */
struct word {
    const char *given;
    char *own;
};

struct registry {
    struct entry *entry;
    int n;
    const char **language; /* [n_language] as first written; English is `english`, or -1 */
    int n_language, english;
    int *way; /* [n_language, n_language] the entry from one to another; -1: none */
    struct word *word;
    int n_word;
};

/* ---- making ---------------------------------------------------------------------------------- */

/* A copy of the text. The few texts that there are come again and again by the same pointer. */
static const char *copy(struct registry *r, const char *text) {
    if (!text) return NULL;
    for (int i = 0; i < r->n_word; i++)
        if (r->word[i].given == text) return r->word[i].own;
    r->word = xrealloc(r->word, ((size_t)r->n_word + 1) * sizeof *r->word);
    r->word[r->n_word] = (struct word){text, xstrdup(text)};
    return r->word[r->n_word++].own;
}

/* Its number, or -1. */
static int find_language(const struct registry *r, const char *code) {
    for (int i = 0; i < r->n_language; i++)
        if (!strcasecmp(r->language[i], code)) return i;
    return -1;
}

static int add_language(struct registry *r, const char *code) {
    int found = find_language(r, code);
    if (found >= 0) return found;
    r->language = xrealloc(r->language, ((size_t)r->n_language + 1) * sizeof *r->language);
    r->language[r->n_language] = copy(r, code);
    return r->n_language++;
}

static int *way(const struct registry *r, int source, int target) {
    return &r->way[(size_t)source * (size_t)r->n_language + (size_t)target];
}

struct registry *registry_new(const struct desk_model *model, void *const *server, int n) {
    struct registry *r = xcalloc(1, sizeof *r);
    r->entry = xcalloc((size_t)n + 1, sizeof *r->entry);
    r->n = n;
    for (int i = 0; i < n; i++) {
        const struct engine_said *said = &model[i].said;
        r->entry[i] = (struct entry){
            add_language(r, model[i].source),
            add_language(r, model[i].target),
            server[i],
            {copy(r, said->prefix_token), copy(r, said->source_lang), copy(r, said->target_lang)}};
    }
    r->english = find_language(r, "en");
    size_t cells = (size_t)r->n_language * (size_t)r->n_language;
    r->way = xmalloc((cells + 1) * sizeof *r->way);
    for (size_t i = 0; i < cells; i++) r->way[i] = -1;
    for (int i = n - 1; i >= 0; i--) *way(r, r->entry[i].source, r->entry[i].target) = i;
    return r;
}

void registry_free(struct registry *r) {
    if (!r) return;
    for (int i = 0; i < r->n_word; i++) xfree(r->word[i].own);
    xfree(r->word);
    xfree(r->language);
    xfree(r->way);
    xfree(r->entry);
    xfree(r);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The language between the two; -1 if there is no way. */
static int between(const struct registry *r, int source, int target) {
    int best = -1;
    for (int x = 0; x < r->n_language; x++) {
        int first = *way(r, source, x);
        if (first < 0 || *way(r, x, target) < 0) continue;
        if (x == r->english) return x;
        if (best < 0 || first < *way(r, source, best)) best = x;
    }
    return best;
}

static struct registry_step step_of(const struct registry *r, int source, int target) {
    int i = *way(r, source, target);
    const struct entry *e = &r->entry[i];
    return (struct registry_step){e->server, r->language[e->source], e->said, i};
}

int registry_find(const struct registry *r, const char *source, const char *target,
                  struct registry_step path[2]) {
    int from = find_language(r, source), to = find_language(r, target);
    if (from < 0 || to < 0) return 0;
    if (*way(r, from, to) >= 0) {
        path[0] = step_of(r, from, to);
        return 1;
    }
    int x = from == to ? -1 : between(r, from, to);
    if (x < 0) return 0;
    path[0] = step_of(r, from, x);
    path[1] = step_of(r, x, to);
    return 2;
}

static int by_name(const void *a, const void *b) {
    const struct desk_pair *x = a, *y = b;
    int order = strcasecmp(x->source, y->source);
    return order ? order : strcasecmp(x->target, y->target);
}

int registry_pairs(const struct registry *r, struct desk_pair **pairs) {
    struct desk_pair *out = xcalloc((size_t)r->n_language * (size_t)r->n_language + 1, sizeof *out);
    int n = 0;
    for (int i = 0; i < r->n_language; i++)
        for (int k = 0; k < r->n_language; k++) {
            int direct = *way(r, i, k) >= 0, x = direct || i == k ? -1 : between(r, i, k);
            if (direct || x >= 0)
                out[n++] = (struct desk_pair){r->language[i], r->language[k],
                                              direct ? NULL : r->language[x]};
        }
    qsort(out, (size_t)n, sizeof *out, by_name);
    *pairs = out;
    return n;
}
