/* marian_vocab.c — see marian_vocab.h. */
#include "convert/marian_vocab.h"

#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "base/utf8.h"

/* A line, and where it is. */
struct line {
    const char *at;
    size_t size;
    int number; /* from 1 */
    const char *where;
};

/* The next one of the text that is left, without its end. */
static int next_line(struct line *line, const char **text, const char *end) {
    if (*text == end) return 0;
    const char *stop = memchr(*text, '\n', (size_t)(end - *text));
    line->at = *text;
    *text = stop ? stop + 1 : end;
    line->size = (size_t)((stop ? stop : end) - line->at);
    if (line->size && line->at[line->size - 1] == '\r') line->size--;
    line->number++;
    return 1;
}

static int bad_line(const struct line *line, const char *what, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%.120s:%d: %s: '%.*s'", line->where, line->number, what,
                   line->size > 60 ? 60 : (int)line->size, line->at);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static const char *hex(uint32_t *value, const char *at, const char *end, int digits) {
    *value = 0;
    if (end - at < digits) return NULL;
    for (int i = 0; i < digits; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return NULL;
        *value = *value << 4 | (uint32_t)digit;
    }
    return at + digits;
}

/* What follows a backslash between double quotes: the character, and where the text goes on, or
 * NULL. */
static const char *escape(uint32_t *c, const char *at, const char *end) {
    static const char names[] = "0abtnvfre\"/\\N_LP ";
    static const uint32_t chars[] = {0,   7,   8,    9,    10,   11,     12,     13, 27,
                                     '"', '/', '\\', 0x85, 0xa0, 0x2028, 0x2029, ' '};
    if (at == end) return NULL;
    if (*at == 'x') return hex(c, at + 1, end, 2);
    if (*at == 'u') return hex(c, at + 1, end, 4);
    if (*at == 'U') return hex(c, at + 1, end, 8);
    const char *name = *at ? strchr(names, *at) : NULL;
    if (!name) return NULL;
    *c = chars[name - names];
    return at + 1;
}

static int put_char(struct buffer *out, uint32_t c) {
    if (c == 0 || c == '\n' || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    char bytes[4];
    buffer_put(out, bytes, (size_t)utf8_encode(bytes, c));
    return 1;
}

/* Takes the quotes off. 0: it is not well-formed. */
static int unquote(struct buffer *out, const char *at, const char *end) {
    char quote = end - at >= 2 && (*at == '"' || *at == '\'') && end[-1] == *at ? *at : 0;
    out->size = 0;
    if (quote) at++, end--;
    while (at < end) {
        uint32_t c;
        if (quote == '"' && *at == '\\') {
            at = escape(&c, at + 1, end);
            if (!at || !put_char(out, c)) return 0;
        } else {
            if (quote == '\'' && *at == '\'' && at + 1 < end) at++; /* '' is one */
            buffer_put(out, at++, 1);
        }
    }
    return 1;
}

/* ---- the list -------------------------------------------------------------------------------- */

struct list {
    const char **token; /* by id; NULL: not seen yet */
    int n, room, count; /* n: the largest id, and one */
    struct buffer text;
    struct keep *keep;
};

/* The token in list->text. */
static int add(struct list *list, int id, const struct line *line, struct err *err) {
    if (id < 0 || id >= MARIAN_VOCAB_MAX) return bad_line(line, "an id that is too large", err);
    if (!list->text.size || utf8_clean_prefix(list->text.text, list->text.size) < list->text.size)
        return bad_line(line, "not a token", err);
    while (list->n <= id) {
        GROW(list->token, list->n, list->room);
        list->token[list->n++] = NULL;
    }
    if (list->token[id]) return bad_line(line, "an id that is there already", err);
    list->token[id] = keep_text(list->keep, list->text.text, list->text.size);
    list->count++;
    return 0;
}

/* The digits at the end of a line, and the colon before them: where the colon is, or -1. */
static int64_t find_id(const struct line *line, int *id) {
    size_t end = line->size;
    while (end && line->at[end - 1] == ' ') end--;
    size_t begin = end;
    while (begin && line->at[begin - 1] >= '0' && line->at[begin - 1] <= '9') begin--;
    if (begin == end || end - begin > 9) return -1;
    *id = 0;
    for (size_t i = begin; i < end; i++) *id = 10 * *id + line->at[i] - '0';
    size_t colon = begin;
    while (colon && line->at[colon - 1] == ' ') colon--;
    return colon && colon < begin && line->at[colon - 1] == ':' ? (int64_t)colon - 1 : -1;
}

static int finish(struct marian_vocab *vocab, struct list *list, int rc, const char *where,
                  struct err *err) {
    if (!rc && !list->n)
        rc = err_set(err, HEED_EFORMAT, "%.180s: a vocabulary without a token", where);
    if (!rc && list->count < list->n) {
        int id = 0;
        while (list->token[id]) id++;
        rc = err_set(err, HEED_EFORMAT, "%.150s: no token has the id %d, but one has %d", where, id,
                     list->n - 1);
    }
    if (!rc) {
        size_t size = (size_t)list->n * sizeof *list->token;
        vocab->n = list->n;
        vocab->token = memcpy(keep_take(list->keep, size), list->token, size);
    }
    xfree(list->token);
    xfree(list->text.text);
    return rc;
}

int marian_vocab_yml(struct marian_vocab *vocab, const char *text, size_t size, const char *where,
                     struct keep *keep, struct err *err) {
    struct list list = {.keep = keep};
    struct line line = {.where = where};
    const char *key = NULL; /* of `? key`, whose id is in the next line */
    size_t key_size = 0;
    int rc = 0;
    for (const char *end = text + size; !rc && next_line(&line, &text, end);) {
        if (!line.size || (line.number == 1 && line.size == 3 && !memcmp(line.at, "---", 3)))
            continue;
        if (!key && line.size > 2 && line.at[0] == '?' && line.at[1] == ' ') {
            key = line.at + 2, key_size = line.size - 2;
            continue;
        }
        int id;
        int64_t colon = find_id(&line, &id);
        if (colon < 0 || (key && colon))
            rc = bad_line(&line, "not a token and its id", err);
        else if (!unquote(&list.text, key ? key : line.at, key ? key + key_size : line.at + colon))
            rc = bad_line(&line, "not well quoted", err);
        else
            rc = add(&list, id, &line, err);
        key = NULL;
    }
    if (!rc && key) rc = bad_line(&line, "a token without an id", err);
    return finish(vocab, &list, rc, where, err);
}

int marian_vocab_text(struct marian_vocab *vocab, const char *text, size_t size, const char *where,
                      struct keep *keep, struct err *err) {
    struct list list = {.keep = keep};
    struct line line = {.where = where};
    int rc = 0;
    for (const char *end = text + size; !rc && next_line(&line, &text, end);) {
        list.text.size = 0;
        buffer_put(&list.text, line.at, line.size);
        rc = add(&list, line.number - 1, &line, err);
    }
    return finish(vocab, &list, rc, where, err);
}
