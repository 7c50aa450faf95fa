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

/* Shows n bytes; returns their width in columns. On a terminal a control character is shown as the
 * character that is its picture. */
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

static int width_of(const char *text, size_t size) { return put(NULL, text, size); }

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

/* ---- words ----------------------------------------------------------------------------------- */

/* The words of a text, and of[i], the word of piece i. */
struct words {
    char *text;
    size_t *begin; /* [n + 1] bytes of the text */
    int n, *of;
};

/* A piece that begins with a space begins a word. */
static struct words words_of(const struct tokenizer *tokenizer, const int32_t *ids, int n) {
    static const char space[] = "\xE2\x96\x81";
    struct words w = {.begin = xcalloc((size_t)n + 1, sizeof *w.begin),
                      .of = xcalloc((size_t)n + 1, sizeof *w.of)};
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        const char *piece = tokenizer_piece(tokenizer, ids[i]);
        int begins = strncmp(piece, space, 3) == 0;
        if (begins || i == 0) w.begin[w.n++] = used;
        piece += begins ? 3 : 0;
        w.text = xrealloc(w.text, used + strlen(piece) + 1);
        memcpy(w.text + used, piece, strlen(piece));
        used += strlen(piece);
        w.of[i] = w.n - 1;
    }
    w.begin[w.n] = used;
    return w;
}

static void words_release(struct words *w) {
    xfree(w->text);
    xfree(w->begin);
    xfree(w->of);
}

static int word_width(const struct words *w, int i) {
    return width_of(w->text + w->begin[i], w->begin[i + 1] - w->begin[i]);
}

/* ---- alignment ------------------------------------------------------------------------------- */

/* Both sides of a translation, and linked[tgt * src.n + src]. */
struct gloss {
    struct words src, tgt;
    unsigned char *linked;
};

static int is_linked(const struct gloss *g, int tgt, int src) {
    return g->linked[(size_t)tgt * (size_t)g->src.n + (size_t)src];
}

/* Puts the words linked to target word j, or a dot; returns the width. s NULL: only that. */
static int put_gloss(struct screen *s, const struct gloss *g, int j) {
    int columns = 0;
    for (int i = 0; i < g->src.n; i++) {
        if (!is_linked(g, j, i)) continue;
        if (columns) columns += put(s, " ", 1);
        columns += put(s, g->src.text + g->src.begin[i], g->src.begin[i + 1] - g->src.begin[i]);
    }
    return columns ? columns : put(s, "\xC2\xB7", 2);
}

static int column_of(const struct gloss *g, int j) {
    int word = word_width(&g->tgt, j), gloss = put_gloss(NULL, g, j);
    return 2 + (word > gloss ? word : gloss);
}

/* Target words from j on, as many as fit, with what they are linked to below; where it ends. */
static int put_lines(struct screen *s, const struct gloss *g, int j, int columns) {
    int end = j + 1;
    for (int used = column_of(g, j); end < g->tgt.n; end++)
        if ((used += column_of(g, end)) > columns) break;
    for (int row = 0; row < 2; row++) {
        outlet_printf(&s->out, "%s", row ? s->gloss : "");
        for (int k = j, pad = 2; k < end; k++) {
            const char *word = g->tgt.text + g->tgt.begin[k];
            outlet_printf(&s->out, "%*s", pad, "");
            int width = row ? put_gloss(s, g, k)
                            : put(s, word, (size_t)(g->tgt.begin[k + 1] - g->tgt.begin[k]));
            pad = column_of(g, k) - width;
        }
        outlet_printf(&s->out, "%s\n", row ? s->plain : "");
    }
    return end;
}

static void put_unlinked(struct screen *s, const struct gloss *g) {
    int n = 0;
    for (int i = 0, j; i < g->src.n; i++) {
        for (j = 0; j < g->tgt.n && !is_linked(g, j, i);) j++;
        if (j < g->tgt.n) continue;
        outlet_printf(&s->out, "%s", n++ ? ", " : "  without a link: ");
        put(s, g->src.text + g->src.begin[i], g->src.begin[i + 1] - g->src.begin[i]);
    }
    if (n) outlet_put(&s->out, "\n", 1);
}

void screen_alignment(struct screen *s, const struct tokenizer *tokenizer,
                      const struct translation *t) {
    const struct candidate *c = &t->best[0];
    struct gloss g = {.src = words_of(tokenizer, t->src, t->n_src),
                      .tgt = words_of(tokenizer, c->ids, c->n_tok)};
    g.linked = xcalloc((size_t)g.tgt.n + 1, (size_t)g.src.n + 1);
    for (int k = 0; k < c->n_link; k++)
        g.linked[(size_t)g.tgt.of[c->link[k].tgt] * (size_t)g.src.n +
                 (size_t)g.src.of[c->link[k].src]] = 1;
    for (int j = 0; j < g.tgt.n;) j = put_lines(s, &g, j, progress_columns(s->out.fd));
    put_unlinked(s, &g);
    words_release(&g.src);
    words_release(&g.tgt);
    xfree(g.linked);
}
