/* registry.c — see registry.h. */
#include "serve/registry.h"

#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"

struct entry {
    char *source, *target;
    void *server;
};

struct registry {
    struct entry *entry;
    int n;
};

struct registry *registry_new(const struct desk_model *model, void *const *server, int n) {
    struct registry *r = xcalloc(1, sizeof *r);
    r->entry = xcalloc((size_t)n + 1, sizeof *r->entry);
    r->n = n;
    for (int i = 0; i < n; i++)
        r->entry[i] = (struct entry){xstrdup(model[i].source), xstrdup(model[i].target), server[i]};
    return r;
}

void registry_free(struct registry *r) {
    if (!r) return;
    for (int i = 0; i < r->n; i++) {
        xfree(r->entry[i].source);
        xfree(r->entry[i].target);
    }
    xfree(r->entry);
    xfree(r);
}

static const struct entry *direct(const struct registry *r, const char *source,
                                  const char *target) {
    for (int i = 0; i < r->n; i++)
        if (!strcasecmp(r->entry[i].source, source) && !strcasecmp(r->entry[i].target, target))
            return &r->entry[i];
    return NULL;
}

/* The models of both halves; 0 if there is no way. */
static int indirect(const struct registry *r, const char *source, const char *target,
                    const struct entry *half[2]) {
    int found = 0;
    for (int i = 0; i < r->n; i++) {
        const struct entry *a = &r->entry[i], *b;
        if (strcasecmp(a->source, source) != 0 || !(b = direct(r, a->target, target))) continue;
        if (found && strcasecmp(a->target, "en") != 0) continue;
        if (found && !strcasecmp(half[0]->target, "en")) break;
        half[0] = a;
        half[1] = b;
        found = 1;
    }
    return found;
}

static struct registry_step step_of(const struct registry *r, const struct entry *e) {
    return (struct registry_step){e->server, e->source, (int)(e - r->entry)};
}

int registry_find(const struct registry *r, const char *source, const char *target,
                  struct registry_step path[2]) {
    const struct entry *half[2], *one = direct(r, source, target);
    if (one) {
        path[0] = step_of(r, one);
        return 1;
    }
    if (!strcasecmp(source, target) || !indirect(r, source, target, half)) return 0;
    path[0] = step_of(r, half[0]);
    path[1] = step_of(r, half[1]);
    return 2;
}

static int by_name(const void *a, const void *b) {
    const struct desk_pair *x = a, *y = b;
    int order = strcasecmp(x->source, y->source);
    return order ? order : strcasecmp(x->target, y->target);
}

int registry_pairs(const struct registry *r, struct desk_pair **pairs) {
    struct desk_pair *out = xcalloc((size_t)r->n * (size_t)r->n + 1, sizeof *out);
    int n = 0;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->n; k++) {
            const char *source = r->entry[i].source, *target = r->entry[k].target;
            const struct entry *half[2], *one = direct(r, source, target);
            int known = 0;
            for (int j = 0; j < n; j++)
                known |= !strcasecmp(out[j].source, source) && !strcasecmp(out[j].target, target);
            if (known) continue;
            if (one)
                out[n++] = (struct desk_pair){source, target, NULL};
            else if (strcasecmp(source, target) != 0 && indirect(r, source, target, half))
                out[n++] = (struct desk_pair){source, target, half[0]->target};
        }
    qsort(out, (size_t)n, sizeof *out, by_name);
    *pairs = out;
    return n;
}
