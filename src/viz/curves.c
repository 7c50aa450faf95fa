/* curves.c — see curves.h. */
#include "viz/curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "viz/label.h"

enum { WIDTH = 860, LEFT = 76, RIGHT = 24, TOP = 58, GAP = 56, BOTTOM = 52, MAX_TICKS = 16 };
enum { PLOT = WIDTH - LEFT - RIGHT };

/* Easy to tell apart, also for the colour-blind (after Okabe and Ito), on a light and on a dark
 * page. A curve has the class of its colour. */
enum { COLOURS = 6 };
static const char style[] =
    ".b{fill:#fff}.g{stroke:#e4e4e4}.f{fill:none;stroke:#888}.t{font-size:12px;fill:#555}"
    ".l{font-size:13px;fill:#222}.p{font-size:14px;font-weight:600;fill:#222}"
    ".h{font-size:18px;font-weight:600;fill:#111}"
    ".c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#cc79a7}.c4{color:#e69f00}"
    ".c5{color:#666}"
    "@media(prefers-color-scheme:dark){.b{fill:#0d1117}.g{stroke:#272d36}.f{stroke:#6b7280}"
    ".t{fill:#a3acb8}.l,.p{fill:#dfe4ea}.h{fill:#f2f4f7}"
    ".c0{color:#56b4e9}.c1{color:#ff8a4c}.c2{color:#2fcf9f}.c3{color:#e79cc2}.c4{color:#f5c04d}"
    ".c5{color:#b4bac2}}";

/* A linear or logarithmic axis from low to high (exponents, when logarithmic) onto [from, to]
 * pixels. */
struct axis {
    double low, high, from, to;
    enum scale scale;
    double tick[MAX_TICKS];
    int n_tick;
};

/* ---- axes ------------------------------------------------------------------------------------ */

/* Numbers beyond these do not belong in a chart: their differences or ratios could overflow. */
#define LARGEST  1e100
#define SMALLEST 1e-100

static int shows(const struct axis *a, double v) {
    return fabs(v) < LARGEST && (!a->scale || v > SMALLEST); /* false for NaN */
}

static double place(const struct axis *a, double v) {
    double t = ((a->scale ? log10(v) : v) - a->low) / (a->high - a->low);
    return a->from + t * (a->to - a->from);
}

static void widen(struct axis *a, double v) {
    double t = a->scale ? log10(v) : v;
    if (!(a->low <= t)) a->low = t;
    if (!(a->high >= t)) a->high = t;
}

/* 1, 2 or 5 times a power of ten, so that about n of them fit. */
static double nice_step(double range, int n) {
    double raw = range / n, power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}

static void add_tick(struct axis *a, double v) {
    if (a->n_tick < MAX_TICKS) a->tick[a->n_tick++] = v;
}

/* Powers of two, as many of them as fit. */
static void log2_ticks(struct axis *a) {
    double octaves = (a->high - a->low) / log10(2);
    int step = 1 + (int)(octaves / (MAX_TICKS - 2));
    for (int e = (int)ceil(a->low / log10(2)); e <= a->high / log10(2); e += step)
        add_tick(a, exp2(e));
}

/* Powers of ten, with as many multiples between them as fit. */
static void log_ticks(struct axis *a) {
    static const double mantissa[] = {1, 2, 5, 3, 4, 7};
    double span = a->high - a->low;
    int decades = span >= 15 ? 3 : 1, parts = span > 3 ? 1 : span > 1.2 ? 3 : 6;
    int first = (int)floor(a->low), last = (int)floor(a->high);
    for (int e = first; e <= last; e += decades)
        for (int k = 0; k < parts; k++) {
            double v = mantissa[k] * pow(10, e), t = log10(v);
            if (t >= a->low - 1e-9 && t <= a->high + 1e-9) add_tick(a, v);
        }
}

/* low and high hold the data's range, or NaN if there is none; they grow to whole ticks. A linear
 * axis begins at 0 unless there is something below. */
