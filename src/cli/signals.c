/* signals.c — see signals.h. */
#include "cli/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

volatile int signals_caught;
static volatile int every;
static int wake[2] = {-1, -1};

static void on_signal(int number) {
    signals_caught = number;
    if (!every) signal(number, SIG_DFL);
    if (write(wake[1], "", 1) < 0) return; /* the pipe is full: it is readable already */
}

int signals_watch(struct err *err) {
    static const int watched[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = on_signal}, before;
    if (pipe(wake))
        return err_set(err, HEED_EIO, "cannot make a pipe for signals: %s", strerror(errno));
    for (int i = 0; i < 5; i++) {
        sigaction(watched[i], NULL, &before);
        if (i < 3 || before.sa_handler != SIG_IGN) sigaction(watched[i], &action, NULL);
    }
    return 0;
}

void signals_watch_every(void) { every = 1; }

void signals_answered(void) {
    struct pollfd p = {.fd = wake[0], .events = POLLIN};
    char byte;
    signals_caught = 0;
    while (poll(&p, 1, 0) > 0 && read(wake[0], &byte, 1) > 0) continue;
}

int signals_fd(void) { return wake[0]; }

int signals_poll(void *ctx, int done, int total) {
    (void)ctx, (void)done, (void)total;
    return signals_caught;
}

/* Nothing but calls that a handler may make. Several threads may come here at once: one tells, and
 * ends the others. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *path = file_map_at(info->si_addr);
    const char *const part[] = {
        "heed: ", path,
        ": can no longer be read: it was cut short or overwritten while in use, or the disk "
        "failed\nhint: replace models by renaming a new one into their place; never write into "
        "them\n"};
    char text[512];
    size_t n = 0;
    (void)context;
    if (!path) { /* not in a mapped file: the usual effect */
        signal(number, SIG_DFL);
        return;
    }
    while (atomic_flag_test_and_set(&told)) pause();
    for (int i = 0; i < 3; i++)
        for (const char *c = part[i]; *c && n < sizeof text; c++) text[n++] = *c;
    ssize_t done = write(STDERR_FILENO, text, n);
    (void)done; /* nothing more can be said */
    _exit(1);
}

void signals_explain(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

void signals_end_by(int number) {
    fflush(stdout);
    signal(number, SIG_DFL);
    raise(number);
}
