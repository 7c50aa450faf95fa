/* words.c — see words.h. The file is a protocol buffer: ModelProto { 1: pieces { 1: text, 2: score,
 * 3: type }, 2: trainer { 3: kind, 45 to 47: special pieces }, 3: normalizer { 1: name, 3 to 5:
 * spaces } }. */
#include "convert/words.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, KIND_WORD = 3 };
enum { VARINT = 0, LENGTH = 2, FIXED32 = 5 }; /* how a value is stored */

static void put_varint(struct buffer *b, uint64_t n) {
    for (; n > 127; n >>= 7) buffer_put(b, &(char){(char)(n | 0x80)}, 1);
    buffer_put(b, &(char){(char)n}, 1);
}

static void put_number(struct buffer *b, int field, uint64_t n) {
    put_varint(b, (uint64_t)field << 3 | VARINT);
    put_varint(b, n);
}

static void put_bytes(struct buffer *b, int field, const char *bytes, size_t size) {
    put_varint(b, (uint64_t)field << 3 | LENGTH);
    put_varint(b, size);
    buffer_put(b, bytes, size);
}

/* A message inside: what is in *part, which is emptied. */
static void put_part(struct buffer *b, int field, struct buffer *part) {
    put_bytes(b, field, part->text, part->size);
    part->size = 0;
}

static void put_piece(struct buffer *b, struct buffer *part, const char *text, int type) {
    static const char score[4] = {0};
    put_bytes(part, 1, text, strlen(text));
    put_varint(part, 2 << 3 | FIXED32);
    buffer_put(part, score, sizeof score);
    put_number(part, 3, (uint64_t)type);
    put_part(b, 1, part);
}

/* A token that stands for no text. */
static int is_mark(const char *token) {
    size_t n = strlen(token);
    return n > 2 && token[0] == '<' && token[n - 1] == '>';
}

/* Special tokens of both sides, NULL where there is none. */
struct marks {
    const char *unknown, *start, *end;
};

static void make_pieces(struct buffer *all, struct foreign *m, struct foreign_side *side,
                        const struct marks *marks) {
    struct buffer part = {0};
    const char **pieces = keep_take(&m->keep, (size_t)side->n_token * sizeof *pieces);
    for (int i = 0; i < side->n_token; i++) {
        const char *token = side->token[i];
        int type = strcmp(token, marks->unknown) == 0                 ? UNKNOWN
                   : strcmp(token, marks->end) == 0 || is_mark(token) ? CONTROL
                                                                      : NORMAL;
        size_t room = strlen(token) + 4;
        char *piece = keep_take(&m->keep, room);
        snprintf(piece, room, "%s%s", type == NORMAL ? "\xE2\x96\x81" : "", token);
        put_piece(all, &part, piece, type);
        pieces[i] = piece;
    }
    side->token = pieces;
    xfree(part.text);
}

static void make_tokenizer(struct foreign *m, struct foreign_side *side,
                           const struct marks *marks) {
    struct buffer all = {0}, part = {0};
    make_pieces(&all, m, side, marks);
    put_number(&part, 3, KIND_WORD);
    put_bytes(&part, 45, marks->unknown, strlen(marks->unknown));
    if (marks->start) put_bytes(&part, 46, marks->start, strlen(marks->start));
    put_bytes(&part, 47, marks->end, strlen(marks->end));
    put_part(&all, 2, &part);
    put_bytes(&part, 1, "identity", 8);
    for (int field = 3; field <= 5; field++) put_number(&part, field, 1);
    put_part(&all, 3, &part);
    side->tokenizer = keep_text(&m->keep, all.text, all.size);
    side->tokenizer_size = all.size;
    xfree(all.text);
    xfree(part.text);
}

/* U+2581 is a space to SentencePiece, wherever it stands. */
static int check(const struct foreign_side *side, struct err *err) {
    for (int i = 0; i < side->n_token; i++)
        if (strstr(side->token[i], "\xE2\x96\x81"))
            return err_set(err, HEED_EFORMAT,
                           "token %d of the vocabulary, '%.40s', is a piece of SentencePiece; give "
                           "the SentencePiece file",
                           i, side->token[i]);
    return 0;
}

int words_tokenizers(struct foreign *m, struct err *err) {
    const struct foreign_side *target = m->target.token ? &m->target : &m->source;
    int rc = check(&m->source, err);
    if (!rc) rc = check(target, err);
    if (rc) return rc;
    if (!m->source.token)
        return err_set(err, HEED_EFORMAT, "%.120s: no list of tokens to make a tokenizer of",
                       m->path);
    struct marks marks = {target->token[m->unknown], m->start >= 0 ? target->token[m->start] : NULL,
                          target->token[m->end]};
    make_tokenizer(m, &m->source, &marks);
    if (m->target.token)
        make_tokenizer(m, &m->target, &marks);
    else
        m->target.tokenizer = NULL;
    return 0;
}
