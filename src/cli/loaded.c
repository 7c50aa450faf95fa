/* loaded.c — see loaded.h. */
#include "cli/loaded.h"

int loaded_open(struct loaded *l, const struct loaded_options *o, struct err *err) {
    struct engine_options options = {
        .dir = &o->dir, .n = 1, .precision = o->precision, .where = o->where};
    *l = (struct loaded){0};
    int rc = engine_open(&l->engine, &options, err);
    if (rc) return rc;
    l->model = l->engine->model[0];
    l->tokenizer = l->engine->tokenizer;
    return 0;
}

void loaded_close(struct loaded *l) {
    engine_close(l->engine);
    *l = (struct loaded){0};
}

int loaded_encode(const struct loaded *l, const char *text, size_t size, int32_t *ids, int cap) {
    int n = tokenizer_encode(l->tokenizer, text, size, ids, cap);
    if (n >= 0 && n < cap) ids[n] = tokenizer_eos(l->tokenizer);
    return n < 0 ? n : n + 1;
}
