/* state.h — small named values that a training run carries from one process to the next.
 *
 * The trainer puts in what it needs to continue exactly (position in the data, epoch, RNG, best
 * metric, fingerprints ...) and asks for it back; checkpoint.h stores it without knowing what it
 * means. Values are typed, and come back bit for bit: doubles too, NaN and infinities included. A
 * state owns its strings. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum state_kind { STATE_I64, STATE_U64, STATE_F64, STATE_TEXT };

struct state_item {
    char *key;
    enum state_kind kind;
    union {
        int64_t i64;
        uint64_t u64;
        double f64;
        char *text;
    } as;
};

/* All zero is an empty state. */
struct state {
    struct state_item *item; /* in the order they were first set */
    int n_item, cap;
};

void state_release(struct state *state);
void state_clear(struct state *state);

/* A key is [a-z0-9_.]+, at most 63 bytes (anything else is a bug). Setting it again replaces it. */
void state_set_i64(struct state *state, const char *key, int64_t value);
void state_set_u64(struct state *state, const char *key, uint64_t value);
void state_set_f64(struct state *state, const char *key, double value);
void state_set_text(struct state *state, const char *key, const char *value);

/* Absent, or of another kind: HEED_EFORMAT and a message naming the key. The text is valid until
 * the state changes. */
int state_get_i64(const struct state *state, const char *key, int64_t *value, struct err *err);
int state_get_u64(const struct state *state, const char *key, uint64_t *value, struct err *err);
int state_get_f64(const struct state *state, const char *key, double *value, struct err *err);
int state_get_text(const struct state *state, const char *key, const char **value, struct err *err);

/* One item as text ("i64:300", "f64:0x1.8p+1", "text:...") and back. The caller frees with
 * xfree. */
char *state_item_format(const struct state_item *item);
int state_parse(struct state *state, const char *key, const char *text, struct err *err);

#endif
