/* text.h — lines of text from a file, in bounded memory whatever the file holds.
 *
 * A file may be plain, gzip or xz (told apart by content, not by name; several members or streams
 * in a row are one file), or "-" for standard input. Lines come one at a time; what they point at
 * is valid until the next call. Every line of the file is delivered, so that parallel files stay
 * parallel:
 *
 *   line end         LF or CR LF; the end of the file ends the last line if nothing else does
 *   first line       a byte-order mark (U+FEFF) is removed
 *   bad UTF-8        each bad sequence (base/utf8.h) becomes U+FFFD, LINE_REPLACED is set
 *   NUL byte         becomes U+FFFD as well
 *   too long         a line of more than TEXT_MAX_LINE bytes arrives empty with LINE_TOO_LONG set,
 *                    as soon as that is known: whoever refuses it need not wait for its end; in
 *                    a pipe one of more than TEXT_ENDLESS is an error: it may have no end
 *   anything else    is left alone: tabs, single CRs, control characters, unassigned code points
 *
 * A directory, an unreadable file, UTF-16, a kind of compression we do not read, and a damaged or
 * truncated compressed file are errors that name the file. An error is final: it is repeated. */
#ifndef DATA_TEXT_H
#define DATA_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { TEXT_MAX_LINE = 64 << 10, TEXT_ENDLESS = 1 << 20 }; /* bytes, the line end not counted */

enum line_flags { LINE_TOO_LONG = 1, LINE_REPLACED = 2 };

struct line {
    const char *text; /* valid UTF-8 without NUL bytes, and a NUL after its end */
    size_t size;      /* at most 3 times the longest line, when every byte was replaced */
    unsigned flags;
    const char *end; /* what ended it: LF, CR LF, or, at the end of the file, nothing or CR */
};

struct text_counts {
    uint64_t lines, bytes;      /* delivered; bytes are uncompressed and include line ends */
    uint64_t replaced;          /* sequences that became U+FFFD */
    uint64_t too_long;          /* lines */
    uint64_t file_at, file_end; /* bytes read of the file and its size; 0 when that is unknown */
};

struct text;

int text_open(struct text **text, const char *path, struct err *err);
void text_close(struct text *text);

/* The same from an open descriptor, which text_close closes if `owned`; `name` is for messages. */
int text_open_fd(struct text **text, int fd, int owned, const char *name, struct err *err);

/* 1: a line; 0: the end; negative: an error. */
int text_next(struct text *text, struct line *line, struct err *err);

struct text_counts text_counts(const struct text *text);

/* Accepts longer lines than TEXT_MAX_LINE, at the price of that much memory. Before the first
 * text_next. */
void text_max_line(struct text *text, size_t bytes);

/* Would text_next return at once? 0: it would wait, because whoever writes the pipe or types at the
 * terminal has not finished a line; poll(2) on text_fd tells when there is more. Inside compressed
 * data it may wait for the rest of a block. */
int text_ready(struct text *text);
int text_fd(const struct text *text);

/* XXH3-128 of a file as it is stored, low half first: equal for equal content. Every now and then
 * calls progress, which may be NULL, with the bytes read since; a negative result is returned. */
int text_hash(uint64_t hash[2], const char *path,
              int (*progress)(void *ctx, uint64_t bytes, struct err *err), void *ctx,
              struct err *err);

#endif
