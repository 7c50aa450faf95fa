/* aside.h — one piece of work on a thread of its own, while its owner does something else.
 *
 * Where no thread can be had the work is done at once, so it cannot fail to begin. Whoever began it
 * ends it. */
#ifndef BASE_ASIDE_H
#define BASE_ASIDE_H

#include <pthread.h>

struct aside {
    void (*work)(void *ctx);
    void *ctx;
    pthread_t thread;
    int running;
};

/* The struct must stay where it is until the end. */
void aside_begin(struct aside *aside, void (*work)(void *ctx), void *ctx);
/* Returns when the work is done; at once for {0}. */
void aside_end(struct aside *aside);

#endif
