/* clean_line.h — what the rules of clean.h need to know about a line, gathered in one walk.
 *
 * Words are what stands between spaces; letters are all characters but digits, punctuation and
 * symbols. */
#ifndef DATA_CLEAN_LINE_H
#define DATA_CLEAN_LINE_H

#include "data/text.h"

enum { CLEAN_NUMBERS_MAX = 64, CLEAN_DIGITS_MAX = 20 };

/* A number as digits, without leading zeros, "" for 0: 1,000 and 1.000 are "1000". */
struct clean_number {
    char digits[CLEAN_DIGITS_MAX];
    int n, decimal; /* decimal: it follows a digit and a point or comma */
};

struct clean_line {
    size_t chars, words, letters; /* chars without spaces */
    size_t longest;               /* word, in characters */
    size_t run, word_run; /* times that one character (no digit), one word stands in a row */
    enum clean_case { CLEAN_NO_CASE, CLEAN_SMALL, CLEAN_CAPITAL } begins; /* its first character */
    int broken;           /* has what CLEAN_BROKEN names */
    int markup;           /* tags and entities */
    uint64_t exact, near; /* hashes: of the bytes; without case, punctuation, spaces,
                                     every digit a 0 */
    int n_number;         /* more than CLEAN_NUMBERS_MAX: a table, not to be compared */
    struct clean_number number[CLEAN_NUMBERS_MAX];
};

/* Room to work in, one for each thread. Zeroed is empty. */
struct clean_scratch {
    uint32_t *code, *lower; /* [cap], [2 cap] */
    size_t cap;
};

void clean_look(struct clean_line *look, const struct line *line, struct clean_scratch *scratch);
void clean_scratch_release(struct clean_scratch *scratch);

/* Do the numbers of two lines contradict each other? Numbers may be written out, and times, years
 * and millions in several ways: see docs/data.md. */
int clean_numbers_disagree(const struct clean_line *a, const struct clean_line *b);

#endif
