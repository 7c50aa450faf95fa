/* languages.h — the languages that a desk translates between: codes as clients write them, names,
 * and which of them a text is in.
 *
 * Codes are those of ISO 639-1, in lower case, with three that LibreTranslate has for languages of
 * two scripts or countries: pb (pt-BR), zh (zh-Hans), zt (zh-Hant). */
#ifndef SERVE_LANGUAGES_H
#define SERVE_LANGUAGES_H

#include <stddef.h>

struct desk;

enum { LANGUAGES_CODE = 16, LANGUAGES_GUESSES = 3 };

struct served {
    char code[LANGUAGES_CODE];
    char (*target)[LANGUAGES_CODE]; /* [n_target], sorted; itself among them */
    int n_target;
};

struct languages {
    struct served *at; /* English first, then by code */
    int n;
};

void languages_load(struct languages *languages, struct desk *desk);
void languages_release(struct languages *languages);

/* The code that a word of a client's means: "EN" is en, "pt_BR" pb. 0, or -1 where it is too long
 * to be one. */
int languages_code(char code[LANGUAGES_CODE], const char *word, size_t size);

/* What clients call a language that a model calls `own`: en_XX, eng and eng_Latn are en. 0, or -1
 * as above. */
int languages_of_model(char code[LANGUAGES_CODE], const char *own);

const struct served *languages_find(const struct languages *languages, const char *code);

/* The same, or of a language of some country or script, which is not served, the language: code,
 * en-us, becomes en. */
const struct served *languages_meant(const struct languages *languages, char *code);
int languages_pair(const struct served *source, const char *target);

/* Its name in English or German, as an Accept-Language header asks; the code itself where the name
 * is not known. */
const char *languages_name(const char *code, const char *accept);

/* The served languages that the text may be in, best first; at least one if any is served. HTML is
 * looked at without its tags. */
struct languages_guess {
    char code[LANGUAGES_CODE];
    double confidence; /* 0 to 100 */
};
int languages_detect(struct languages_guess guess[LANGUAGES_GUESSES],
                     const struct languages *languages, const char *text, size_t size, int html);

#endif
