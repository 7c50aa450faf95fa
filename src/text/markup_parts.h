/* markup_parts.h — what markup.c reads and markup_place.c writes. Nobody else includes it. */
#ifndef TEXT_MARKUP_PARTS_H
#define TEXT_MARKUP_PARTS_H

#include "base/buffer.h"
#include "text/markup.h"

enum node_kind {
    NODE_ELEMENT,
    NODE_THING, /* has no words */
    NODE_KEPT,  /* has words that are written as the document has them */
    NODE_HELD,  /* a placeholder: its words are written as they were read */
};

/* Between what is kept and the word before or behind it is a space that the document does not have,
 * so that no word has a part of both. */
enum { GLUED_BEFORE = 1, GLUED_BEHIND = 2 };

/* Something in a segment. Nodes are in the order in which they begin. */
struct node {
    enum node_kind kind;
    int parent;               /* among the segment's nodes; -1: none */
    int depth;                /* 1: no parent */
    struct piece open, close; /* the tags; all of a thing or what is kept is `open` */
    int begin, end;           /* bytes of the segment's text */
    int glued;                /* what is kept: bits GLUED_... */
    int space;                /* there is white space behind a thing that the text does not have */
};

struct segment {
    struct piece of; /* the bytes that are replaced */
    size_t text;     /* where its text begins among those of all segments */
    int size;
    int node, n_node; /* its nodes */
    int unit, n_unit; /* its texts to translate */
};

struct markup {
    const char *html;
    size_t size;
    int plain;      /* it is no HTML */
    char *text;     /* of all segments, one after another */
    uint32_t *from; /* [n_text] where in the document a byte's character is; NOT_THERE: it is not */
    size_t n_text, room_text;
    struct segment *segment;
    int n_segment, room_segment;
    struct node *node;
    int n_node, room_node;
    struct span *unit; /* of its segment's text */
    int *segment_of;   /* [n_unit] */
    int n_unit, room_unit;
};

enum { NOT_THERE = -1 };

/* The character at html[at], decoded, and how long it is there. Negative: a reference that is not
 * known, or no character's. */
int markup_take(const struct markup *markup, uint32_t *code, size_t at, size_t end);

/* Adds the translation of a segment, and its words unless that is NULL. answer [n_unit]. */
void markup_place(struct buffer *out, const struct markup *markup, const struct segment *segment,
                  const struct markup_answer *answer, struct markup_words *words);

/* Adds the words of a sentence of a plain text that stays as it is, `shift` bytes further on. */
void markup_same(size_t shift, const struct markup *markup, const struct segment *segment,
                 const struct markup_answer *answer, struct markup_words *words);

#endif
