/* aside.c — see aside.h. */
#include "base/aside.h"

#include <signal.h>

static void *run(void *ctx) {
    const struct aside *a = ctx;
    a->work(a->ctx);
    return NULL;
}

void aside_begin(struct aside *a, void (*work)(void *ctx), void *ctx) {
    *a = (struct aside){.work = work, .ctx = ctx};
    sigset_t all, before; /* signals are the caller's: here they would interrupt its files */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    a->running = pthread_create(&a->thread, NULL, run, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!a->running) work(ctx);
}

void aside_end(struct aside *a) {
    if (a->running) pthread_join(a->thread, NULL);
    a->running = 0;
}
