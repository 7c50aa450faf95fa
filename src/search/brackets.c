/* brackets.c — see brackets.h. */
#include "search/brackets.h"

#include <string.h>

#include "base/mem.h"
#include "data/pieces.h"

static const char space[] = "\xE2\x96\x81";
enum { SPACE = sizeof space - 1 };

/* What stands behind the space, if it is a symbol that begins with one. */
static int symbol_of(const struct piece *p, const char **text, size_t *size) {
    if (p->kind != PIECE_USER_DEFINED || p->size <= SPACE || memcmp(p->text, space, SPACE) != 0)
        return 0;
    *text = p->text + SPACE;
    *size = p->size - SPACE;
    return 1;
}

/* The closing bracket of an opening one, or -1. */
static int find_mate(const struct pieces *all, const char *open, size_t size) {
    const char *text;
    size_t n;
    for (int i = 0; i < all->n; i++)
        if (symbol_of(&all->piece[i], &text, &n) && n == size && text[0] == ')' &&
            memcmp(text + 1, open + 1, size - 1) == 0)
            return i;
    return -1;
}

static void add(struct brackets *b, const struct pieces *all, int id) {
    const char *text;
    size_t size;
    if (!symbol_of(&all->piece[id], &text, &size) || text[0] == ')') return;
    if (text[0] != '(') {
        b->kind[id] = BRACKET_WORD;
        b->n_word++;
        return;
    }
    int mate = find_mate(all, text, size);
    if (mate < 0) return;
    b->kind[id] = BRACKET_OPEN;
    b->kind[mate] = BRACKET_CLOSE;
    b->mate[id] = mate;
    b->mate[mate] = id;
    b->n_open++;
}

int brackets_new(struct brackets **out, const struct tokenizer *tokenizer, struct err *err) {
    const struct pieces *all = tokenizer_pieces(tokenizer);
    *out = NULL;
    if (tokenizer_has_vocabulary(tokenizer))
        return err_set(err, HEED_EINVAL,
                       "trees: the model's tokens are not the pieces of its tokenizer");
    struct brackets *b = xcalloc(1, sizeof *b);
    b->n = all->n;
    b->kind = xcalloc((size_t)all->n + 1, sizeof *b->kind);
    b->mate = xcalloc((size_t)all->n + 1, sizeof *b->mate);
    for (int i = 0; i < all->n; i++) add(b, all, i);
    if (b->n_open && b->n_word) return *out = b, 0;
    int rc = err_set(err, HEED_EINVAL,
                     "trees: the model's tokenizer has %d brackets and %d words of trees among its "
                     "symbols; heed trees symbols lists what heed vocab needs",
                     2 * b->n_open, b->n_word);
    brackets_free(b);
    return rc;
}

void brackets_free(struct brackets *b) {
    if (!b) return;
    xfree(b->kind);
    xfree(b->mate);
    xfree(b);
}

int brackets_least(int n_word) { return n_word + 3; }

struct brackets_view brackets_view(const struct brackets *b, const int32_t *written, int n,
                                   int n_word, int longest) {
    int depth = 0, left = n_word, inner = n - 1;
    struct brackets_view v = {.close = -1};
    for (int i = 0; i < n; i++) {
        enum bracket_kind kind = b->kind[written[i]];
        depth += (kind == BRACKET_OPEN) - (kind == BRACKET_CLOSE);
        left -= kind == BRACKET_WORD;
    }
    if (n && !depth) {
        v.may_end = 1;
        return v;
    }
    v.may_open = left > 0 && n + left + depth + 3 <= longest;
    v.may_word = left > 0 && depth > 0;
    if (!n || b->kind[written[n - 1]] == BRACKET_OPEN || (depth == 1 && left > 0)) return v;
    for (int closed = 0; b->kind[written[inner]] != BRACKET_OPEN || closed; inner--) {
        enum bracket_kind kind = b->kind[written[inner]];
        closed += (kind == BRACKET_CLOSE) - (kind == BRACKET_OPEN);
    }
    v.close = b->mate[written[inner]];
    return v;
}

int brackets_allow(const struct brackets *b, const struct brackets_view *v, int32_t token,
                   int32_t eos) {
    if (token == eos) return v->may_end;
    if (token < 0 || token >= b->n) return 0;
    enum bracket_kind kind = b->kind[token];
    return kind == BRACKET_OPEN   ? v->may_open
           : kind == BRACKET_WORD ? v->may_word
                                  : token == v->close;
}

int brackets_choices(const struct brackets *b, const struct brackets_view *v) {
    return v->may_open * b->n_open + v->may_word * b->n_word + (v->close >= 0) + v->may_end;
}
