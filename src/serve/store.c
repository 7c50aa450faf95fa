/* store.c — see store.h. */
#include "serve/store.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"

static void drop(struct store *store, struct stored **at) {
    struct stored *s = *at;
    *at = s->next;
    store->size -= s->size;
    xfree(s->data);
    xfree(s);
}

/* What is too old goes, and the oldest until there is room. */
static void tidy(struct store *store, size_t room, double now) {
    for (struct stored **at = &store->first; *at;) {
        if ((*at)->until < now)
            drop(store, at);
        else
            at = &(*at)->next;
    }
    while (store->first && store->size + room > STORE_MOST) {
        struct stored **last = &store->first;
        while ((*last)->next) last = &(*last)->next;
        drop(store, last);
    }
}

/* "a/b c.Txt" in German is b_c_de.txt. */
static void name_it(struct stored *s, const char *uploaded, size_t n, const char *language) {
    size_t from = n, dot = n, to = 0;
    while (from > 0 && uploaded[from - 1] != '/' && uploaded[from - 1] != '\\') from--;
    for (size_t i = from; i < n; i++)
        if (uploaded[i] == '.') dot = i;
    for (size_t i = from; i < dot && to < STORE_TITLE - 40; i++) {
        char c = uploaded[i];
        int plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-';
        s->title[to++] = (char)(plain ? c : '_');
    }
    char ending[10] = "";
    for (size_t i = dot, k = 0; i < n && k < sizeof ending - 1; i++, k++)
        ending[k] =
            (char)(uploaded[i] >= 'A' && uploaded[i] <= 'Z' ? uploaded[i] | 32 : uploaded[i]);
    snprintf(s->title + to, STORE_TITLE - to, "_%.15s%s", language, ending);
    unsigned char random[16];
    BUG_ON(getrandom(random, sizeof random, 0) != (ssize_t)sizeof random);
    for (int i = 0; i < 16; i++) snprintf(s->name + (size_t)i * 2, 3, "%02x", random[i]);
    snprintf(s->name + 32, STORE_NAME - 32, "%s", ending);
}

const char *store_put(struct store *store, const struct store_file *file, double now) {
    if (file->size > STORE_MOST) {
        xfree(file->data);
        return NULL;
    }
    tidy(store, file->size, now);
    struct stored *s = xcalloc(1, sizeof *s);
    *s = (struct stored){
        .data = file->data, .size = file->size, .until = now + STORE_SECONDS, .next = store->first};
    name_it(s, file->uploaded, file->n_uploaded, file->language);
    store->first = s;
    store->size += file->size;
    return s->name;
}

const struct stored *store_get(struct store *store, const char *name, double now) {
    tidy(store, 0, now);
    for (const struct stored *s = store->first; s; s = s->next)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

void store_release(struct store *store) {
    while (store->first) drop(store, &store->first);
}
