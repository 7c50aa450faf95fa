/* fuzz_tokenizer.c — any bytes are a tokenizer file: refused with a message, or it encodes and
 * decodes without harm, sensibly or not, and as the SentencePiece library does; and its
 * segmentations can be sampled, or not. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/spm.h"
#include "data/subword.h"
#include "data/tokenizer.h"
#include "library.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(int condition) {
    if (!condition) abort();
}

/* Other segmentations of n ids have the same characters. */
static void sample(const struct tokenizer *t, const int32_t *ids, int n) {
    static const struct subword_options way[] = {{0, 0}, {0.3, 0}, {1, 0}, {0, 0.1}, {0, 100}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        struct err err = {0};
        struct subword *s;
        int rc = subword_new(&s, t, &way[i], &err);
        want(rc <= 0 && !s == !!rc && !rc == !err.msg[0]);
        if (rc) continue;
        int32_t out[4096];
        struct subword_work *w = subword_work_new(s);
        int m = subword_sample(w, (struct subword_dice){1, 2}, ids, n, out, 4096), chars = 0;
        want(m >= 0 && m <= 4096);
        for (int k = 0; k < m; k++) {
            want(out[k] >= 0 && out[k] < tokenizer_size(t));
            chars += subword_chars(s, out[k]);
        }
        for (int k = 0; k < n && m; k++) chars -= subword_chars(s, ids[k]);
        want(chars == 0);
        subword_work_free(w);
        subword_free(s);
    }
}

/* What we open the library opens, and both make the same of texts. */
static void compare(const uint8_t *data, size_t size, const char *const *texts, size_t n) {
    struct err err = {0};
    struct spm *spm;
    struct sp *sp;
    want(spm_open(&spm, data, size, &err) == 0);
    want(sp_open(&sp, data, size) == 0);
    want(!differ_file(spm, sp));
    for (size_t i = 0; i < n; i++) want(!differ_text(spm, sp, texts[i], strlen(texts[i])));
    int32_t ids[64];
    for (int i = 0; i < 64; i++) ids[i] = i * 7 % spm_pieces(spm)->n;
    want(!differ_ids(spm, sp, ids, 64));
    spm_free(spm);
    sp_free(sp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const texts[] = {
        "", "bake limto sur",
        "  A \xC3\xA9\xCC\x81 \xE6\x97\xA5\xF0\x9F\x98\x80 aaaaaaaaaaaaaaaaaaaaaaaa",
        "\xFF\xC3 bad \xED\xA0\x80", "<s></s><unk>\xE2\x96\x81\xE2\x96\x81"};
    struct err err = {0};
    struct tokenizer *t;
    int rc = tokenizer_open_memory(&t, data, size, &err);
    want(rc <= 0 && !t == !!rc && !rc == !err.msg[0]);
    if (rc) return 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int32_t ids[256];
        char out[4096];
        int n = tokenizer_encode(t, texts[i], strlen(texts[i]), ids, 256);
        for (int k = 0; k < n && k < 256; k++) want(ids[k] >= 0 && ids[k] < tokenizer_size(t));
        if (n >= 0) tokenizer_decode(t, ids, n < 256 ? n : 256, out, sizeof out);
        if (n > 0) sample(t, ids, n < 256 ? n : 256);
    }
    want(tokenizer_piece(t, 0) && !tokenizer_piece(t, tokenizer_size(t)));
    want(tokenizer_unk(t) >= 0 && tokenizer_unk(t) < tokenizer_size(t));
    want(tokenizer_bos(t) < tokenizer_size(t) && tokenizer_eos(t) < tokenizer_size(t));
    tokenizer_check_ends(t, &err);
    tokenizer_free(t);
    compare(data, size, texts, sizeof texts / sizeof *texts);
    return 0;
}
