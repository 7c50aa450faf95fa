/* pairs.c — see pairs.h. */
#include "data/pairs.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

enum { WINDOW_PAIRS = 8192, WINDOW_BYTES = 4 << 20 };

struct side {
    char name[80]; /* for messages */
    struct text *text;
    char *bytes; /* the lines of the window, a NUL after each */
    size_t used, size;
};

struct pairs {
    struct side side[2];
    struct pair pair[WINDOW_PAIRS];
    int n;
};

int pairs_open(struct pairs **pairs, const char *src, const char *tgt, struct err *err) {
    struct pairs *p = xcalloc(1, sizeof *p);
    const char *path[2] = {src, tgt};
    int rc = 0;
    for (int s = 0; s < 2 && !rc; s++) {
        snprintf(p->side[s].name, sizeof p->side[s].name, "%s",
                 strcmp(path[s], "-") == 0 ? "standard input" : path[s]);
        rc = text_open(&p->side[s].text, path[s], err);
    }
    *pairs = rc ? NULL : p;
    if (rc) pairs_close(p);
    return rc;
}

void pairs_close(struct pairs *p) {
    if (!p) return;
    for (int s = 0; s < 2; s++) {
        text_close(p->side[s].text);
        xfree(p->side[s].bytes);
    }
    xfree(p);
}

const struct pair *pairs_window(const struct pairs *p) { return p->pair; }

struct text_counts pairs_counts(const struct pairs *p, int side) {
    return text_counts(p->side[side].text);
}

/* Counts what is left of the longer text, to name both numbers. */
static int unequal(struct pairs *p, struct err *err) {
    uint64_t lines[2];
    for (int s = 0; s < 2; s++) {
        struct line line;
        int rc;
        while ((rc = text_next(p->side[s].text, &line, err)) > 0) continue;
        if (rc < 0) return rc;
        lines[s] = text_counts(p->side[s].text).lines;
    }
    return err_set(err, HEED_EFORMAT,
                   "%s has %s line%s and %s has %s: line i must translate line i", p->side[0].name,
                   num_grouped((char[28]){0}, lines[0]), PLURAL(lines[0]), p->side[1].name,
                   num_grouped((char[28]){0}, lines[1]));
}

/* Copies a line behind the others of its side; the text pointer is set once the window is full and
 * no longer moves. */
static void put(struct side *side, struct line *line) {
    while (side->used + line->size + 1 > side->size) {
        side->size = side->size ? 2 * side->size : 1 << 20;
        side->bytes = xrealloc(side->bytes, side->size);
    }
    memcpy(side->bytes + side->used, line->text, line->size + 1);
    side->used += line->size + 1;
    line->text = NULL;
}

int pairs_fill(struct pairs *p, struct err *err) {
    p->n = 0;
    for (int s = 0; s < 2; s++) p->side[s].used = 0;
    while (p->n < WINDOW_PAIRS && p->side[0].used + p->side[1].used < WINDOW_BYTES) {
        struct pair *pair = &p->pair[p->n];
        int rc[2] = {0};
        for (int s = 0; s < 2; s++) {
            rc[s] = text_next(p->side[s].text, &pair->side[s], err);
            if (rc[s] < 0) return rc[s];
        }
        if (rc[0] != rc[1]) return unequal(p, err);
        if (!rc[0]) break;
        for (int s = 0; s < 2; s++) put(&p->side[s], &pair->side[s]);
        p->n++;
    }
    for (int s = 0; s < 2; s++) {
        const char *at = p->side[s].bytes;
        for (int i = 0; i < p->n; i++) {
            p->pair[i].side[s].text = at;
            at += p->pair[i].side[s].size + 1;
        }
    }
    return p->n;
}
