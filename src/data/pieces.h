/* pieces.h — what a SentencePiece file says: its pieces with text, score and kind, how text is
 * normalised, and which method cuts it.
 *
 * Files are hostile. pieces_read takes what follows the format, with limits on what could make
 * using it slow, and refuses the rest; that pieces are all different is for spm.c to see. The rules
 * of normalisation stay where they are in the file, and are checked by rules.c. */
#ifndef DATA_PIECES_H
#define DATA_PIECES_H

#include <stdbool.h>

#include "data/proto.h"
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
    const char *text;   /* ends in NUL */
    uint32_t size : 28; /* at most TOKENIZER_MAX_FILE */
    enum piece_kind kind : 4;
    float score;
};

/* How text is normalised. */
struct norm {
    struct bytes rules; /* see rules.h; in the file */
    bool space_first;   /* a space before the text, to make its first word one like the others */
    bool single_spaces; /* none at the ends either */
    bool marked_spaces; /* U+2581 for a space */
};

struct pieces {
    enum tokenizer_type type;
    struct piece *piece; /* [n], by id; their texts lie behind them */
    int n;
    bool byte_fallback;                 /* what is unknown becomes pieces for its bytes */
    bool space_last;                    /* the added space comes behind the text */
    bool has_tests;                     /* texts with the pieces they should become */
    struct bytes bos, eos, unk_surface; /* spellings, and the text of an unknown piece */
    struct norm norm, denorm;           /* the latter: of text that was put together */
};

/* Refers to the data, which must stay. */
int pieces_read(struct pieces *pieces, const void *data, size_t size, struct err *err);
void pieces_release(struct pieces *pieces);

/* Of an open tokenizer. */
const struct pieces *tokenizer_pieces(const struct tokenizer *tokenizer);

#endif
