/* progress.c — see progress.h. */
#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"

void progress_begin(struct progress *p, int quiet) {
    *p = (struct progress){
        .terminal = isatty(STDERR_FILENO), .quiet = quiet, .begin = clock_seconds()};
    p->shown = p->begin;
}

int progress_due(const struct progress *p, double plain) {
    return !p->quiet && clock_seconds() - p->shown >= (p->terminal ? 0.1 : plain);
}

void progress_end(struct progress *p) {
    if (p->open) fprintf(stderr, "\r\033[K");
    p->open = 0;
}

int progress_columns(int fd) {
    struct winsize size = {0};
    return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static void print(struct progress *p, int stays, const char *fmt, va_list ap) {
    if (p->quiet) return;
    progress_end(p);
    p->open = p->terminal && !stays;
    if (p->open) { /* a line that wraps could not be taken back */
        char line[512];
        vsnprintf(line, sizeof line, fmt, ap);
        fprintf(stderr, "%.*s", progress_columns(STDERR_FILENO) - 1, line);
    } else {
        vfprintf(stderr, fmt, ap);
    }
    if (!p->open) fputc('\n', stderr);
    fflush(stderr);
    p->shown = clock_seconds();
}

void progress_line(struct progress *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print(p, 0, fmt, ap);
    va_end(ap);
}

void progress_note(struct progress *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    print(p, 1, fmt, ap);
    va_end(ap);
}

const char *progress_bar(char *text, int width, double fraction) {
    int inner = width - 2, done = isnan(fraction) ? 0 : (int)(fmin(fmax(fraction, 0), 1) * inner);
    text[0] = '[';
    memset(text + 1, isnan(fraction) ? '-' : ' ', (size_t)inner);
    memset(text + 1, '=', (size_t)done);
    if (done < inner && !isnan(fraction)) text[1 + done] = '>';
    text[width - 1] = ']';
    text[width] = 0;
    return text;
}

enum { TURNS = 4, TEXT = 32 };

const char *text_duration(double seconds) {
    static char text[TURNS][TEXT];
    static int turn;
    char *to = text[turn = (turn + 1) % TURNS];
    long s = isfinite(seconds) && seconds < 1e9 ? lround(seconds) : 0;
    if (s >= 3600)
        snprintf(to, TEXT, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(to, TEXT, "%ld:%02ld", s / 60, s % 60);
    return to;
}

const char *text_grouped(uint64_t n) {
    static char text[TURNS][TEXT];
    static int turn;
    return num_grouped(text[turn = (turn + 1) % TURNS], n);
}
