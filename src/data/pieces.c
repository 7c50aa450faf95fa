/* pieces.c — see pieces.h.
 *
 * The file is a ModelProto. A field that comes again overrides what it said before, and messages
 * add up, as protocol buffers have it. */
#include "data/pieces.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum model_field {
    MODEL_PIECE = 1,
    MODEL_TRAINER = 2,
    MODEL_NORMALIZER = 3,
    MODEL_TESTS = 4,
    MODEL_DENORMALIZER = 5
};
enum piece_field { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum trainer_field {
    TRAINER_TYPE = 3,
    TRAINER_SPACE_LAST = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_UNK_SURFACE = 44,
    TRAINER_BOS = 46,
    TRAINER_EOS = 47
};
enum norm_field {
    NORM_RULES = 2,
    NORM_SPACE_FIRST = 3,
    NORM_SINGLE_SPACES = 4,
    NORM_MARKED_SPACES = 5
};

static int malformed(struct err *err) {
    return err_set(err, HEED_EFORMAT, "not a SentencePiece model, or a damaged one");
}

static void get_bool(bool *to, const struct field *f, uint32_t number) {
    if (f->number == number && f->wire == WIRE_VARINT) *to = f->value != 0;
}

/* Numbers that are none of the choices count as not said. */
static void get_choice(int *to, const struct field *f, uint32_t number, int most) {
    int32_t value = (int32_t)(uint32_t)f->value;
    if (f->number == number && f->wire == WIRE_VARINT && value >= 1 && value <= most) *to = value;
}

static void get_bytes(struct bytes *to, const struct field *f, uint32_t number) {
    if (f->number == number && f->wire == WIRE_BYTES) *to = f->bytes;
}

static int read_piece(struct piece *piece, char *texts, struct bytes b) {
    struct field f;
    struct bytes text = {(const unsigned char *)"", 0};
    int kind = PIECE_NORMAL;
    piece->score = 0;
    while (b.size > 0) {
        if (!take_field(&b, &f)) return 0;
        get_bytes(&text, &f, PIECE_TEXT);
        get_choice(&kind, &f, PIECE_TYPE, PIECE_BYTE);
        if (f.number == PIECE_SCORE && f.wire == WIRE_32)
            memcpy(&piece->score, f.bytes.at, sizeof piece->score);
    }
    memcpy(texts, text.at, text.size);
    texts[text.size] = 0;
    piece->text = texts;
    piece->size = (uint32_t)text.size & 0xFFFFFFF;
    piece->kind = (enum piece_kind)kind;
    return 1;
}

static int check_piece(const struct piece *piece, int id, struct err *err) {
    if (piece->size == 0)
        return err_set(err, HEED_EFORMAT, "piece %d: a piece must not be empty", id);
    if (memchr(piece->text, 0, piece->size))
        return err_set(err, HEED_EFORMAT, "piece %d has a NUL byte", id);
    if (isnan(piece->score))
        return err_set(err, HEED_EFORMAT, "the score of piece %d is not a number", id);
    return 0;
}

static int read_trainer(struct pieces *p, struct bytes b) {
    struct field f;
    int type = (int)p->type + 1;
    while (b.size > 0) {
        if (!take_field(&b, &f)) return 0;
        get_choice(&type, &f, TRAINER_TYPE, TOKENIZER_CHAR + 1);
        get_bool(&p->space_last, &f, TRAINER_SPACE_LAST);
        get_bool(&p->byte_fallback, &f, TRAINER_BYTE_FALLBACK);
        get_bytes(&p->unk_surface, &f, TRAINER_UNK_SURFACE);
        get_bytes(&p->bos, &f, TRAINER_BOS);
        get_bytes(&p->eos, &f, TRAINER_EOS);
    }
    p->type = (enum tokenizer_type)(type - 1);
    return 1;
}

static int read_norm(struct norm *norm, struct bytes b) {
    struct field f;
    while (b.size > 0) {
        if (!take_field(&b, &f)) return 0;
        get_bytes(&norm->rules, &f, NORM_RULES);
        get_bool(&norm->space_first, &f, NORM_SPACE_FIRST);
        get_bool(&norm->single_spaces, &f, NORM_SINGLE_SPACES);
        get_bool(&norm->marked_spaces, &f, NORM_MARKED_SPACES);
    }
    return 1;
}

/* How many pieces there are, and bytes for their texts with a NUL each. */
static int count_pieces(struct bytes b, size_t *n, size_t *n_text) {
    struct field f;
    *n = *n_text = 0;
    while (b.size > 0) {
        if (!take_field(&b, &f)) return 0;
        if (f.number != MODEL_PIECE || f.wire != WIRE_BYTES) continue;
        (*n)++;
        *n_text += f.bytes.size + 1;
    }
    return *n > 0;
}

static int read_fields(struct pieces *p, char *texts, struct bytes b, struct err *err) {
    struct field f;
    while (b.size > 0) {
        int ok = take_field(&b, &f);
        if (!ok) return malformed(err);
        if (f.wire != WIRE_BYTES) continue;
        if (f.number == MODEL_PIECE) {
            struct piece *piece = &p->piece[p->n];
            if (!read_piece(piece, texts, f.bytes)) return malformed(err);
            int rc = check_piece(piece, p->n, err);
            if (rc) return rc;
            texts += piece->size + 1;
            p->n++;
        }
        if (f.number == MODEL_TRAINER) ok = read_trainer(p, f.bytes);
        if (f.number == MODEL_NORMALIZER) ok = read_norm(&p->norm, f.bytes);
        if (f.number == MODEL_DENORMALIZER) ok = read_norm(&p->denorm, f.bytes);
        p->has_tests |= f.number == MODEL_TESTS;
        if (!ok) return malformed(err);
    }
    return 0;
}

int pieces_read(struct pieces *p, const void *data, size_t size, struct err *err) {
    static const unsigned char unknown[] = " \xE2\x81\x87 "; /* U+2047 */
    struct bytes all = {data, size};
    size_t n, n_text;
    *p = (struct pieces){.type = TOKENIZER_UNIGRAM,
                         .unk_surface = {unknown, sizeof unknown - 1},
                         .norm = {{0}, true, true, true},
                         .denorm = {{0}, true, true, true}};
    if (!count_pieces(all, &n, &n_text)) return malformed(err);
    if (n > TOKENIZER_MAX_SIZE)
        return err_set(err, HEED_ELIMIT, "more than %d pieces", TOKENIZER_MAX_SIZE);
    p->piece = xmalloc_dense(n * sizeof *p->piece + n_text);
    int rc = read_fields(p, (char *)(p->piece + n), all, err);
    if (rc) pieces_release(p);
    return rc;
}

void pieces_release(struct pieces *p) {
    xfree(p->piece);
    *p = (struct pieces){0};
}