static void finish_axis(struct axis *a, int n) {
    if (!(a->low <= a->high)) a->low = a->scale ? -1 : 0, a->high = 1;
    if (!a->scale && a->low > 0) a->low = 0;
    double magnitude = fmax(fabs(a->low), fabs(a->high));
    if (a->high - a->low <= fmax(1e-9 * magnitude, SMALLEST)) {
        double room = a->scale ? 0.5 : magnitude > SMALLEST ? 0.1 * magnitude : 1;
        if (a->scale || a->low < 0) a->low -= room;
        a->high += room;
    }
    if (a->scale) {
        double room = 0.04 * (a->high - a->low);
        a->low -= room;
        a->high += room;
        if (a->scale == SCALE_LOG2)
            log2_ticks(a);
        else
            log_ticks(a);
        if (a->n_tick >= 2) return;
        a->n_tick = 0; /* a narrow range: ticks as on a linear axis */
    }
    double low = a->scale ? pow(10, a->low) : a->low, high = a->scale ? pow(10, a->high) : a->high;
    double step = nice_step(high - low, n);
    if (!a->scale) {
        low = a->low = step * floor(low / step + 1e-9);
        high = a->high = step * ceil(high / step - 1e-9);
    }
    int count = (int)floor((high - low) / step + 1e-6) + 1;
    double first = step * ceil(low / step - 1e-9);
    for (int i = 0; i < count && i < MAX_TICKS; i++)
        if (first + i * step <= high * (1 + 1e-12) + 1e-300) add_tick(a, first + i * step);
}

