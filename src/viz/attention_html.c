/* attention_html.c — the page to explore attention with; see attention.h.
 *
 * The page itself is attention.html, put into the program as it is: markup, style and script, with
 * one place for data. The data are one JSON object, whose "data" is, in base64, a zlib stream of
 * one byte per probability: round(255 sqrt(p)), kind by kind, layer by layer, head by head, row by
 * row. The square root keeps small probabilities apart and costs large ones at most 0.2 percentage
 * points; deflating makes a page of 200 tokens and 144 heads some megabytes. */
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "viz/attention.h"
#include "viz/base64.h"
#include "viz/label.h"

/* The file's bytes, and a NUL. */
extern const char attention_page[] __attribute__((visibility("hidden")));
__asm__(".section .rodata\n"
        "attention_page:\n"
        ".incbin \"src/viz/attention.html\"\n"
        ".byte 0\n"
        ".text\n");

#define PLACE "@DATA@"

/* ---- data ------------------------------------------------------------------------------------ */

struct deflater {
    z_stream z;
    struct base64 out;
    int failed;
};

static void deflate_bytes(struct deflater *d, unsigned char *data, size_t size, int flush) {
    unsigned char buffer[16384];
    d->z.next_in = data;
    d->z.avail_in = (uInt)size;
    do {
        d->z.next_out = buffer;
        d->z.avail_out = sizeof buffer;
        d->failed |= deflate(&d->z, flush) == Z_STREAM_ERROR;
        base64_write(&d->out, buffer, sizeof buffer - d->z.avail_out);
    } while (d->z.avail_out == 0 && !d->failed);
}

static void deflate_probs(struct deflater *d, const float *p, size_t n) {
    unsigned char buffer[4096];
    for (size_t at = 0; at < n;) {
        size_t k = 0;
        for (; k < sizeof buffer && at < n; k++, at++) {
            float v = 255 * sqrtf(p[at]) + 0.5f;
            buffer[k] = (unsigned char)(v > 255 ? 255 : v > 0 ? v : 0);
        }
        deflate_bytes(d, buffer, k, Z_NO_FLUSH);
    }
}

static void write_data(struct file_writer *w, const struct attention *a) {
    struct deflater d = {.out = {.w = w}};
    if (deflateInit(&d.z, 6) != Z_OK) {
        err_set(&w->err, HEED_ENOMEM, "out of memory compressing the page");
        return;
    }
    for (int kind = 0; kind < ATTENTION_KINDS; kind++) {
        const struct attention_set *s = &a->set[kind];
        size_t n = (size_t)a->n_head * (size_t)s->n_query * (size_t)s->n_key;
        for (int l = 0; l < s->n_layer; l++) deflate_probs(&d, s->probs[l], n);
    }
    deflate_bytes(&d, NULL, 0, Z_FINISH);
    deflateEnd(&d.z);
    base64_end(&d.out);
    BUG_ON(d.failed);
}

static void write_json(struct file_writer *w, const struct attention *a) {
    file_writer_printf(w, "{\"version\":2,");
    label_json_text(w, "source", a->source);
    file_writer_printf(w, ",");
    label_json_text(w, "target", a->target);
    file_writer_printf(w, ",\"heads\":%d,\"first_head\":%d,\"kinds\":[", a->n_head, a->first_head);
    for (int kind = 0, n = 0; kind < ATTENTION_KINDS; kind++) {
        const struct attention_set *s = &a->set[kind];
        if (!s->n_layer) continue;
        file_writer_printf(w,
                           "%s{\"kind\":\"%s\",\"name\":\"%s\",\"layers\":%d,\"first_layer\":%d,",
                           n++ ? "," : "", attention_kinds[kind], attention_kind_name(kind),
                           s->n_layer, s->first_layer);
        label_json_list(w, "query", s->query, s->n_query);
        file_writer_printf(w, ",");
        label_json_list(w, "key", s->key, s->n_key);
        file_writer_printf(w, "}\n");
    }
    file_writer_printf(w, "],\"data\":\"");
    write_data(w, a);
    file_writer_printf(w, "\"}");
}

void attention_html(struct file_writer *w, const struct attention *a) {
    const char *place = strstr(attention_page, PLACE);
    BUG_ON(!place);
    file_writer_write(w, attention_page, (size_t)(place - attention_page));
    write_json(w, a);
    file_writer_printf(w, "%s", place + strlen(PLACE));
}
