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

/* iso: of three letters, as some models have it; "": none of its own. */
static const struct {
    const char *code, *iso, *english, *german;
} known[] = {{"ar", "ara", "Arabic", "Arabisch"},
             {"az", "aze", "Azerbaijani", "Aserbaidschanisch"},
             {"be", "bel", "Belarusian", "Belarussisch"},
             {"bg", "bul", "Bulgarian", "Bulgarisch"},
             {"bn", "ben", "Bengali", "Bengalisch"},
             {"ca", "cat", "Catalan", "Katalanisch"},
             {"cs", "ces", "Czech", "Tschechisch"},
             {"da", "dan", "Danish", "Dänisch"},
             {"de", "deu", "German", "Deutsch"},
             {"el", "ell", "Greek", "Griechisch"},
             {"en", "eng", "English", "Englisch"},
             {"eo", "epo", "Esperanto", "Esperanto"},
             {"es", "spa", "Spanish", "Spanisch"},
             {"et", "est", "Estonian", "Estnisch"},
             {"eu", "eus", "Basque", "Baskisch"},
             {"fa", "fas", "Persian", "Persisch"},
             {"fi", "fin", "Finnish", "Finnisch"},
             {"fr", "fra", "French", "Französisch"},
             {"ga", "gle", "Irish", "Irisch"},
             {"gl", "glg", "Galician", "Galicisch"},
             {"he", "heb", "Hebrew", "Hebräisch"},
             {"hi", "hin", "Hindi", "Hindi"},
             {"hr", "hrv", "Croatian", "Kroatisch"},
             {"hu", "hun", "Hungarian", "Ungarisch"},
             {"id", "ind", "Indonesian", "Indonesisch"},
             {"is", "isl", "Icelandic", "Isländisch"},
             {"it", "ita", "Italian", "Italienisch"},
             {"ja", "jpn", "Japanese", "Japanisch"},
             {"ka", "kat", "Georgian", "Georgisch"},
             {"ko", "kor", "Korean", "Koreanisch"},
             {"lt", "lit", "Lithuanian", "Litauisch"},
             {"lv", "lav", "Latvian", "Lettisch"},
             {"mk", "mkd", "Macedonian", "Mazedonisch"},
             {"ms", "msa", "Malay", "Malaiisch"},
             {"mt", "mlt", "Maltese", "Maltesisch"},
             {"nb", "nob", "Norwegian", "Norwegisch"},
             {"nl", "nld", "Dutch", "Niederländisch"},
             {"no", "nor", "Norwegian", "Norwegisch"},
             {"pb", "", "Portuguese (Brazil)", "Portugiesisch (Brasilien)"},
             {"pl", "pol", "Polish", "Polnisch"},
             {"pt", "por", "Portuguese", "Portugiesisch"},
             {"ro", "ron", "Romanian", "Rumänisch"},
             {"ru", "rus", "Russian", "Russisch"},
             {"sk", "slk", "Slovak", "Slowakisch"},
             {"sl", "slv", "Slovenian", "Slowenisch"},
             {"sq", "sqi", "Albanian", "Albanisch"},
             {"sr", "srp", "Serbian", "Serbisch"},
             {"sv", "swe", "Swedish", "Schwedisch"},
             {"sw", "swa", "Swahili", "Suaheli"},
             {"ta", "tam", "Tamil", "Tamil"},
             {"th", "tha", "Thai", "Thailändisch"},
             {"tl", "tgl", "Tagalog", "Tagalog"},
             {"tr", "tur", "Turkish", "Türkisch"},
             {"uk", "ukr", "Ukrainian", "Ukrainisch"},
             {"ur", "urd", "Urdu", "Urdu"},
             {"vi", "vie", "Vietnamese", "Vietnamesisch"},
             {"zh", "zho", "Chinese", "Chinesisch"},
             {"zt", "", "Chinese (traditional)", "Chinesisch (traditionell)"}};

static const struct {
    const char *tag, *code;
} aliases[] = {{"pt-br", "pb"}, {"zh-hans", "zh"}, {"zh-hant", "zt"},  {"zh-tw", "zt"},
               {"zh-cn", "zh"}, {"por-br", "pb"},  {"zho-hans", "zh"}, {"zho-hant", "zt"}};

/* What some models have in place of a language of several: its most common one. */
static const struct {
    const char *iso, *code;
} members[] = {{"arb", "ar"}, {"azj", "az"}, {"ekk", "et"}, {"pes", "fa"}, {"lvs", "lv"},
               {"zsm", "ms"}, {"als", "sq"}, {"swh", "sw"}, {"cmn", "zh"}};

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

int languages_of_model(char code[LANGUAGES_CODE], const char *own) {
    if (languages_code(code, own, strlen(own))) return -1;
    code[strcspn(code, "-")] = 0; /* country or script */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(code, known[i].iso) == 0) return snprintf(code, 3, "%s", known[i].code), 0;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(code, members[i].iso) == 0) return snprintf(code, 3, "%s", members[i].code), 0;
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
