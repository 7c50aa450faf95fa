/* differ.c — see library.h. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/spm.h"
#include "library.h"

const char *differ_file(const struct spm *spm, const struct sp *sp) {
    const struct pieces *p = spm_pieces(spm);
    if (p->n != sp_size(sp)) return "the number of pieces";
    if (spm_unk(spm) != sp_unk(sp)) return "the unknown piece";
    if (spm_bos(spm) != sp_bos(sp)) return "the beginning";
    if (spm_eos(spm) != sp_eos(sp)) return "the end";
    for (int i = 0; i < p->n; i++) {
        const char *text = p->piece[i].text;
        if (strcmp(text, sp_piece(sp, i)) != 0) return "a piece's text";
        if (spm_find(spm, text, strlen(text)) != sp_find(sp, text)) return "which piece it is";
        if ((p->piece[i].kind == PIECE_CONTROL) != !!sp_is_control(sp, i)) return "what is control";
    }
    return NULL;
}

/* Room for what both make of something. */
struct room {
    int cap;
    size_t n_text;
    int32_t *ids[2];
    struct span *span[2];
    char *text[2];
};

static void room_make(struct room *r, int cap, size_t n_text) {
    *r = (struct room){.cap = cap, .n_text = n_text};
    for (int k = 0; k < 2; k++) {
        r->ids[k] = xmalloc((size_t)cap * sizeof *r->ids[k]);
        r->span[k] = xmalloc((size_t)cap * sizeof *r->span[k]);
        r->text[k] = xmalloc(n_text);
    }
}

static void room_release(struct room *r) {
    for (int k = 0; k < 2; k++) {
        xfree(r->ids[k]);
        xfree(r->span[k]);
        xfree(r->text[k]);
    }
}

static const char *compare_decoded(struct room *r, int size, int want, int n) {
    if (size != want) return "the size of decoded text";
    if (size < 0) return NULL;
    size_t seen = (size_t)size < r->n_text ? (size_t)size + 1 : 0;
    if (memcmp(r->text[0], r->text[1], seen) != 0) return "decoded text";
    if (memcmp(r->span[0], r->span[1], (size_t)n * sizeof **r->span) != 0) return "spans of text";
    return NULL;
}

static const char *decode_ids(struct room *r, const struct spm *spm, const struct sp *sp,
                              const int32_t *ids, int n) {
    int size = spm_decode(spm, ids, n, r->text[0], r->n_text, r->span[0]);
    int want = sp_decode(sp, ids, n, r->text[1], r->n_text, r->span[1]);
    return compare_decoded(r, size, want, n);
}

const char *differ_ids(const struct spm *spm, const struct sp *sp, const int32_t *ids, int n) {
    struct room r;
    room_make(&r, n + 1, 64 * (size_t)n + 1024);
    const char *what = decode_ids(&r, spm, sp, ids, n);
    room_release(&r);
    return what;
}

const char *differ_text(const struct spm *spm, const struct sp *sp, const char *text, size_t size) {
    struct room r;
    const char *what = NULL;
    room_make(&r, (int)(12 * size + 64), 64 * size + 1024);
    struct spm_out plain = {.ids = r.ids[0], .cap = r.cap};
    int n = spm_encode(spm, text, size, &plain);
    int want = sp_encode(sp, text, size, r.ids[1], r.span[1], r.cap);
    int some = n < r.cap ? n : r.cap;
    if (n != want)
        what = "how many ids";
    else if (n > 0 && memcmp(r.ids[0], r.ids[1], (size_t)some * sizeof **r.ids) != 0)
        what = "ids";
    struct spm_out spans = {.ids = r.ids[0], .span = r.span[0], .cap = r.cap};
    if (!what && spm_encode(spm, text, size, &spans) != n) what = "ids with spans";
    if (!what && n > 0 && memcmp(r.ids[0], r.ids[1], (size_t)some * sizeof **r.ids) != 0)
        what = "ids with spans";
    if (!what && n > 0 && memcmp(r.span[0], r.span[1], (size_t)some * sizeof **r.span) != 0)
        what = "spans";
    if (!what && n > 0) what = decode_ids(&r, spm, sp, r.ids[1], some);
    room_release(&r);
    return what;
}
