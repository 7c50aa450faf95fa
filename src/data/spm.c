/* spm.c — see spm.h: opening. */
#include "data/spm.h"

#include <float.h>
#include <string.h>

#include "base/mem.h"
#include "data/sentencepiece.h"
#include "data/spm_model.h"

enum { MAX_USER_PREFIXES = 64 }; /* as many as the library looks at */

static bool is_text(const struct piece *p) {
    return p->kind == PIECE_NORMAL || p->kind == PIECE_USER_DEFINED || p->kind == PIECE_UNUSED;
}

/* Whether a space mark follows another character in it. */
static bool joins_words(const struct piece *p) {
    const char *at = p->text;
    while (strncmp(at, spm_space, SPM_SPACE) == 0) at += SPM_SPACE;
    return strstr(at, spm_space) != NULL;
}

static int hex(char c) {
    const char *digits = "0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* A byte's piece is "<0xFF>". */
static int enter_byte(struct spm *s, int id, struct err *err) {
    const char *text = s->pieces.piece[id].text;
    if (!s->pieces.byte_fallback)
        return err_set(err, HEED_EFORMAT, "%.60s is a piece of a byte, which the file does not use",
                       text);
    int high = strlen(text) == 6 && !memcmp(text, "<0x", 3) && text[5] == '>' ? hex(text[3]) : -1;
    int low = high >= 0 ? hex(text[4]) : -1;
    if (low < 0) return err_set(err, HEED_EFORMAT, "%.60s is no piece of a byte", text);
    s->byte_id[16 * high + low] = id;
    return 0;
}

static struct piecemap *map_of(struct spm *s, int id) {
    return is_text(&s->pieces.piece[id]) ? &s->text : &s->reserved;
}

static int enter_piece(struct spm *s, int id, const struct piecemap_way *way, struct err *err) {
    const struct piece *p = &s->pieces.piece[id];
    if (piecemap_add(map_of(s, id), id, way) >= 0)
        return err_set(err, HEED_EFORMAT, "%.60s is already defined", p->text);
    switch (p->kind) {
    case PIECE_NORMAL:
        if (p->score < s->least) s->least = p->score;
        if (s->most < p->score) s->most = p->score;
        break;
    case PIECE_UNKNOWN:
        if (s->unk >= 0) return err_set(err, HEED_EFORMAT, "unk is already defined");
        s->unk = id;
        break;
    case PIECE_USER_DEFINED:
        s->has_user = true;
        trie_add(&s->user, p->text, p->size);
        break;
    case PIECE_UNUSED:
        s->has_unused = true;
        break;
    case PIECE_BYTE:
        return enter_byte(s, id, err);
    case PIECE_CONTROL:
        break;
    }
    return 0;
}

/* Some are always on their way: tables are larger than what is near the processor. */
static int enter_all(struct spm *s, struct err *err) {
    enum { AHEAD = 8 };
    struct piecemap_way way[AHEAD];
    int rc = 0, n = s->pieces.n;
    for (int i = 0; i < n + AHEAD && !rc; i++) {
        struct piecemap_way *w = &way[i % AHEAD];
        if (i >= AHEAD) rc = enter_piece(s, i - AHEAD, w, err);
        if (i < n) piecemap_approach(map_of(s, i), i, w);
    }
    return rc;
}

static int enter_pieces(struct spm *s, struct err *err) {
    const struct pieces *p = &s->pieces;
    int rc = enter_all(s, err), n_text = 0, n_prefix;
    if (rc) return rc;
    for (int i = 0; i < p->n; i++) {
        const struct piece *piece = &p->piece[i];
        n_text += is_text(piece);
        if (is_text(piece))
            s->joins_words = s->joins_words || (p->type == TOKENIZER_BPE && joins_words(piece));
        else
            s->ambiguous |= piecemap_find(&s->text, piece->text, piece->size) >= 0;
        if (piece->kind != PIECE_USER_DEFINED) continue;
        trie_prefix(&s->user, piece->text, piece->size, &n_prefix);
        if (n_prefix > MAX_USER_PREFIXES)
            return err_set(err, HEED_EFORMAT, "more than %d user-defined pieces begin alike",
                           MAX_USER_PREFIXES);
    }
    if (s->unk < 0) return err_set(err, HEED_EFORMAT, "unk is not defined");
    for (int b = 0; b < 256 && p->byte_fallback; b++)
        if (s->byte_id[b] < 0)
            return err_set(err, HEED_EFORMAT, "there is no piece for byte 0x%02X", (unsigned)b);
    if (n_text == 0 && p->type == TOKENIZER_UNIGRAM)
        return err_set(err, HEED_EFORMAT, "no piece stands for text");
    return 0;
}

/* A mark by its spelling, if it is there and is a mark. */
static int mark_of(const struct spm *s, struct bytes given, const char *usual) {
    const char *name = given.size ? (const char *)given.at : usual;
    int id = spm_id_of(s, name, given.size ? strnlen(name, given.size) : strlen(usual));
    return s->pieces.piece[id].kind == PIECE_CONTROL ? id : -1;
}

static int open_pieces(struct spm *s, struct err *err) {
    const struct pieces *p = &s->pieces;
    piecemap_init(&s->text, p->piece, (size_t)p->n, p->type == TOKENIZER_UNIGRAM);
    piecemap_init(&s->reserved, p->piece, 0, false);
    trie_init(&s->user);
    memset(s->byte_id, 0xFF, sizeof s->byte_id);
    s->unk = -1;
    s->least = FLT_MAX;
    s->most = FLT_MIN;
    int rc = enter_pieces(s, err);
    if (rc) return rc;
    s->bos = mark_of(s, p->bos, "<s>");
    s->eos = mark_of(s, p->eos, "</s>");
    rc = rules_init(&s->rules, &p->norm, p->space_last, s->has_user ? &s->user : NULL, err);
    return rc ? rc : rules_init(&s->derules, &p->denorm, false, NULL, err);
}

int spm_open(struct spm **spm, const void *data, size_t size, struct err *err) {
    struct spm *s = xcalloc(1, sizeof *s);
    int rc = pieces_read(&s->pieces, data, size, err);
    if (!rc) rc = open_pieces(s, err);
    if (!rc && s->pieces.has_tests) rc = sp_test(data, size, err);
    if (rc) spm_free(s);
    *spm = rc ? NULL : s;
    return rc;
}

void spm_free(struct spm *s) {
    if (!s) return;
    pieces_release(&s->pieces);
    piecemap_release(&s->text);
    piecemap_release(&s->reserved);
    trie_release(&s->user);
    xfree(s);
}

const struct pieces *spm_pieces(const struct spm *s) { return &s->pieces; }
int spm_unk(const struct spm *s) { return s->unk; }
int spm_bos(const struct spm *s) { return s->bos; }
int spm_eos(const struct spm *s) { return s->eos; }

int spm_find(const struct spm *s, const char *piece, size_t size) {
    int id = piecemap_find(&s->reserved, piece, size);
    return id >= 0 ? id : piecemap_find(&s->text, piece, size);
}

int spm_id_of(const struct spm *s, const char *text, size_t size) {
    int id = spm_find(s, text, size);
    return id >= 0 ? id : s->unk;
}
