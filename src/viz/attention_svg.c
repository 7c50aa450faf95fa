/* attention_svg.c — attention as one vector picture; see attention.h.
 *
 * Lines of one head and one shade are one path, so that a picture of 200 tokens and 8 heads is some
 * hundred paths. What a viewer could not see is left out: lines below LEAST, except a query's
 * strongest.
 *
 * Heat maps are small images (PNG, 16 shades of one colour by transparency, so that they suit a
 * light and a dark page alike); a rectangle per cell would be a million of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "viz/attention.h"
#include "viz/base64.h"
#include "viz/label.h"

enum { SHADES = 20, MARGIN = 28, HEAD_HEIGHT = 118, FOOT_HEIGHT = 44, CELL_WIDTH = 8 };
#define LEAST 0.02f

const char *attention_kind_name(enum attention_kind kind) {
    static const char *const name[] = {"encoder self-attention", "decoder self-attention",
                                       "cross-attention"};
    return name[kind];
}

/* Told apart on light and dark ground; more heads than this take hues between. */
static void head_colour(unsigned char rgb[3], int head, int n_head) {
    static const unsigned char fixed[8][3] = {{66, 133, 214}, {230, 120, 20}, {46, 160, 90},
                                              {212, 64, 84},  {140, 98, 212}, {20, 164, 176},
                                              {206, 84, 168}, {168, 140, 16}};
    if (n_head <= 8) {
        memcpy(rgb, fixed[head], 3);
        return;
    }
    double hue = 6.0 * head / n_head;
    for (int k = 0; k < 3; k++) {
        double d = fabs(fmod(hue + 6 - 2 * k, 6) - 3);
        double x = d - 1;
        rgb[k] = (unsigned char)(50 + 170 * (x < 0 ? 0 : x > 1 ? 1 : x));
    }
}

static void begin(struct file_writer *w, int width, int height, const struct attention *a,
                  const char *subtitle) {
    char label[LABEL_SIZE];
    file_writer_printf(
        w,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
        "font-family='system-ui,\"Noto Sans\",sans-serif'>\n"
        "<style>.bg{fill:#fff}text{fill:#1c2430}.s{fill:#667080}.f{fill:none;stroke:#667080;"
        "stroke-opacity:.35}.i{image-rendering:optimizeSpeed;image-rendering:pixelated}"
        "@media(prefers-color-scheme:dark){.bg{fill:#14181f}text{fill:#e6e9ee}.s{fill:#98a2b3}}"
        "</style>\n<rect class='bg' width='100%%' height='100%%'/>\n"
        "<text x='%d' y='36' font-size='18' font-weight='600'>",
        width, height, width, height, MARGIN);
    int room = (width - 2 * MARGIN) / 10; /* characters that fit */
    label_make(label, a->title, room < LABEL_TITLE ? room : LABEL_TITLE);
    label_xml(w, label);
    file_writer_printf(w, "</text>\n<text class='s' x='%d' y='58' font-size='13'>%s</text>\n",
                       MARGIN, subtitle);
}

