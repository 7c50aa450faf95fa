/* languages.c — see languages.h. */
#include "serve/languages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "data/language.h"
#include "serve/desk.h"

/* ---- codes and names ------------------------------------------------------------------------- */

static const struct {
    const char *code, *english, *german;
} known[] = {{"ar", "Arabic", "Arabisch"},
             {"az", "Azerbaijani", "Aserbaidschanisch"},
             {"be", "Belarusian", "Belarussisch"},
             {"bg", "Bulgarian", "Bulgarisch"},
             {"bn", "Bengali", "Bengalisch"},
             {"ca", "Catalan", "Katalanisch"},
             {"cs", "Czech", "Tschechisch"},
             {"da", "Danish", "Dänisch"},
             {"de", "German", "Deutsch"},
             {"el", "Greek", "Griechisch"},
             {"en", "English", "Englisch"},
             {"eo", "Esperanto", "Esperanto"},
             {"es", "Spanish", "Spanisch"},
             {"et", "Estonian", "Estnisch"},
             {"eu", "Basque", "Baskisch"},
             {"fa", "Persian", "Persisch"},
             {"fi", "Finnish", "Finnisch"},
             {"fr", "French", "Französisch"},
             {"ga", "Irish", "Irisch"},
             {"gl", "Galician", "Galicisch"},
             {"he", "Hebrew", "Hebräisch"},
             {"hi", "Hindi", "Hindi"},
             {"hr", "Croatian", "Kroatisch"},
             {"hu", "Hungarian", "Ungarisch"},
             {"id", "Indonesian", "Indonesisch"},
             {"is", "Icelandic", "Isländisch"},
             {"it", "Italian", "Italienisch"},
             {"ja", "Japanese", "Japanisch"},
             {"ka", "Georgian", "Georgisch"},
             {"ko", "Korean", "Koreanisch"},
             {"lt", "Lithuanian", "Litauisch"},
             {"lv", "Latvian", "Lettisch"},
             {"mk", "Macedonian", "Mazedonisch"},
             {"ms", "Malay", "Malaiisch"},
             {"mt", "Maltese", "Maltesisch"},
             {"nb", "Norwegian", "Norwegisch"},
             {"nl", "Dutch", "Niederländisch"},
             {"no", "Norwegian", "Norwegisch"},
             {"pb", "Portuguese (Brazil)", "Portugiesisch (Brasilien)"},
             {"pl", "Polish", "Polnisch"},
             {"pt", "Portuguese", "Portugiesisch"},
             {"ro", "Romanian", "Rumänisch"},
             {"ru", "Russian", "Russisch"},
             {"sk", "Slovak", "Slowakisch"},
             {"sl", "Slovenian", "Slowenisch"},
             {"sq", "Albanian", "Albanisch"},
             {"sr", "Serbian", "Serbisch"},
             {"sv", "Swedish", "Schwedisch"},
             {"sw", "Swahili", "Suaheli"},
             {"ta", "Tamil", "Tamil"},
             {"th", "Thai", "Thailändisch"},
             {"tl", "Tagalog", "Tagalog"},
             {"tr", "Turkish", "Türkisch"},
             {"uk", "Ukrainian", "Ukrainisch"},
             {"ur", "Urdu", "Urdu"},
             {"vi", "Vietnamese", "Vietnamesisch"},
             {"zh", "Chinese", "Chinesisch"},
             {"zt", "Chinese (traditional)", "Chinesisch (traditionell)"}};

static const struct {
    const char *tag, *code;
} aliases[] = {
    {"pt-br", "pb"}, {"zh-hans", "zh"}, {"zh-hant", "zt"}, {"zh-tw", "zt"}, {"zh-cn", "zh"}};

int languages_code(char code[LANGUAGES_CODE], const char *word, size_t size) {
    code[0] = 0;
    if (size >= LANGUAGES_CODE || memchr(word, 0, size)) return -1;
    for (size_t i = 0; i < size; i++)
        code[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] | 32
                         : word[i] == '_'                 ? '-'
                                                          : word[i]);
    code[size] = 0;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(code, aliases[i].tag) == 0)
            snprintf(code, LANGUAGES_CODE, "%s", aliases[i].code);
    return 0;
}

/* How much a header such as "de-DE,de;q=0.9,en;q=0.8" wants the language: 0 to 1. */
static double wanted(const char *accept, const char *language) {
    size_t n = strlen(language);
    while (*accept) {
        accept += strspn(accept, " \t,");
        size_t length = strcspn(accept, ",");
        if (length >= n && strncasecmp(accept, language, n) == 0 && strchr("-;, \t", accept[n])) {
            char part[64];
            snprintf(part, sizeof part, "%.*s", (int)(length < 63 ? length : 63), accept);
            const char *q = strstr(part, "q=");
            return q ? strtod(q + 2, NULL) : 1;
        }
        accept += length;
    }
    return 0;
}

const char *languages_name(const char *code, const char *accept) {
    int german = accept && wanted(accept, "de") > wanted(accept, "en");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(code, known[i].code) == 0) return german ? known[i].german : known[i].english;
    return code;
}

/* ---- what is served -------------------------------------------------------------------------- */

