/* history.c — see history.h. */
#include "train/history.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/json.h"

enum { MAX_LINE = 1 << 16 };

static double number(const json_t *line, const char *key) {
    const json_t *v = json_object_get(line, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* Room for one more; the array doubles. */
static void *grow(void *array, int n, int *cap, size_t size) {
    if (n < *cap) return array;
    *cap = 2 * *cap + 64;
    return xrealloc(array, (size_t)*cap * size);
}

static void add_train(struct history *h, const json_t *line, int64_t step) {
    while (h->n_train && h->train[h->n_train - 1].step >= step) h->n_train--;
    h->train = grow(h->train, h->n_train, &h->cap_train, sizeof *h->train);
    h->train[h->n_train++] = (struct train_point){.step = step,
                                                  .epoch = number(line, "epoch"),
                                                  .loss = number(line, "loss"),
                                                  .nll = number(line, "nll"),
                                                  .ppl = number(line, "ppl"),
                                                  .lr = number(line, "lr"),
                                                  .tokens = number(line, "tokens"),
                                                  .tok_s = number(line, "tok_s"),
                                                  .time = number(line, "time")};
}

static void add_valid(struct history *h, const json_t *line, int64_t step) {
    while (h->n_valid && h->valid[h->n_valid - 1].step >= step) h->n_valid--;
    h->valid = grow(h->valid, h->n_valid, &h->cap_valid, sizeof *h->valid);
    h->valid[h->n_valid++] = (struct valid_point){.step = step,
                                                  .loss = number(line, "valid_loss"),
                                                  .nll = number(line, "valid_nll"),
                                                  .ppl = number(line, "valid_ppl"),
                                                  .bleu = number(line, "valid_bleu")};
}

static int add_line(struct history *h, const char *text, size_t size, const char *where,
                    struct err *err) {
    json_t *line = NULL;
    struct json_in in;
    int64_t step = 0;
    if (size > MAX_LINE)
        return err_set(err, HEED_ELIMIT, "%.120s: a line of %zu bytes", where, size);
    int rc = json_in_text(&line, text, size, where, err);
    if (!rc) rc = json_in_begin(&in, line, where, err);
    int is_train = !rc && json_in_has(&in, "loss"),
        is_valid = !rc && json_in_has(&in, "valid_loss");
    if (is_train || is_valid) rc = json_in_int(&in, "step", &step, err);
    if (!rc && step < 0) rc = json_in_expected(&in, "step", "a step", err);
    if (!rc && is_train) add_train(h, line, step);
    if (!rc && is_valid) add_valid(h, line, step);
    json_decref(line);
    return rc;
}

static int is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return 0;
    return 1;
}

void history_parse(struct history *h, const char *text, size_t size, const char *where) {
    int n = 0;
    while (size) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) : size;
        struct err why = {0};
        n++;
        if (!is_blank(text, length) && add_line(h, text, length, where, &why) && h->n_bad++ == 0) {
            h->first_bad = n;
            h->bad = why;
        }
        length += end != NULL;
        text += length;
        size -= length;
    }
}

int history_read(struct history *h, const char *path, struct err *err) {
    *h = (struct history){0};
    struct file_map map;
    if (!file_exists(path)) return 0;
    int rc = file_map_open(&map, path, err);
    if (rc) return rc;
    if (map.size) history_parse(h, (const char *)map.data, map.size, path);
    file_map_close(&map);
    return 0;
}

void history_release(struct history *h) {
    xfree(h->train);
    xfree(h->valid);
    *h = (struct history){0};
}
