/* fuzz_log.c — any bytes are a log.jsonl: whatever can be read is in order, and the curves drawn
 * from it are a whole picture. */
#include "fuzz.h"

#include "base/mem.h"
#include "train/history.h"
#include "viz/curves.h"

static void draw(const double *x, const double *y, int n, int pick) {
    struct curve curve[2] = {{"a <name> & 'more'", x, y, n, 1}, {"another", y, x, n, 0}};
    struct panel panel[2] = {{"one", curve, 2, 200, (enum scale)(pick % 3)},
                             {"two", curve, 1, 80, (enum scale)(pick / 3 % 3)}};
    struct file_writer w;
    want(file_writer_open(&w, "/dev/null", NULL) == 0);
    curves_write(&w, &(struct chart){"title", "step", panel, 2, (enum scale)(pick / 9 % 3)});
    want(file_writer_commit(&w, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct history h = {0};
    history_parse(&h, (const char *)data, size, "log.jsonl");
    want(!h.n_bad == !h.first_bad && !h.n_bad == !h.bad.msg[0]);
    double *x = xcalloc((size_t)h.n_train + 1, sizeof *x),
           *y = xcalloc((size_t)h.n_train + 1, sizeof *y);
    for (int i = 0; i < h.n_train; i++) {
        want(h.train[i].step >= 0 && (i == 0 || h.train[i].step > h.train[i - 1].step));
        x[i] = (double)h.train[i].step;
        y[i] = h.train[i].loss;
    }
    for (int i = 1; i < h.n_valid; i++) want(h.valid[i].step > h.valid[i - 1].step);
    draw(x, y, h.n_train, (int)(size % 27));
    xfree(x);
    xfree(y);
    history_release(&h);
    return 0;
}
