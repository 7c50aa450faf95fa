/* signals.c — see signals.h. */
#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

volatile int signals_caught;
static int wake[2] = {-1, -1};

static void on_signal(int number) {
    signals_caught = number;
    signal(number, SIG_DFL);
    if (write(wake[1], "", 1) < 0) return; /* the pipe is full: it is readable already */
}

int signals_watch(struct err *err) {
    struct sigaction action = {.sa_handler = on_signal};
    if (pipe(wake))
        return err_set(err, HEED_EIO, "cannot make a pipe for signals: %s", strerror(errno));
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return 0;
}

int signals_fd(void) { return wake[0]; }

/* Nothing but calls that a handler may make. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    static const char *const message[] = {
        "heed: ", NULL,
        ": can no longer be read: it was cut short or overwritten while in use, or the disk "
        "failed\nhint: replace models by renaming a new one into their place; never write into "
        "them\n"};
    const char *path = file_map_at(info->si_addr);
    (void)context;
    for (int i = 0; i < 3 && path; i++) {
        const char *text = message[i] ? message[i] : path;
        if (write(STDERR_FILENO, text, strlen(text)) < 0) break;
    }
    if (path) _exit(1);
    signal(number, SIG_DFL); /* not in a mapped file: the usual effect */
}

void signals_explain(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}

void signals_end_by(int number) {
    fflush(stdout);
    signal(number, SIG_DFL);
    raise(number);
}
