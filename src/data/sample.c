/* sample.c — see sample.h. */
#include "data/sample.h"

#include <string.h>

#include "base/mem.h"

void sample_init(struct sample *s, uint64_t max_lines, uint64_t max_bytes, uint64_t seed) {
    *s = (struct sample){.max_lines = max_lines, .max_bytes = max_bytes, .rng = {.key = seed}};
}

void sample_release(struct sample *s) {
    for (uint64_t i = 0; i < s->n; i++) xfree(s->line[i]);
    xfree(s->line);
    *s = (struct sample){0};
}

/* Uniform in [0, bound); rounding is negligible for any number of lines one could read. */
static uint64_t draw(struct sample *s, uint64_t bound) {
    uint64_t i = (uint64_t)(rng_uniform(&s->rng) * (double)bound);
    return i < bound ? i : bound - 1;
}

static void put(struct sample *s, uint64_t i, const char *text, size_t size) {
    struct sample_line *line = xmalloc(sizeof *line + size);
    line->size = (uint32_t)size;
    memcpy(line->text, text, size);
    s->line[i] = line;
    s->bytes += size;
}

static void drop(struct sample *s, uint64_t i) {
    s->bytes -= s->line[i]->size;
    xfree(s->line[i]);
}

/* A random part of an even sample is an even sample of that size. */
static void shrink(struct sample *s) {
    while (s->bytes > s->max_bytes && s->n > 1) {
        for (uint64_t k = s->n / 8 + 1; k > 0 && s->n > 1; k--) {
            uint64_t i = draw(s, s->n);
            drop(s, i);
            s->line[i] = s->line[--s->n];
        }
        s->max_lines = s->n;
    }
}

void sample_add(struct sample *s, const char *text, size_t size) {
    s->seen++;
    if (s->n < s->max_lines) {
        if (s->n == s->room) {
            s->room = s->room ? 2 * s->room : 1024;
            s->line = xrealloc(s->line, s->room * sizeof(void *));
        }
        put(s, s->n++, text, size);
    } else {
        uint64_t i = draw(s, s->seen);
        if (i >= s->n) return;
        drop(s, i);
        put(s, i, text, size);
    }
    shrink(s);
}