static void end(struct file_writer *w, int height, const char *note) {
    file_writer_printf(w, "<text class='s' x='%d' y='%d' font-size='11.5'>%s</text>\n</svg>\n",
                       MARGIN, height - 18, note);
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct column {
    double x, top, step;
};

static double row_at(const struct column *c, int i) { return c->top + (i + 0.5) * c->step; }

/* Character cells of the longest label. */
static int widest(const char *const *token, int n) {
    int most = 8;
    for (int i = 0; i < n; i++) {
        char label[LABEL_SIZE];
        most = max_int(most, label_make(label, token[i], LABEL_TOKEN));
    }
    return most;
}

static void draw_tokens(struct file_writer *w, const struct column *c, const char *const *token,
                        int n, const char *anchor, double shift, double size) {
    file_writer_printf(w, "<g font-size='%.1f' text-anchor='%s'>\n", size, anchor);
    for (int i = 0; i < n; i++) {
        char label[LABEL_SIZE];
        label_make(label, token[i], LABEL_TOKEN);
        file_writer_printf(w, "<text x='%.1f' y='%.1f'>", c->x + shift, row_at(c, i) + 0.35 * size);
        label_xml(w, label);
        file_writer_printf(w, "</text>\n");
    }
    file_writer_printf(w, "</g>\n");
}

static int strongest(const float *p, int n) {
    int best = 0;
    for (int j = 1; j < n; j++)
        if (p[j] > p[best]) best = j;
    return best;
}

/* 0: not shown; else 1 .. SHADES, the shade of a line. */
static int shade_of(const float *row, int j, int best) {
    float p = row[j];
    if (p < LEAST && j != best) return 0;
    int shade = (int)(p * SHADES + 0.5f);
    return shade < 1 ? 1 : shade > SHADES ? SHADES : shade;
}

/* The lines of one head, shade by shade. */
static void draw_head(struct file_writer *w, const struct attention_set *s, const float *probs,
                      const struct column *q, const struct column *k) {
    double bend = 0.45 * (k->x - q->x);
    for (int shade = 1; shade <= SHADES; shade++) {
        int any = 0;
        for (int i = 0; i < s->n_query; i++) {
            const float *row = probs + (size_t)i * (size_t)s->n_key;
            int best = strongest(row, s->n_key);
            for (int j = 0; j < s->n_key; j++) {
                if (shade_of(row, j, best) != shade) continue;
                if (!any++)
                    file_writer_printf(w, "<path stroke-opacity='%.2f' d='",
                                       (double)shade / SHADES);
                double y = row_at(q, i), z = row_at(k, j);
                file_writer_printf(w, "M%.0f %.1fC%.0f %.1f %.0f %.1f %.0f %.1f", q->x, y,
                                   q->x + bend, y, k->x - bend, z, k->x, z);
            }
        }
        if (any) file_writer_printf(w, "'/>\n");
    }
}

static void draw_legend(struct file_writer *w, const struct attention *a) {
    for (int h = 0; h < a->n_head; h++) {
        unsigned char rgb[3];
        int x = MARGIN + h % 16 * 34, y = 70 + h / 16 * 16;
        head_colour(rgb, a->first_head - 1 + h, max_int(a->n_head, a->first_head));
        file_writer_printf(
            w,
            "<rect x='%d' y='%d' width='12' height='12' rx='3' fill='#%02x%02x%02x'/>"
            "<text class='s' x='%d' y='%d' font-size='11.5'>%d</text>\n",
            x, y, rgb[0], rgb[1], rgb[2], x + 15, y + 10, a->first_head + h);
    }
}

static const char *query_name(enum attention_kind kind) {
    return kind == ATTENTION_ENC ? "source token" : "token being written";
}
static const char *key_name(enum attention_kind kind) {
    return kind == ATTENTION_DEC ? "looks at what is written" : "looks at the source";
}

static void svg_lines(struct file_writer *w, const struct attention *a, enum attention_kind kind) {
    const struct attention_set *s = &a->set[kind];
    char subtitle[160];
    int rows = max_int(s->n_query, s->n_key), legend = (a->n_head + 15) / 16;
    double step = rows > 120 ? 14 : rows > 60 ? 17 : 22, size = step * 0.62;
    int left = MARGIN + (int)(widest(s->query, s->n_query) * size * 0.62) + 14;
    int right = MARGIN + (int)(widest(s->key, s->n_key) * size * 0.62) + 14;
    int gap = rows > 60 ? 420 : 300, top = HEAD_HEIGHT + (legend - 1) * 16;
    int width = max_int(left + gap + right, 620), height = top + (int)(rows * step) + FOOT_HEIGHT;
    double tall = rows * step;
    struct column q = {left, top, tall / s->n_query};
    struct column k = {width - right, top, tall / s->n_key};
    if (a->n_head > 1)
        snprintf(subtitle, sizeof subtitle, "%s, layer %d, heads %d to %d",
                 attention_kind_name(kind), s->first_layer, a->first_head,
                 a->first_head + a->n_head - 1);
    else
        snprintf(subtitle, sizeof subtitle, "%s, layer %d, head %d", attention_kind_name(kind),
                 s->first_layer, a->first_head);
    begin(w, width, height, a, subtitle);
    draw_legend(w, a);
    file_writer_printf(w,
                       "<g class='s' font-size='11.5'><text class='s' x='%d' y='%d' "
                       "text-anchor='end'>%s</text><text class='s' x='%.0f' y='%d'>%s</text></g>\n",
                       max_int(left - 8, MARGIN + 110), top - 8, query_name(kind),
                       k.x + 8 < width - 150 ? k.x + 8 : width - 150.0, top - 8, key_name(kind));
    for (int h = 0; h < a->n_head; h++) {
        unsigned char rgb[3];
        head_colour(rgb, a->first_head - 1 + h, max_int(a->n_head, a->first_head));
        file_writer_printf(
            w, "<g fill='none' stroke-width='%.1f' stroke='#%02x%02x%02x'><title>head %d</title>\n",
            rows > 60 ? 1.4 : 2.2, rgb[0], rgb[1], rgb[2], a->first_head + h);
        draw_head(w, s, s->probs[0] + (size_t)h * (size_t)s->n_query * (size_t)s->n_key, &q, &k);
        file_writer_printf(w, "</g>\n");
    }
    draw_tokens(w, &q, s->query, s->n_query, "end", -8, size);
    draw_tokens(w, &k, s->key, s->n_key, "start", 8, size);
    end(w, height,
        "A line is as opaque as the attention is strong. Below 2 % only a token's strongest is "
        "drawn.");
}

/* ---- heat maps ------------------------------------------------------------------------------- */

static void chunk_write(struct base64 *b, const char *type, const unsigned char *data,
                        uint32_t size) {
    unsigned char word[8] = {(unsigned char)(size >> 24), (unsigned char)(size >> 16),
                             (unsigned char)(size >> 8), (unsigned char)size};
    memcpy(word + 4, type, 4);
    uLong crc = crc32(crc32(0, word + 4, 4), data, size);
    if (!size) crc = crc32(0, word + 4, 4); /* zlib takes no data as a new beginning */
    unsigned char tail[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                             (unsigned char)(crc >> 8), (unsigned char)crc};
    base64_write(b, word, sizeof word);
    base64_write(b, data, size);
    base64_write(b, tail, sizeof tail);
}

/* 16 shades of a colour, 4 bits a cell: shade 15 sqrt(p), since most of what is to be seen is
 * small. */
static void png_write(struct base64 *b, const float *p, int n_row, int n_col,
                      const unsigned char rgb[3]) {
    static const unsigned char magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char head[13] = {0}, palette[48], alpha[16];
    for (int i = 0; i < 4; i++) {
        head[i] = (unsigned char)((unsigned)n_col >> (24 - 8 * i));
        head[4 + i] = (unsigned char)((unsigned)n_row >> (24 - 8 * i));
    }
    head[8] = 4; /* bits */
    head[9] = 3; /* palette */
    for (int i = 0; i < 16; i++) {
        memcpy(palette + 3 * i, rgb, 3);
        alpha[i] = (unsigned char)(17 * i);
    }
    size_t line = 1 + ((size_t)n_col + 1) / 2, size = line * (size_t)n_row;
    unsigned char *raw = xcalloc(size, 1);
    for (int i = 0; i < n_row; i++)
        for (int j = 0; j < n_col; j++) {
            unsigned v = (unsigned)(15 * sqrtf(p[(size_t)i * (size_t)n_col + (size_t)j]) + 0.5f);
            raw[(size_t)i * line + 1 + (size_t)j / 2] |=
                (unsigned char)((v > 15 ? 15 : v) << (j % 2 ? 0 : 4));
        }
    uLongf packed_size = compressBound(size);
    unsigned char *packed = xmalloc(packed_size);
    BUG_ON(compress2(packed, &packed_size, raw, size, 9) != Z_OK); /* there is always room */
    base64_write(b, magic, sizeof magic);
    chunk_write(b, "IHDR", head, sizeof head);
    chunk_write(b, "PLTE", palette, sizeof palette);
    chunk_write(b, "tRNS", alpha, sizeof alpha);
    chunk_write(b, "IDAT", packed, (uint32_t)packed_size);
    chunk_write(b, "IEND", NULL, 0);
    base64_end(b);
    xfree(packed);
    xfree(raw);
}

static void draw_map(struct file_writer *w, const struct attention_set *s, const float *probs,
                     const unsigned char rgb[3], double x, double y, double width, double height) {
    file_writer_printf(w,
                       "<image class='i' x='%.1f' y='%.1f' width='%.1f' height='%.1f' "
                       "preserveAspectRatio='none' href='data:image/png;base64,",
                       x, y, width, height);
    struct base64 b = {.w = w};
    png_write(&b, probs, s->n_query, s->n_key, rgb);
    file_writer_printf(w, "'/><rect class='f' x='%.1f' y='%.1f' width='%.1f' height='%.1f'/>\n", x,
                       y, width, height);
}

static void svg_grid(struct file_writer *w, const struct attention *a, enum attention_kind kind) {
    const struct attention_set *s = &a->set[kind];
    char subtitle[160];
    double cell = a->n_head > 8 ? 96 : 128, ratio = (double)s->n_query / s->n_key;
    double cell_w = ratio > 1 ? cell / ratio : cell, cell_h = ratio > 1 ? cell : cell * ratio;
    if (cell_w < cell / 3) cell_w = cell / 3;
    if (cell_h < cell / 3) cell_h = cell / 3;
    int left = MARGIN + 56, gap = 12, top = 106;
    int width = max_int((int)(left + a->n_head * (cell_w + gap)) + MARGIN, 620);
    int height = (int)(top + s->n_layer * (cell_h + gap)) + FOOT_HEIGHT;
    snprintf(subtitle, sizeof subtitle, "%s, every layer and head", attention_kind_name(kind));
    begin(w, width, height, a, subtitle);
    for (int h = 0; h < a->n_head; h++)
        file_writer_printf(
            w,
            "<text class='s' x='%.1f' y='%d' font-size='12' text-anchor='middle'>head %d</text>\n",
            left + h * (cell_w + gap) + cell_w / 2, top - 10, a->first_head + h);
    for (int l = 0; l < s->n_layer; l++) {
        double y = top + l * (cell_h + gap);
        file_writer_printf(w, "<text class='s' x='%d' y='%.1f' font-size='12'>layer %d</text>\n",
                           MARGIN, y + cell_h / 2 + 4, s->first_layer + l);
        for (int h = 0; h < a->n_head; h++) {
            unsigned char rgb[3];
            head_colour(rgb, a->first_head - 1 + h, max_int(a->n_head, a->first_head));
            draw_map(w, s, s->probs[l] + (size_t)h * (size_t)s->n_query * (size_t)s->n_key, rgb,
                     left + h * (cell_w + gap), y, cell_w, cell_h);
        }
    }
    snprintf(subtitle, sizeof subtitle,
             "Row: %s. Column: %s. The shade is the square root of the probability.",
             query_name(kind), kind == ATTENTION_DEC ? "token written before" : "source token");
    end(w, height, subtitle);
}

void attention_svg(struct file_writer *w, const struct attention *a, enum attention_kind kind) {
    if (a->set[kind].n_layer > 1)
        svg_grid(w, a, kind);
    else
        svg_lines(w, a, kind);
}
