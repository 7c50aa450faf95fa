/* passages.h — a text as people write it: what of it is translated, and what stays as it is.
 *
 * A passage is a sentence to translate. What lies between passages is kept byte for byte: line ends
 * of any kind, blank lines, indentation, white space between sentences and at the ends of lines,
 * marks at the beginning of a line (- * + • > #, 1. 2) a) (b)), and sentences without a letter or a
 * digit (---, ***, and bars as in "Home | News"), and emoji. Every line stands alone, and so does
 * what tabs and emoji separate in it: no sentence goes on in the next line, so a text that was
 * wrapped by hand is better unwrapped first. Those who can keep an emoji's place in a sentence say
 * so (over_emoji): then one in the middle of a sentence does not end it.
 *
 * Nothing is allocated, and work is linear in the text. */
#ifndef DATA_PASSAGES_H
#define DATA_PASSAGES_H

#include "data/sentences.h"

struct passages {
    const struct sentence_rules *rules;
    const char *text;
    size_t size, at; /* behind the last passage */
    size_t end;      /* of the line or cell that `at` is in */
    int over_emoji;
};

struct passage {
    size_t at, size; /* bytes of the text */
};

struct passages passages_of(const struct sentence_rules *rules, const char *text, size_t size);

/* Does the sentence that begins before the emoji at text[at] go on behind it? Then a small letter
 * follows in the line, and no mark that ends sentences is before it. */
int passages_go_on(const char *text, size_t size, size_t at);

/* The next passage in the order of the text: 1, or 0 where there is none. */
int passages_next(struct passages *passages, struct passage *passage);

/* Writes the text that lies between two passages, gap[0..size), to out, which has room for one byte
 * more, and returns how much. Nothing between two sentences, as in Chinese, becomes a space unless
 * the translation before ends with a mark that needs none. */
size_t passages_gap(char *out, const char *gap, size_t size, const char *before, size_t n_before);

#endif
