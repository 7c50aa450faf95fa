/* spm_decode.c — see spm.h: pieces to text. */
#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "data/spm_model.h"

/* A text that is being put together. */
struct text {
    const struct spm *spm;
    char *at; /* long enough */
    size_t size;
    bool before;    /* nothing came yet, so that a space would be the one that was added */
    bool had_space; /* the last piece brought that space */
};

static void add(struct text *t, const char *text, size_t size, struct span *span) {
    if (span) *span = (struct span){(int)t->size, (int)(t->size + size)};
    memcpy(t->at + t->size, text, size);
    t->size += size;
}

/* A piece with its marks as spaces. */
static void add_spaced(struct text *t, const char *text, size_t size, struct span *span) {
    size_t begin = t->size;
    for (size_t i = 0; i < size;) {
        bool space = size - i >= SPM_SPACE && memcmp(text + i, spm_space, SPM_SPACE) == 0;
        t->at[t->size++] = space ? ' ' : text[i];
        i += space ? SPM_SPACE : 1;
    }
    if (span) *span = (struct span){(int)begin, (int)t->size};
}

static void add_piece(struct text *t, int id, const char *text, size_t size, struct span *span) {
    const struct pieces *p = &t->spm->pieces;
    const struct piece *piece = &p->piece[id];
    bool had_space = t->had_space;
    t->had_space = false;
    if (had_space || t->size) t->before = false;
    if (piece->kind == PIECE_CONTROL) {
        add(t, "", 0, span);
    } else if (piece->kind == PIECE_UNKNOWN) {
        const char *surface = (const char *)p->unk_surface.at;
        if (piece->size == size && memcmp(piece->text, text, size) == 0)
            add(t, surface, strnlen(surface, p->unk_surface.size), span);
        else
            add(t, text, size, span);
    } else {
        if (t->before && (p->norm.space_first || p->norm.single_spaces) && size >= SPM_SPACE &&
            memcmp(text, spm_space, SPM_SPACE) == 0) {
            text += SPM_SPACE;
            size -= SPM_SPACE;
            t->had_space = !p->norm.single_spaces; /* else all at the beginning go */
        }
        add_spaced(t, text, size, span);
    }
}

/* n bytes that came one by one. A character's span is its last byte's. */
static void add_bytes(struct text *t, const char *bytes, int n, struct span *span) {
    for (int i = 0, length; i < n; i += length) {
        uint32_t code;
        length = utf8_decode(&code, bytes + i, (size_t)(n - i));
        for (int k = 0; k < length - 1; k++) add(t, "", 0, span ? span + i + k : NULL);
        if (length > 0) {
            add(t, bytes + i, (size_t)length, span ? span + i + length - 1 : NULL);
        } else {
            length = 1;
            add(t, UTF8_REPLACEMENT, sizeof UTF8_REPLACEMENT - 1, span ? span + i : NULL);
        }
    }
}

/* Which pieces: by id, or by spelling. */
struct given {
    const int32_t *ids;
    const char *const *text;
    int n;
};

static int given_piece(const struct spm *s, const struct given *g, int i, const char **text,
                       size_t *size) {
    if (!g->ids) {
        *text = g->text[i];
        *size = strlen(*text);
        return spm_id_of(s, *text, *size);
    }
    const struct piece *p = &s->pieces.piece[g->ids[i]];
    *text = p->text;
    *size = p->size;
    return s->ambiguous ? spm_id_of(s, *text, *size) : g->ids[i];
}

/* The most bytes the text can have. */
static size_t most_bytes(const struct spm *s, const struct given *g) {
    size_t most = 1, size;
    const char *text;
    for (int i = 0; i < g->n; i++) {
        bool unknown = s->pieces.piece[given_piece(s, g, i, &text, &size)].kind == PIECE_UNKNOWN;
        most += size + (unknown ? s->pieces.unk_surface.size : sizeof UTF8_REPLACEMENT);
    }
    return most;
}

static void add_all(struct text *t, const struct given *g, char *bytes, struct span *span) {
    const struct spm *s = t->spm;
    int n_byte = 0;
    for (int i = 0; i <= g->n; i++) {
        const char *text;
        size_t size;
        int id = i < g->n ? given_piece(s, g, i, &text, &size) : -1;
        if (id >= 0 && s->pieces.piece[id].kind == PIECE_BYTE) {
            unsigned b = 0;
            while (s->byte_id[b] != id) b++;
            bytes[n_byte++] = (char)b;
            continue;
        }
        add_bytes(t, bytes, n_byte, span ? span + i - n_byte : NULL);
        n_byte = 0;
        if (id >= 0) add_piece(t, id, text, size, span ? span + i : NULL);
    }
}

/* Text of pieces in t->at, which is to be freed. */
static int put_together(struct text *t, const struct spm *s, const struct given *g,
                        struct span *span) {
    size_t most = most_bytes(s, g);
    *t = (struct text){.spm = s, .before = true};
    if (most > INT_MAX) return HEED_ELIMIT;
    t->at = mem_block(most + (size_t)g->n); /* and what bytes are collected in */
    if (!t->at) return HEED_ENOMEM;
    add_all(t, g, t->at + most, span);
    if (!s->pieces.denorm.rules.size) return 0;
    struct normal made = {0};
    int rc = rules_apply(&s->derules, &made, t->at, t->size);
    mem_block_free(t->at);
    t->at = made.text; /* spans are those of before: the library does not follow them either */
    t->size = made.size;
    return rc;
}

/* The text if it fits; its size. Frees it. */
static int put_text(struct text *t, int rc, char *out, size_t cap) {
    if (!rc && t->size < cap) {
        memcpy(out, t->at, t->size);
        out[t->size] = 0;
    }
    mem_block_free(t->at);
    return rc ? rc : (int)t->size;
}

int spm_decode(const struct spm *s, const int32_t *ids, int n, char *out, size_t cap,
               struct span *span) {
    struct given given = {.ids = ids, .n = n};
    struct text t;
    int rc = put_together(&t, s, &given, span);
    return put_text(&t, rc, out, cap);
}

/* The library leaves pieces that it does not know as they are. Here their marks become spaces, too;
 * one before the first word belongs to the piece, not to the text. */
int spm_decode_pieces(const struct spm *s, const char *const *piece, int n, char *out, size_t cap,
                      struct span *span) {
    struct given given = {.text = piece, .n = n};
    struct text was, now;
    int rc = put_together(&was, s, &given, span), i = 0;
    if (rc) return put_text(&was, rc, out, cap);
    now = (struct text){.at = was.at};
    int *place = xmalloc((was.size + 1) * sizeof *place); /* where each byte has gone */
    for (size_t at = 0; at < was.size;) {
        size_t left = was.size - at, length = 1;
        if (left >= SPM_SPACE && memcmp(was.at + at, spm_space, SPM_SPACE) == 0) length = SPM_SPACE;
        for (size_t k = 0; k < length; k++) place[at + k] = (int)now.size;
        if (length == 1)
            now.at[now.size++] = was.at[at];
        else if (now.size)
            now.at[now.size++] = ' ';
        at += length;
    }
    place[was.size] = (int)now.size;
    for (; i < n && span; i++) span[i] = (struct span){place[span[i].begin], place[span[i].end]};
    xfree(place);
    return put_text(&now, 0, out, cap);
}
