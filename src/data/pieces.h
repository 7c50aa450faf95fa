/* pieces.h — what a SentencePiece model says about its pieces: text, score and kind. Only code that
 * segments text itself needs to know (subword.h); everybody else asks the tokenizer. */
#ifndef DATA_PIECES_H
#define DATA_PIECES_H

#include "data/tokenizer.h"

/* As the files number them. */
enum piece_kind {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_USER_DEFINED = 4,
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6
};

struct piece {
    const char *text; /* the tokenizer's, not terminated */
    size_t size;
    float score;
    enum piece_kind kind;
};

struct pieces {
    enum tokenizer_type type;
    struct piece *piece; /* [n], by id */
    int n;
};

/* Valid as long as the tokenizer is. pieces_release frees the table. */
int pieces_read(struct pieces *pieces, const struct tokenizer *tokenizer, struct err *err);
void pieces_release(struct pieces *pieces);

#endif
