/* attention_svg.c — attention as one vector picture; see attention.h.
 *
 * Every head has a lane of its own beside the others', and less attention makes a line thinner and
 * paler, not transparent: two heads never mix into a colour that the legend lacks. Strong lines lie
 * on top of weak ones. Lines of one head and one shade are one path, so that a picture of 200
 * tokens and 8 heads is some hundred paths. What a viewer could not see is left out: lines below
 * LEAST, except a query's strongest.
 *
 * Heat maps are small images (PNG, 16 shades of one colour); a rectangle per cell would be a
 * million of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "viz/attention.h"
#include "viz/base64.h"
#include "viz/label.h"

enum { SHADES = 20, MARGIN = 28, FOOT_HEIGHT = 44, TITLE_LINE = 23 };
enum { AXIS_TOKEN = 18 }; /* characters of a token beside a heat map */
#define LEAST 0.02f

const char *const attention_kinds[] = {"enc", "dec", "cross"};

const char *attention_kind_name(enum attention_kind kind) {
    static const char *const name[] = {"encoder self-attention", "decoder self-attention",
                                       "cross-attention"};
    return name[kind];
}

/* Easy to tell apart; with more than eight heads, hues from all around the circle. */
static void head_colour(unsigned char rgb[3], const struct attention *a, int h) {
    static const unsigned char fixed[8][3] = {{66, 133, 214}, {230, 120, 20}, {46, 160, 90},
                                              {212, 64, 84},  {140, 98, 212}, {20, 164, 176},
                                              {206, 84, 168}, {168, 140, 16}};
    int head = a->first_head - 1 + h, n_head = max_int(a->n_head, a->first_head);
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

static const float *head_probs(const struct attention_set *s, int layer, int h) {
    return s->probs[layer] + (size_t)h * (size_t)s->n_query * (size_t)s->n_key;
}

/* ---- around the picture ---------------------------------------------------------------------- */

/* A sentence, wrapped at words to the picture's width. Returns its number of lines; with w NULL
 * that is all it does. */
static int sentence(struct file_writer *w, const char *text, int line, int width, int weight) {
    char label[LABEL_SIZE];
    int n = 0;
    label_make(label, text, LABEL_TITLE);
    for (char *at = label; *at; n++) {
        size_t size = label_fit(at, (width - 2 * MARGIN) / 10); /* cells of 16 pixel type, bold */
        char next = at[size];
        at[size] = 0;
        if (w) {
            file_writer_printf(w, "<text x='%d' y='%d' font-size='16' font-weight='%d'>", MARGIN,
                               36 + (line + n) * TITLE_LINE, weight);
            label_xml(w, at);
            file_writer_printf(w, "</text>\n");
        }
        at[size] = next;
        at += size;
    }
    return n;
}

/* Where the picture begins: below the sentences and the subtitle. */
static int head_height(const struct attention *a, int width) {
    int n = sentence(NULL, a->source, 0, width, 0) + sentence(NULL, a->target, 0, width, 0);
    return 44 + n * TITLE_LINE;
}

static void begin(struct file_writer *w, int width, int height, const struct attention *a,
                  const char *subtitle) {
    file_writer_printf(
        w,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
        "font-family='system-ui,\"Noto Sans\",sans-serif'>\n"
        "<style>text{fill:#1c2430}.s{fill:#5f6978}.f{fill:none;stroke:#c4cad3}"
        ".i{image-rendering:optimizeSpeed;image-rendering:pixelated}</style>\n"
        "<rect width='100%%' height='100%%' fill='#fff'/>\n",
        width, height, width, height);
    int n = sentence(w, a->source, 0, width, 600);
    sentence(w, a->target, n, width, 400);
    file_writer_printf(w, "<text class='s' x='%d' y='%d' font-size='13'>%s</text>\n", MARGIN,
                       head_height(a, width) - 10, subtitle);
}

static void end(struct file_writer *w, int height, const char *note) {
    file_writer_printf(w, "<text class='s' x='%d' y='%d' font-size='11.5'>%s</text>\n</svg>\n",
                       MARGIN, height - 18, note);
}

/* Character cells of the longest label. */
static int widest(const char *const *token, int n, int chars) {
    int most = 0;
    for (int i = 0; i < n; i++) {
        char label[LABEL_SIZE];
        most = max_int(most, label_make(label, token[i], chars));
    }
    return most;
}

/* A row of tokens beside the picture: down from (x, y), or with `slant` across, each slanted. */
struct tokens {
    const char *const *token;
    int n, chars; /* of each at most */
    double x, y, step, size;
    const char *anchor;
    int slant;
    int only; /* the one that matters, counted from 1; 0: all do */
};

static void draw_tokens(struct file_writer *w, const struct tokens *t) {
    file_writer_printf(w, "<g font-size='%.1f' text-anchor='%s'>\n", t->size, t->anchor);
    for (int i = 0; i < t->n; i++) {
        char label[LABEL_SIZE];
        double along = (i + 0.5) * t->step + 0.35 * t->size;
        double x = t->x + (t->slant ? along : 0), y = t->y + (t->slant ? 0 : along);
        label_make(label, t->token[i], t->chars);
        file_writer_printf(w, "<text x='%.1f' y='%.1f'", x, y);
        if (t->only == i + 1) file_writer_printf(w, " font-weight='700'");
        if (t->only && t->only != i + 1) file_writer_printf(w, " class='s'");
        if (t->slant) file_writer_printf(w, " transform='rotate(-60 %.1f %.1f)'", x, y);
        file_writer_printf(w, ">");
        label_xml(w, label);
        file_writer_printf(w, "</text>\n");
    }
    file_writer_printf(w, "</g>\n");
}

static const char *query_name(enum attention_kind kind) {
    return kind == ATTENTION_ENC   ? "source"
           : kind == ATTENTION_DEC ? "being written"
                                   : "translation";
}
static const char *key_name(enum attention_kind kind) {
    return kind == ATTENTION_DEC ? "written so far" : "source";
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The space between the two columns of tokens. */
struct web {
    double left, right, top, q_step, k_step;
    double lane, thick; /* distance of two heads' lines; width of the strongest */
};

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

static int is_shown(const struct attention *a, int h) { return !a->shown || a->shown[h]; }

/* How many heads are drawn, and which lane head h has among them. */
static int lane_of(const struct attention *a, int h) {
    int n = 0;
    for (int i = 0; i < h; i++) n += is_shown(a, i);
    return n;
}

/* The lines of one head and one shade. */
static void draw_shade(struct file_writer *w, const struct attention *a,
                       const struct attention_set *s, const struct web *web, int h, int shade) {
    const float *probs = head_probs(s, 0, h);
    double t = sqrt((double)shade / SHADES), bend = 0.45 * (web->right - web->left);
    double shift = (lane_of(a, h) - (lane_of(a, a->n_head) - 1) / 2.0) * web->lane;
    int any = 0;
    unsigned char c[3];
    head_colour(c, a, h);
    for (int k = 0; k < 3; k++) c[k] = (unsigned char)(255 - (255 - c[k]) * (0.14 + 0.86 * t));
    for (int i = 0; i < s->n_query; i++) {
        if (a->only && a->only - 1 != i) continue;
        const float *row = probs + (size_t)i * (size_t)s->n_key;
        int best = strongest(row, s->n_key);
        for (int j = 0; j < s->n_key; j++) {
            if (shade_of(row, j, best) != shade) continue;
            if (!any++)
                file_writer_printf(w, "<path stroke='#%02x%02x%02x' stroke-width='%.1f' d='", c[0],
                                   c[1], c[2], fmax(0.8, web->thick * t));
            double y = web->top + (i + 0.5) * web->q_step + shift;
            double z = web->top + (j + 0.5) * web->k_step + shift;
            file_writer_printf(w, "M%.0f %.1fC%.0f %.1f %.0f %.1f %.0f %.1f", web->left, y,
                               web->left + bend, y, web->right - bend, z, web->right, z);
        }
    }
    if (any) file_writer_printf(w, "'/>\n");
}

static void draw_legend(struct file_writer *w, const struct attention *a, int top) {
    file_writer_printf(w, "<text class='s' x='%d' y='%d' font-size='12'>head</text>\n", MARGIN,
                       top + 10);
    for (int h = 0; h < a->n_head; h++) {
        if (!is_shown(a, h)) continue;
        unsigned char rgb[3];
        int lane = lane_of(a, h), x = MARGIN + 38 + lane % 16 * 34, y = top + lane / 16 * 16;
        head_colour(rgb, a, h);
        file_writer_printf(
            w,
            "<g><title>head %d</title><rect x='%d' y='%d' width='12' height='12' rx='3' "
            "fill='#%02x%02x%02x'/><text x='%d' y='%d' font-size='12'>%d</text></g>\n",
            a->first_head + h, x, y, rgb[0], rgb[1], rgb[2], x + 15, y + 10, a->first_head + h);
    }
}

static void svg_lines(struct file_writer *w, const struct attention *a, enum attention_kind kind) {
    const struct attention_set *s = &a->set[kind];
    char subtitle[160], heads[40];
    int n_shown = lane_of(a, a->n_head);
    int rows = max_int(s->n_query, s->n_key);
    double step = rows > 120  ? 14
                  : rows > 60 ? 17
                  : rows > 16 ? 22
                              : 30,
           size = fmin(15, step * 0.62);
    int left =
        MARGIN + 14 + (int)(max_int(10, widest(s->query, s->n_query, LABEL_TOKEN)) * size * 0.62);
    int right =
        MARGIN + 14 + (int)(max_int(10, widest(s->key, s->n_key, LABEL_TOKEN)) * size * 0.62);
    int width = max_int(left + (rows > 60 ? 420 : 300) + right, 620);
    int head = head_height(a, width), top = head + 34 + (n_shown + 15) / 16 * 16;
    double tall = rows * step, lane = fmin(4.5, 0.62 * step / n_shown);
    struct web web = {left,
                      width - right,
                      top,
                      tall / s->n_query,
                      tall / s->n_key,
                      lane,
                      a->only       ? fmax(3, lane)
                      : n_shown > 1 ? fmax(1.2, lane)
                                    : 5};
    int height = top + (int)tall + FOOT_HEIGHT;
    int first = 0;
    while (first < a->n_head - 1 && !is_shown(a, first)) first++;
    snprintf(heads, sizeof heads,
             n_shown == 1           ? "head %d"
             : n_shown == a->n_head ? "heads %d to %d"
                                    : "some heads",
             a->first_head + first, a->first_head + a->n_head - 1);
    snprintf(subtitle, sizeof subtitle, "%s, layer %d, %s", attention_kind_name(kind),
             s->first_layer, heads);
    begin(w, width, height, a, subtitle);
    draw_legend(w, a, head + 4);
    file_writer_printf(w,
                       "<text class='s' x='%d' y='%d' font-size='12' text-anchor='end'>%s</text>"
                       "<text class='s' x='%d' y='%d' font-size='12'>%s</text>\n",
                       left - 8, top - 6, query_name(kind), width - right + 8, top - 6,
                       key_name(kind));
    file_writer_printf(w, "<g fill='none'>\n");
    for (int shade = 1; shade <= SHADES; shade++)
        for (int h = 0; h < a->n_head; h++)
            if (is_shown(a, h)) draw_shade(w, a, s, &web, h, shade);
    file_writer_printf(w, "</g>\n");
    draw_tokens(w, &(struct tokens){s->query, s->n_query, LABEL_TOKEN, left - 8, top, web.q_step,
                                    size, "end", 0, a->only});
    draw_tokens(w, &(struct tokens){s->key, s->n_key, LABEL_TOKEN, width - right + 8, top,
                                    web.k_step, size, "start", 0, 0});
    end(w, height,
        "The thicker and stronger a line, the more attention. Below 2 % only a token's strongest "
        "line is drawn.");
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

/* 16 shades of a colour, 4 bits a cell: shade 15 sqrt(p), since most probabilities are small. */
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

/* Where heat maps stand: the first one's corner, and the size of all. */
struct grid {
    double left, top, width, height, gap;
};

static void draw_map(struct file_writer *w, const struct attention *a,
                     const struct attention_set *s, const struct grid *g, int layer, int h) {
    unsigned char rgb[3];
    double x = g->left + h * (g->width + g->gap), y = g->top + layer * (g->height + g->gap);
    head_colour(rgb, a, h);
    file_writer_printf(w,
                       "<image class='i' x='%.1f' y='%.1f' width='%.1f' height='%.1f' "
                       "preserveAspectRatio='none' href='data:image/png;base64,",
                       x, y, g->width, g->height);
    struct base64 b = {.w = w};
    png_write(&b, head_probs(s, layer, h), s->n_query, s->n_key, rgb);
    file_writer_printf(w, "'/><rect class='f' x='%.1f' y='%.1f' width='%.1f' height='%.1f'/>\n", x,
                       y, g->width, g->height);
}

/* The size of a map: 12 to 16 pixels per token, so that tokens can stand beside it, or small. */
static int map_size(struct grid *g, const struct attention *a, const struct attention_set *s) {
    double step = fmin(16, fmax(12, 130.0 / s->n_key)), most = a->n_head > 8 ? 96 : 128;
    int named = max_int(s->n_query, s->n_key) <= 32;
    double ratio = (double)s->n_query / s->n_key;
    g->width = named ? step * s->n_key : fmax(most / 3, ratio > 1 ? most / ratio : most);
    g->height = named ? step * s->n_query : fmax(most / 3, ratio > 1 ? most : most * ratio);
    return named;
}

static void svg_grid(struct file_writer *w, const struct attention *a, enum attention_kind kind) {
    const struct attention_set *s = &a->set[kind];
    char text[160];
    struct grid g = {.gap = 12};
    int named = map_size(&g, a, s);
    double q_step = g.height / s->n_query, k_step = g.width / s->n_key, size = 0.7 * k_step;
    double q_room = named ? 8 + widest(s->query, s->n_query, AXIS_TOKEN) * size * 0.62 : 0;
    double k_room = named ? 10 + widest(s->key, s->n_key, AXIS_TOKEN) * size * 0.55 : 0;
    g.left = MARGIN + 56 + q_room;
    int width = max_int((int)(g.left + a->n_head * (g.width + g.gap)) + MARGIN, 620);
    g.top = head_height(a, width) + 24 + k_room;
    int height = (int)(g.top + s->n_layer * (g.height + g.gap)) + FOOT_HEIGHT;
    snprintf(text, sizeof text, "%s, every layer and head", attention_kind_name(kind));
    begin(w, width, height, a, text);
    for (int h = 0; h < a->n_head; h++) {
        double x = g.left + h * (g.width + g.gap);
        file_writer_printf(w,
                           "<text class='s' x='%.1f' y='%.1f' font-size='12' "
                           "text-anchor='middle'>head %d</text>\n",
                           x + g.width / 2, g.top - k_room - 8, a->first_head + h);
        if (named)
            draw_tokens(w, &(struct tokens){s->key, s->n_key, AXIS_TOKEN, x, g.top - 5, k_step,
                                            size, "start", 1, 0});
    }
    for (int l = 0; l < s->n_layer; l++) {
        double y = g.top + l * (g.height + g.gap);
        file_writer_printf(w, "<text class='s' x='%d' y='%.1f' font-size='12'>layer %d</text>\n",
                           MARGIN, y + g.height / 2 + 4, s->first_layer + l);
        if (named)
            draw_tokens(w, &(struct tokens){s->query, s->n_query, AXIS_TOKEN, g.left - 6, y, q_step,
                                            size, "end", 0, 0});
        for (int h = 0; h < a->n_head; h++) draw_map(w, a, s, &g, l, h);
    }
    snprintf(text, sizeof text,
             "Rows: %s. Columns: %s. The shade is the square root of the probability.",
             query_name(kind), key_name(kind));
    end(w, height, text);
}

void attention_svg(struct file_writer *w, const struct attention *a, enum attention_kind kind) {
    if (a->set[kind].n_layer > 1)
        svg_grid(w, a, kind);
    else
        svg_lines(w, a, kind);
}
