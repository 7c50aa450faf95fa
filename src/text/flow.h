/* flow.h — bytes with texts in them: what documents are made of.
 *
 * The reader of a format goes through its bytes and tells what it finds: a text begins, here are
 * words, marks around words and between them, the text ends. A text comes out as a fragment of
 * HTML, in which every mark is a numbered tag:
 *
 *   <b N>...</b>      a pair of marks around words
 *   <img N>           a mark without words
 *   <code N>x</code>  words that are not translated
 *   <br N>            a line break, which may end a sentence
 *   <hr N>            something that ends one, and cannot move
 *
 * Writing goes the other way: tags of a translation become marks, as the format's style has them,
 * and everything between texts is copied. A text may lie inside a mark of another (a note in a
 * paragraph). Marks are ranges of the bytes, which stay the caller's. */
#ifndef TEXT_FLOW_H
#define TEXT_FLOW_H

#include "base/buffer.h"
#include "base/err.h"
#include "text/document.h"

enum mark_kind { MARK_PAIR, MARK_THING, MARK_KEPT, MARK_BREAK, MARK_HARD };

struct mark {
    enum mark_kind kind;
    int tag;                  /* the reader's own */
    struct piece open, close; /* of all but pairs: open */
};

struct flow_text {
    struct piece of; /* what a translation replaces */
    size_t at, size; /* the text, in the flow's texts; if it is plain, the bytes themselves */
    int plain;       /* neither marks nor escapes */
    int mark, n_mark;
    struct piece base; /* the reader's own, for its style */
};

struct flow_item; /* of the text that is being read */

struct flow {
    const char *bytes;
    size_t size;
    struct flow_text *text; /* [n_text] in the order in which they begin */
    int n_text, room_text;
    struct mark *mark;
    int n_mark, room_mark;
    struct buffer texts;
    struct piece prefix; /* the reader's own, for its style */
    struct flow_item *item;
    int n_item, room_item;
    struct buffer words; /* of the items */
    int *stack;          /* pairs that are open */
    int n_stack, room_stack;
};

struct flow flow_of(const char *bytes, size_t size);
void flow_release(struct flow *flow);

/* Text i of the flow, as it is to be translated. */
const char *flow_get(const struct flow *flow, int i, size_t *size);

/* A text that is to be translated as it is and has no marks. */
void flow_plain(struct flow *flow, size_t begin, size_t end);

/* ---- reading a text --------------------------------------------------------------------------
 * Words and marks in their order, then flow_end, which drops a text without a letter and says
 * whether there is one. Words are UTF-8, as they are read. An opening mark and the closing one that
 * belongs to it have the same tag. One without the other is a thing; so is one that is still open
 * when another around it is closed. */

void flow_words(struct flow *flow, const char *text, size_t size);
void flow_word(struct flow *flow, uint32_t code);
void flow_open(struct flow *flow, int tag, struct piece mark);
void flow_close(struct flow *flow, int tag, struct piece mark);
int flow_is_open(const struct flow *flow, int tag); /* would flow_close find it? */
/* A thing, a break or something hard. */
void flow_mark(struct flow *flow, enum mark_kind kind, int tag, struct piece mark);
/* What stays as it is; the model reads `words`. */
void flow_kept(struct flow *flow, struct piece mark, const char *words, size_t size);
int flow_end(struct flow *flow, struct piece of);

/* ---- writing --------------------------------------------------------------------------------- */

struct flow_writer;

enum mark_side { MARK_OPEN, MARK_CLOSE };

/* How a format writes words and marks. */
struct flow_style {
    void (*words)(struct flow_writer *writer, const char *text, size_t size);
    void (*mark)(struct flow_writer *writer, const struct mark *mark, enum mark_side side);
};

struct flow_writer {
    const struct flow *flow;
    const struct flow_style *style;
    const struct document_answer *answer; /* [n_answer] */
    int n_answer, first;                  /* `first`: the number of the flow's first text */
    struct buffer *out;
    /* of the text that is being written: */
    const struct flow_text *text;
    int run;         /* the style's own; -1 at its beginning */
    size_t begin;    /* in out */
    int after_break; /* the last mark was one */
    struct err *err;
    int rc;
};

/* Bytes of the flow, with texts in them translated. */
void flow_copy(struct flow_writer *writer, struct piece range);

/* A mark as the bytes have it: for styles. */
void flow_raw_mark(struct flow_writer *writer, const struct mark *mark, enum mark_side side);

/* All of it. */
int flow_write(struct flow_writer *writer);

#endif
