/* signals.c — see signals.h. */
#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

volatile int signals_caught;
static int wake[2] = {-1, -1};

static void on_signal(int number) {
    signals_caught = number;
    signal(number, SIG_DFL);
    if (write(wake[1], "", 1) < 0) return; /* the pipe is full: it is readable already */
}

int signals_watch(struct err *err) {
    struct sigaction action = {.sa_handler = on_signal};
    if (pipe(wake)) return err_set(err, HEED_EIO, "a pipe for signals: %s", strerror(errno));
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return 0;
}

int signals_fd(void) { return wake[0]; }

void signals_end_by(int number) {
    fflush(stdout);
    signal(number, SIG_DFL);
    raise(number);
}
