/* pieces.c — see pieces.h. The file is a ModelProto: repeated piece = 1, whose fields are text = 1,
 * score = 2 and type = 3; trainer = 2, whose model_type = 3. */
#include "data/pieces.h"

#include <string.h>

#include "base/mem.h"
#include "data/proto.h"

enum {
    FIELD_PIECE = 1,
    FIELD_TRAINER = 2,
    PIECE_TEXT = 1,
    PIECE_SCORE = 2,
    PIECE_TYPE = 3,
    TRAINER_TYPE = 3
};

/* 0 when it is malformed, which a tokenizer that opened is not. */
static int read_piece(struct piece *piece, struct bytes b) {
    struct field f;
    *piece = (struct piece){.text = "", .kind = PIECE_NORMAL};
    while (b.size > 0) {
        if (!take_field(&b, &f)) return 0;
        if (f.number == PIECE_TEXT && f.bytes.at) {
            piece->text = (const char *)f.bytes.at;
            piece->size = f.bytes.size;
        } else if (f.number == PIECE_SCORE && f.bytes.size == sizeof piece->score) {
            memcpy(&piece->score, f.bytes.at, sizeof piece->score);
        } else if (f.number == PIECE_TYPE && f.value >= PIECE_NORMAL && f.value <= PIECE_BYTE) {
            piece->kind = (enum piece_kind)f.value;
        }
    }
    return 1;
}

static int read_trainer(struct pieces *p, struct bytes b) {
    struct field f;
    while (b.size > 0) {
        if (!take_field(&b, &f)) return 0;
        if (f.number == TRAINER_TYPE && f.value >= 1 && f.value <= TOKENIZER_CHAR + 1)
            p->type = (enum tokenizer_type)(f.value - 1);
    }
    return 1;
}

int pieces_read(struct pieces *p, const struct tokenizer *tokenizer, struct err *err) {
    struct bytes b;
    struct field f;
    int n = tokenizer_size(tokenizer), ok = 1;
    *p = (struct pieces){.type = TOKENIZER_UNIGRAM}; /* of a file that does not say */
    if (tokenizer_has_vocabulary(tokenizer))
        return err_set(err, HEED_EINVAL,
                       "tokenizer: ids are a vocabulary's and not those of its pieces; other "
                       "segmentations cannot be sampled");
    p->piece = xcalloc((size_t)n, sizeof *p->piece);
    b.at = tokenizer_bytes(tokenizer, &b.size);
    while (ok && b.size > 0) {
        ok = take_field(&b, &f);
        if (ok && f.number == FIELD_PIECE) {
            ok = p->n < n && read_piece(&p->piece[p->n], f.bytes);
            p->n++;
        }
        if (ok && f.number == FIELD_TRAINER) ok = read_trainer(p, f.bytes);
    }
    if (ok && p->n == n) return 0;
    pieces_release(p);
    return err_set(err, HEED_EFORMAT, "tokenizer: its table of pieces is damaged");
}

void pieces_release(struct pieces *p) {
    xfree(p->piece);
    *p = (struct pieces){0};
}