/* 2e-07 as 2·10⁻⁷. */
static const char *power_text(char text[32], double v) {
    static const char *const digit[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    int e = (int)floor(log10(v) + 1e-9), size = e < 0 ? -e : e;
    double m = v / pow(10, e);
    int n = m < 1.0000001 ? 0 : snprintf(text, 32, "%.3g·", m);
    snprintf(text + n, (size_t)(32 - n), "10%s%s%s%s", e < 0 ? "⁻" : "",
             size > 99 ? digit[size / 100 % 10] : "", size > 9 ? digit[size / 10 % 10] : "",
             digit[size % 10]);
    return text;
}

/* 0.0004, 20, 5,500, 12.5M: short. Whether it is 5,000,000 or 5M depends on the whole axis, so that
 * its labels agree; on a logarithmic one very small and very large numbers are powers of ten. */
static const char *tick_text(char text[32], const struct axis *a, int i) {
    double v = a->tick[i], m = 0;
    for (int k = 0; k < a->n_tick; k++) m = fmax(m, fabs(a->tick[k]));
    if (fabs(v) < 1e-99 || (!a->scale && fabs(v) < 1e-9 * m)) return "0";
    if (a->scale == SCALE_LOG && (v < 0.99e-4 || v > 0.99e7)) return power_text(text, v);
    int millions = m >= 1e7 && !a->scale;
    if (!millions && v >= 1e3 && v < 1e15) return num_grouped(text, (uint64_t)(v + 0.5));
    snprintf(text, 32, millions ? "%.4gM" : "%.4g", millions ? v / 1e6 : v);
    return text;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_text(struct file_writer *w, const char *text, int chars) {
    char label[LABEL_SIZE];
    label_make(label, text, chars);
    label_xml(w, label);
    file_writer_printf(w, "</text>\n");
}

static void draw_grid(struct file_writer *w, const struct axis *x, const struct axis *y, int last) {
    char text[32];
    for (int i = 0; i < y->n_tick; i++) {
        double at = place(y, y->tick[i]);
        file_writer_printf(w,
                           "<line class='g' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>"
                           "<text class='t' x='%d' y='%.1f' text-anchor='end'>%s</text>\n",
                           LEFT, LEFT + PLOT, at, at, LEFT - 8, at + 4, tick_text(text, y, i));
    }
    for (int i = 0; i < x->n_tick; i++) {
        double at = place(x, x->tick[i]);
        file_writer_printf(w, "<line class='g' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>\n", at, at,
                           y->from, y->to);
        if (last)
            file_writer_printf(w,
                               "<text class='t' x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n",
                               at, y->from + 18, tick_text(text, x, i));
    }
    file_writer_printf(w, "<rect class='f' x='%d' y='%.1f' width='%d' height='%.1f'/>\n", LEFT,
                       y->to, PLOT, y->from - y->to);
}

static int drawn(const struct curve *c, int i, const struct axis *x, const struct axis *y) {
    return i >= 0 && i < c->n && shows(x, c->x[i]) && shows(y, c->y[i]);
}

/* The points of one pixel column become a stroke from its first over lowest and highest to its
 * last; a point without neighbours becomes a dot. */
static void draw_curve(struct file_writer *w, const struct curve *c, const struct axis *x,
                       const struct axis *y, int colour) {
    int pen_down = 0, thin = c->n > 2 * PLOT;
    file_writer_printf(w,
                       "<g class='c%d'><path fill='none' stroke='currentColor' stroke-width='1.8' "
                       "stroke-linejoin='round' d='",
                       colour);
    for (int i = 0; i < c->n;) {
        if (!drawn(c, i, x, y)) {
            pen_down = 0;
            i++;
            continue;
        }
        double px = place(x, c->x[i]), low = place(y, c->y[i]), high = low, end = low;
        double first = low;
        int k = i + 1;
        for (; thin && k < c->n && shows(y, c->y[k]) && place(x, c->x[k]) < px + 1; k++) {
            end = place(y, c->y[k]);
            low = fmin(low, end);
            high = fmax(high, end);
        }
        file_writer_printf(w, "%s%.1f %.1f", pen_down ? "L" : "M", px, first);
        if (k > i + 1) file_writer_printf(w, "V%.1fV%.1fV%.1f", low, high, end);
        pen_down = 1;
        i = k;
    }
    file_writer_printf(w, "'/>\n");
    for (int i = 0; i < c->n; i++)
        if (drawn(c, i, x, y) && (c->marked || !(drawn(c, i - 1, x, y) || drawn(c, i + 1, x, y))))
            file_writer_printf(w, "<circle cx='%.1f' cy='%.1f' r='3' fill='currentColor'/>\n",
                               place(x, c->x[i]), place(y, c->y[i]));
    file_writer_printf(w, "</g>\n");
}

/* ---- the legend ------------------------------------------------------------------------------ */

enum { NAME_CHARS = 40, ROW_HEIGHT = 20, ITEM_EDGE = 34 };

static double item_width(const struct curve *c) {
    char label[LABEL_SIZE];
    return ITEM_EDGE + 7.2 * label_make(label, c->name, NAME_CHARS);
}

static double legend_width(const struct panel *p) {
    double width = 0;
    for (int i = 0; i < p->n_curve; i++) width += item_width(&p->curve[i]);
    return width;
}

/* How many rows names take below the title: none if they fit beside it, or if there is a lone
 * curve, which is what the title says. */
static int legend_rows(const struct panel *p) {
    if (p->n_curve < 2 || legend_width(p) + 8.2 * (double)strlen(p->title) < PLOT) return 0;
    double at = 0;
    int rows = 1;
    for (int i = 0; i < p->n_curve; i++) {
        double width = item_width(&p->curve[i]);
        if (at > 0 && at + width > PLOT) at = 0, rows++;
        at += width;
    }
    return rows;
}

/* Names at the panel's upper right, the first one leftmost; or in rows below its title. */
static void draw_legend(struct file_writer *w, const struct panel *p, double top) {
    int rows = legend_rows(p);
    double at = rows ? LEFT : LEFT + PLOT - legend_width(p);
    double y = top - 10 - max_int(0, rows - 1) * ROW_HEIGHT;
    for (int i = 0; i < p->n_curve; i++) {
        double width = item_width(&p->curve[i]);
        if (rows && at > LEFT && at + width > LEFT + PLOT) at = LEFT, y += ROW_HEIGHT;
        file_writer_printf(w,
                           "<g class='c%d'><line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' "
                           "stroke='currentColor' stroke-width='3'/></g>"
                           "<text class='l' x='%.1f' y='%.1f'>",
                           i % COLOURS, at, at + 18, y - 4, y - 4, at + 24, y);
        draw_text(w, p->curve[i].name, NAME_CHARS);
        at += width;
    }
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void draw_panel(struct file_writer *w, const struct panel *p, const struct axis *x,
                       double top, int last) {
    struct axis y = {
        .low = NAN, .high = NAN, .from = top + p->height, .to = top, .scale = p->scale};
    for (int i = 0; i < p->n_curve; i++)
        for (int k = 0; k < p->curve[i].n; k++)
            if (shows(&y, p->curve[i].y[k])) widen(&y, p->curve[i].y[k]);
    finish_axis(&y, p->height > 160 ? 6 : 3);
    file_writer_printf(w, "<text class='p' x='%d' y='%.1f'>", LEFT,
                       top - legend_rows(p) * ROW_HEIGHT - 10);
    draw_text(w, p->title, PLOT / 8);
    if (p->n_curve > 1) draw_legend(w, p, top);
    draw_grid(w, x, &y, last);
    for (int i = 0; i < p->n_curve; i++) draw_curve(w, &p->curve[i], x, &y, i % COLOURS);
}

/* The axis that all panels share. */
static struct axis x_axis(const struct chart *c) {
    struct axis x = {.low = NAN, .high = NAN, .from = LEFT, .to = LEFT + PLOT, .scale = c->x_scale};
    for (int i = 0; i < c->n_panel; i++)
        for (int k = 0; k < c->panel[i].n_curve; k++)
            for (int j = 0; j < c->panel[i].curve[k].n; j++)
                if (shows(&x, c->panel[i].curve[k].x[j])) widen(&x, c->panel[i].curve[k].x[j]);
    double low = fmin(x.low, 0), high = x.high;
    finish_axis(&x, 8);
    if (!x.scale && low < high) { /* no empty edges here: only the ticks are round */
        x.low = low;
        x.high = high;
        int n = 0;
        for (int i = 0; i < x.n_tick; i++)
            if (x.tick[i] >= low && x.tick[i] <= high) x.tick[n++] = x.tick[i];
        x.n_tick = n;
    }
    return x;
}

void curves_write(struct file_writer *w, const struct chart *chart) {
    struct axis x = x_axis(chart);
    int height = TOP + BOTTOM;
    for (int i = 0; i < chart->n_panel; i++)
        height +=
            chart->panel[i].height + (i ? GAP : 28) + legend_rows(&chart->panel[i]) * ROW_HEIGHT;
    file_writer_printf(
        w,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' "
        "height='%d' font-family='system-ui,sans-serif'>\n<style>%s</style>\n"
        "<rect class='b' width='100%%' height='100%%'/>\n<text class='h' x='%d' y='32'>",
        WIDTH, height, WIDTH, height, style, LEFT);
    draw_text(w, chart->title, PLOT / 10);
    double top = TOP + 28;
    for (int i = 0; i < chart->n_panel; i++) {
        top += legend_rows(&chart->panel[i]) * ROW_HEIGHT;
        draw_panel(w, &chart->panel[i], &x, top, i == chart->n_panel - 1);
        top += chart->panel[i].height + GAP;
    }
    file_writer_printf(w, "<text class='l' x='%d' y='%d' text-anchor='middle'>", LEFT + PLOT / 2,
                       height - 12);
    draw_text(w, chart->x_label, PLOT / 8);
    file_writer_printf(w, "</svg>\n");
}
