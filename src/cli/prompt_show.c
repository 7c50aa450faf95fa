/* prompt_show.c — see prompt_show.h. */
#define _XOPEN_SOURCE 700 /* wcwidth */
#include "cli/prompt_show.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "cli/signals.h"

int screen_open(struct screen *s, struct err *err) {
    const char *term = getenv("TERM"), *without = getenv("NO_COLOR");
    *s = (struct screen){.bold = "", .dim = "", .gloss = "", .plain = ""};
    s->terminal = isatty(STDOUT_FILENO);
    if (s->terminal && term && *term && strcmp(term, "dumb") != 0 && !(without && *without))
        s->bold = "\033[1m", s->dim = "\033[2m", s->gloss = "\033[36m", s->plain = "\033[0m";
    setlocale(LC_CTYPE, "C.UTF-8"); /* for wcwidth */
    return outlet_open(&s->out, NULL, err);
}

void screen_close(struct screen *s) { outlet_close(&s->out); }

int screen_flush(struct screen *s, struct err *err) {
    return outlet_flush(&s->out, &signals_caught, err);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Shows the bytes, if there is a screen; returns their width in columns. On a terminal a control
 * character is shown as the character that is its picture. */
static int put(struct screen *s, const char *text, size_t size) {
    int columns = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        int n = utf8_decode(&code, text + at, size - at);
        int control = n > 0 && (code < 0x20 || (code >= 0x7F && code < 0xA0));
        if (s && s->terminal && control) {
            char picture[4];
            code = code < 0x20 ? 0x2400 + code : code == 0x7F ? 0x2421 : 0xFFFD;
            outlet_put(&s->out, picture, (size_t)utf8_encode(picture, code));
        } else if (s) {
            outlet_put(&s->out, text + at, (size_t)abs(n));
        }
        int width = n > 0 && !control ? wcwidth((wchar_t)code) : 1;
        columns += width < 0 ? 1 : width;
        at += (size_t)abs(n);
    }
    return columns;
}

void screen_text(struct screen *s, const char *text, size_t size) {
    put(s, text, size);
    outlet_put(&s->out, "\n", 1);
}

void screen_aside(struct screen *s, const char *fmt, ...) {
    char line[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (s->terminal) outlet_printf(&s->out, "%s%s%s\n", s->dim, line, s->plain);
}

void screen_alternatives(struct screen *s, const struct translation *t) {
    for (int k = 0, rank = 1; k < t->n; k++) {
        const struct candidate *c = &t->best[k];
        int before = 0; /* pieces can differ where texts do not */
        while (before < k && strcmp(t->best[before].text, c->text) != 0) before++;
        if (before < k) continue;
        outlet_printf(&s->out, "%s%3d %8.3f%s  ", s->dim, rank++, (double)c->score, s->plain);
        screen_text(s, c->text, c->size);
    }
}

/* ---- alignment ------------------------------------------------------------------------------- */

/* Both sides of a translation in words. Those that target word j is linked to are
 * link[first[j] .. first[j + 1]), in the order of the source. */
struct gloss {
    struct text {
        const char *text;
        const struct span *word; /* [n] */
        int n;
    } src, tgt;
    struct align_link *link;
    int *first; /* [tgt.n + 1] */
    char *used; /* [src.n] it has a link */
};

static int by_target(const void *a, const void *b) {
    const struct align_link *x = a, *y = b;
    return x->tgt != y->tgt ? (x->tgt > y->tgt) - (x->tgt < y->tgt)
                            : (x->src > y->src) - (x->src < y->src);
}

static void gloss_init(struct gloss *g, const struct translation *t) {
    const struct candidate *c = &t->best[0];
    int n = c->n_link;
    *g = (struct gloss){.src = {t->text, t->word, t->n_word}, .tgt = {c->text, c->word, c->n_word}};
    g->link = xcalloc((size_t)n + 1, sizeof *g->link);
    g->first = xcalloc((size_t)g->tgt.n + 1, sizeof *g->first);
    g->used = xcalloc((size_t)g->src.n + 1, 1);
    for (int k = 0; k < n; k++) g->link[k] = c->link[k];
    qsort(g->link, (size_t)n, sizeof *g->link, by_target);
    for (int j = 0, k = 0; j < g->tgt.n; j++) {
        while (k < n && g->link[k].tgt == j) g->used[g->link[k++].src] = 1;
        g->first[j + 1] = k;
    }
}

static void gloss_release(struct gloss *g) {
    xfree(g->link);
    xfree(g->first);
    xfree(g->used);
}

/* Shows word i, if there is a screen; returns its width. */
static int put_word(struct screen *s, const struct text *w, int i) {
    return put(s, w->text + w->word[i].begin, (size_t)(w->word[i].end - w->word[i].begin));
}

/* The same for all words that target word j is linked to; a dot for none. */
static int put_linked(struct screen *s, const struct gloss *g, int j) {
    int columns = 0;
    for (int k = g->first[j]; k < g->first[j + 1]; k++) {
        if (columns) columns += put(s, " ", 1);
        columns += put_word(s, &g->src, g->link[k].src);
    }
    return columns ? columns : put(s, "\xC2\xB7", 2);
}

static int column_of(const struct gloss *g, int j) {
    return 2 + max_int(put_word(NULL, &g->tgt, j), put_linked(NULL, g, j));
}

/* Target words from j on, as many as fit, with what they are linked to below; where it ends. */
static int put_lines(struct screen *s, const struct gloss *g, int j, int columns) {
    int end = j + 1;
    for (int used = column_of(g, j); end < g->tgt.n; end++)
        if ((used += column_of(g, end)) > columns) break;
    for (int row = 0; row < 2; row++) {
        outlet_printf(&s->out, "%s", row ? s->gloss : "");
        for (int k = j, pad = 2; k < end; k++) {
            outlet_printf(&s->out, "%*s", pad, "");
            pad = column_of(g, k) - (row ? put_linked(s, g, k) : put_word(s, &g->tgt, k));
        }
        outlet_printf(&s->out, "%s\n", row ? s->plain : "");
    }
    return end;
}

static void put_unlinked(struct screen *s, const struct gloss *g) {
    int n = 0;
    for (int i = 0; i < g->src.n; i++) {
        if (g->used[i]) continue;
        outlet_printf(&s->out, "%s", n++ ? " " : "  without a link: ");
        put_word(s, &g->src, i);
    }
    if (n) outlet_put(&s->out, "\n", 1);
}

void screen_alignment(struct screen *s, const struct translation *t) {
    struct gloss g;
    gloss_init(&g, t);
    for (int j = 0; j < g.tgt.n;) j = put_lines(s, &g, j, progress_columns(s->out.fd));
    put_unlinked(s, &g);
    gloss_release(&g);
}