static int by_code(const void *a, const void *b) { return strcmp(a, b); }

static int english_first(const void *a, const void *b) {
    const struct served *x = a, *y = b;
    int e = (strcmp(y->code, "en") == 0) - (strcmp(x->code, "en") == 0);
    return e ? e : strcmp(x->code, y->code);
}

static struct served *entry(struct languages *l, const char *code) {
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->at[i].code, code) == 0) return &l->at[i];
    l->at = xrealloc(l->at, (size_t)(l->n + 1) * sizeof *l->at);
    struct served *s = &l->at[l->n++];
    *s = (struct served){.n_target = 0};
    snprintf(s->code, sizeof s->code, "%s", code);
    return s;
}

static void add_target(struct served *s, const char *code) {
    s->target = xrealloc(s->target, (size_t)(s->n_target + 1) * sizeof *s->target);
    snprintf(s->target[s->n_target++], LANGUAGES_CODE, "%s", code);
}

void languages_load(struct languages *l, struct desk *desk) {
    struct desk_pairs pairs = desk_pairs(desk);
    *l = (struct languages){0};
    for (int i = 0; i < pairs.n; i++) {
        add_target(entry(l, pairs.pair[i].source), pairs.pair[i].target);
        entry(l, pairs.pair[i].target);
    }
    desk_pairs_free(&pairs);
    for (int i = 0; i < l->n; i++) {
        struct served *s = &l->at[i];
        if (!languages_pair(s, s->code)) add_target(s, s->code);
        qsort(s->target, (size_t)s->n_target, sizeof *s->target, by_code);
    }
    if (l->n) qsort(l->at, (size_t)l->n, sizeof *l->at, english_first);
}

void languages_release(struct languages *l) {
    for (int i = 0; i < l->n; i++) xfree(l->at[i].target);
    xfree(l->at);
    *l = (struct languages){0};
}

const struct served *languages_find(const struct languages *l, const char *code) {
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->at[i].code, code) == 0) return &l->at[i];
    return NULL;
}

/* By what is before the first dash. */
static const struct served *find_prefix(const struct languages *l, const char *code) {
    char language[LANGUAGES_CODE];
    size_t n = strcspn(code, "-");
    if (!code[n]) return NULL;
    snprintf(language, sizeof language, "%.*s", (int)n, code);
    return languages_find(l, language);
}

const struct served *languages_meant(const struct languages *l, char *code) {
    const struct served *found = languages_find(l, code);
    if (!found && (found = find_prefix(l, code))) snprintf(code, LANGUAGES_CODE, "%s", found->code);
    return found;
}

int languages_pair(const struct served *source, const char *target) {
    for (int i = 0; i < source->n_target; i++)
        if (strcmp(source->target[i], target) == 0) return 1;
    return 0;
}

/* ---- detection ------------------------------------------------------------------------------- */

/* What CLD2 calls the language, as it is served; NULL if it is not. */
static const struct served *as_served(const struct languages *l, const char *found) {
    char code[LANGUAGES_CODE];
    const struct served *s = NULL;
    if (languages_code(code, found, strlen(found)) == 0) s = languages_find(l, code);
    if (!s && strcmp(found, "pt") == 0) s = languages_find(l, "pb");
    if (!s && strcmp(found, "no") == 0) s = languages_find(l, "nb");
    return s;
}

static int keep_served(struct languages_guess *guess, const struct languages *l,
                       const struct language_guess *found) {
    int n = 0;
    for (int i = 0; i < found->n && n < LANGUAGES_GUESSES; i++) {
        const struct served *s = as_served(l, found->best[i].code);
        if (!s) continue;
        snprintf(guess[n].code, sizeof guess[n].code, "%s", s->code);
        guess[n++].confidence = (double)(int)(found->best[i].confidence * 100 + 0.5);
    }
    return n;
}

static char *without_tags(const char *text, size_t *size) {
    char *plain = xmalloc(*size + 1);
    size_t n = 0;
    for (size_t i = 0, inside = 0; i < *size; i++) {
        if (text[i] == '<') inside = 1;
        plain[n++] = (char)(inside ? ' ' : text[i]);
        if (text[i] == '>') inside = 0;
    }
    *size = n;
    return plain;
}

int languages_detect(struct languages_guess guess[LANGUAGES_GUESSES], const struct languages *l,
                     const char *text, size_t size, int html) {
    struct language_guess found;
    if (size > LANGUAGE_MAX_TEXT) size = LANGUAGE_MAX_TEXT;
    char *plain = html ? without_tags(text, &size) : NULL;
    if (plain) text = plain;
    language_detect(&found, text, size, NULL);
    int n = keep_served(guess, l, &found);
    /* a short text may be of many languages: one that is served, if there is such a reading */
    for (int i = 0; i < l->n && !n; i++) {
        language_detect(&found, text, size, l->at[i].code);
        n = keep_served(guess, l, &found);
        if (n) guess[0].confidence /= 2;
    }
    xfree(plain);
    if (n || !l->n) return n;
    snprintf(guess[0].code, sizeof guess[0].code, "%s", l->at[0].code);
    guess[0].confidence = 0;
    return 1;
}
