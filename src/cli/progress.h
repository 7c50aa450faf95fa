/* progress.h — showing how far a long task has come: one line that rewrites itself on a terminal,
 * plain lines now and then otherwise. Always on stderr: stdout belongs to results. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

struct progress {
    int terminal, quiet;
    double begin, shown; /* seconds, see base/clock.h */
    int open;            /* an unfinished line is on the terminal */
};

void progress_begin(struct progress *p, int quiet);

/* Is it time for another line? Every 0.1 s on a terminal, every `plain` seconds otherwise. */
int progress_due(const struct progress *p, double plain);

/* The width of the terminal; 80 where that is unknown. */
int progress_columns(int fd);

/* A line that the next one replaces (terminal), or just a line. */
void progress_line(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line that stays. */
void progress_note(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Removes the unfinished line. */
void progress_end(struct progress *p);

/* "[=====>    ]" of `width` characters for a fraction; `-` for NaN. */
const char *progress_bar(char *text, int width, double fraction);

/* 3725 as "1:02:05", and 1234567 as "1,234,567"; each may be used four times in one call. */
const char *text_duration(double seconds);
const char *text_grouped(uint64_t n);

#endif
