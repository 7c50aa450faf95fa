/* language.h — which language is a text in?
 *
 * Answered by CLD2 behind one C++ file (cld2.cc), which knows 83 languages. Texts of a few
 * words are often open: then the guess says so (`reliable` 0), or there is none. Nothing is kept
 * between calls, and any number of threads may ask at once. */
#ifndef DATA_LANGUAGE_H
#define DATA_LANGUAGE_H

#include <stddef.h>

enum { LANGUAGE_MAX = 3, LANGUAGE_CODE = 16, LANGUAGE_MAX_TEXT = 64 << 10 };

struct language {
    char code[LANGUAGE_CODE]; /* ISO 639: "de", "he", "zh-Hant" */
    double share;             /* of the text that is in it, 0 to 1 */
    double confidence;        /* that this is a language of the text, 0 to 1: the share, half of it
                                 where the guess is not reliable */
};

struct language_guess {
    struct language best[LANGUAGE_MAX]; /* the largest share first */
    int n;                              /* of them; 0: nothing to go by */
    int reliable;                       /* the first is far ahead of all others */
    size_t letters;                     /* bytes of the text that counted */
};

/* Looks at the first LANGUAGE_MAX_TEXT bytes of any text; what is not UTF-8 or no text is passed
 * over. `likely`, a code or NULL, gets the benefit of the doubt. */
void language_detect(struct language_guess *guess, const char *text, size_t size,
                     const char *likely);

/* Is it the code of a language that can be told apart? */
int language_known(const char *code);

#endif
