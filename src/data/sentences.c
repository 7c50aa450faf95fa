/* sentences.c — see sentences.h.
 *
 * `sentence_end` looks for a mark, `take_marks` takes the run of marks and closers it begins, and
 * `ends` decides by what is before and behind. Lists are strings of words with a space around each:
 * short enough to search, easy to read and to add to. */
#include "data/sentences.h"

#include <string.h>

#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"

/* ---- what languages know --------------------------------------------------------------------- */

struct sentence_rules {
    const char *tag;
    /* in small letters, without the last stop: what cannot end a sentence, what abbreviates
     * before a number only, what may end one, and does before a capital letter */
    const char *never, *number, *maybe, *ends;
    const char *first; /* words that sentences begin with; as written */
    const char *last;  /* words whose number is not an ordinal: Artikel 3. */
    const char *owner; /* words that make a number of three digits one: zum 100. Geburtstag */
    const char *month;
    int ordinals;
};

#define EN_NEVER                                                                                   \
    " dr mr mrs ms messrs prof st mt rev hon gen col capt lt sgt maj cpl cmdr adm gov sen rep "    \
    "pres supt msgr e.g i.e vs cf viz approx ca esp ph.d m.d b.a m.a d.c r.i.p "
#define EN_NUMBER                                                                                  \
    " no nos p pp fig figs vol vols sec sect ch chap art arts par para eq eqs tab ex ver op pt "   \
    "jan feb mar apr jun jul aug sep sept oct nov dec c "
#define EN_MAYBE " inc ltd co corp bros jr sr dept est ave blvd rd bldg univ assn a.m p.m u.s "
#define EN_ENDS  " etc al "
#define EN_FIRST                                                                                   \
    " The A An This That These Those He She It We They I You In On At But And Or If When While "   \
    "As For From By To With Without However Therefore Moreover Furthermore What Who Why How "      \
    "Where Which There Here My Our Your His Her Their Its Not No Yes Let Please So Then Since "    \
    "After Before Although Because Also Both Each Every Many Some Such Mr Mrs Ms Nor Only Once "   \
    "Until Under Over Today Tomorrow Yesterday Finally Indeed Now Do Does Did Is Are Was Were "    \
    "Can Could Will Would Shall Should May Might Must Thank Thus Perhaps Even All Any Most "
#define DE_NEVER                                                                                   \
    " dr prof fa hr hrn fr frl st ing dipl mag z.b d.h u.a.m i.d.r i.e e.g m.e m.w u.u v.a z.t "   \
    "z.zt s.o s.u b.z.w a.a.o i.s.d bzw ca evtl ggf gegf vgl inkl exkl zzgl sog insb insbes "      \
    "bspw beispielsw mind max min allg eigtl urspr ehem geb gest gez verh zzt einschl ausschl "    \
    "abzgl betr gem lt röm kath evang jap engl frz dt österr griech lat vs "
#define DE_NUMBER                                                                                  \
    " nr nrn abs art kap abb tab bd bde s ss ziff rdnr rn anm aufl jg hrsg tel pos par anl verf "  \
    "jan feb mär apr jun jul aug sep sept okt nov dez abschn buchst "
#define DE_MAYBE " str u.a u.s.w u.v.m usf ff f mio mrd bio tsd std jh jhd jhdt o.ä u.ä o.g p.a "
#define DE_ENDS  " etc usw "
#define DE_FIRST                                                                                   \
    " Der Die Das Dem Den Des Ein Eine Einen Einem Einer Eines Er Sie Es Wir Ich Ihr Du Man Dies " \
    "Diese Dieser Dieses Diesen Diesem Jene Jener In Im Am An Auf Aus Bei Beim Mit Nach Von Vom "  \
    "Vor Zu Zum Zur Für Über Unter Durch Gegen Ohne Um Und Aber Oder Denn Doch Wenn Als Ob "     \
    "Weil Da Dass Daß Damit Obwohl Während Wer Was Wie Wo Warum Wann Hier Dort Dann "            \
    "Danach Deshalb Daher Dabei Dazu Darum Darüber So Auch Nur Noch Nicht Kein Keine Mein "       \
    "Meine Unser Unsere Sein Seine Ihre Jeder Jede Jedes Alle Allerdings Außerdem Jedoch "        \
    "Zudem Ferner Trotzdem Bitte Ja Nein Nun Jetzt Heute Gestern Morgen Schließlich Seit Bis "    \
    "Sind "                                                                                        \
    "Ist War Hat Haben Viele Einige Beide Manche Solche Somit Vielen Meiner Meines Sowohl Sollte " \
    "Können "                                                                                     \
    "Würde "
#define DE_LAST                                                                                    \
    " Artikel Artikeln Artikels Abschnitt Kapitel Seite Seiten Absatz Absätze Absätzen Nummer "  \
    "Nr. Ziffer Teil Punkt Punkte Nummern Anhang Kategorie Stufe Zimmer Gleis Klasse Platz "       \
    "Version § Abbildung Tabelle Ziel Protokoll Anlage Erwägung und "
#define DE_OWNER " der die das dem den des zum zur am im vom beim ihr ihren sein seinen mein ein "
#define DE_MONTH                                                                                   \
    " Januar Jänner Februar Feber März April Mai Juni Juli August September Oktober November "   \
    "Dezember "

static const struct sentence_rules rules_of[] = {
    {"", EN_NEVER DE_NEVER, EN_NUMBER DE_NUMBER, EN_MAYBE DE_MAYBE, EN_ENDS DE_ENDS,
     EN_FIRST DE_FIRST, DE_LAST, DE_OWNER, DE_MONTH, 0},
    {"en", EN_NEVER, EN_NUMBER, EN_MAYBE, EN_ENDS, EN_FIRST, "", "", "", 0},
    {"de", DE_NEVER, DE_NUMBER, DE_MAYBE, DE_ENDS, DE_FIRST, DE_LAST, DE_OWNER, DE_MONTH, 1},
};

const struct sentence_rules *sentence_rules(const char *language) {
    size_t n = language ? strcspn(language, "-_") : 0;
    for (size_t i = 1; n && i < sizeof rules_of / sizeof *rules_of; i++)
        if (strncmp(rules_of[i].tag, language, n) == 0 && !rules_of[i].tag[n]) return &rules_of[i];
    return rules_of;
}

/* ---- characters ------------------------------------------------------------------------------ */

struct reader {
    const char *text;
    size_t size, at;
};

/* Takes the character at r->at and moves past it; 0 at the end. */
static uint32_t take(struct reader *r) {
    uint32_t code = 0;
    if (r->at >= r->size) return 0;
    int n = utf8_decode(&code, r->text + r->at, r->size - r->at);
    r->at += (size_t)(n < 0 ? -n : n);
    return n < 0 || !code ? 0xFFFD : code;
}

static uint32_t peek(struct reader r) { return take(&r); }

static int among(uint32_t c, const uint32_t *set) {
    for (; *set; set++)
        if (*set == c) return 1;
    return 0;
}

/* Marks of scripts that write a space behind, and of those that do not. */
static int is_spaced(uint32_t c) {
    static const uint32_t set[] = {0x2026, 0x203C, 0x203D, 0x2047, 0x2048, 0x2049,
                                   0x0589, 0x061F, 0x06D4, 0x1362, 0x17D4, 0};
    return c < 0x80 ? c == '.' || c == '!' || c == '?' : among(c, set);
}
static int is_wide(uint32_t c) {
    static const uint32_t set[] = {0x3002, 0xFF01, 0xFF1F, 0xFF61, 0x0964, 0x0965, 0x104B, 0};
    return c >= 0x80 && among(c, set);
}

static int is_closer(uint32_t c) {
    static const uint32_t set[] = {'"',    '\'',   ')',    ']',    '}',    0xBB,   0xAB,
                                   0x2018, 0x2019, 0x201C, 0x201D, 0x203A, 0x2039, 0x300D,
                                   0x300F, 0x3011, 0xFF09, 0xFF3D, 0x200D, 0xFE0F, 0};
    return among(c, set) || (c >= 0x2600 && c <= 0x27BF) || (c >= 0x1F000 && c <= 0x1FAFF);
}
static int is_opener(uint32_t c) {
    static const uint32_t set[] = {'"',    '\'',   '(',    '[',    '{',    0xBB,   0xAB,
                                   0x2018, 0x201A, 0x201C, 0x201E, 0x203A, 0xBF,   0xA1,
                                   0x2039, '*',    '_',    '-',    0x2013, 0x2014, 0};
    return among(c, set);
}

static int is_digit(uint32_t c) { return c >= '0' && c <= '9'; }

static int is_letter(uint32_t c) {
    return c && !unicode_is_space(c) && unicode_category(c) == UNICODE_OTHER;
}

static int is_upper(uint32_t c) {
    uint32_t low[2];
    if (c < 0x80) return c >= 'A' && c <= 'Z';
    return is_letter(c) && (unicode_lower(low, &c, 1) != 1 || low[0] != c);
}

/* A small letter of Latin, Greek, Cyrillic or Armenian; other scripts hardly have case. */
static int is_lower(uint32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z';
    int cased = c <= 0x24F || (c >= 0x370 && c <= 0x587) || (c >= 0x1E00 && c <= 0x1FFF);
    return cased && is_letter(c) && !is_upper(c);
}

size_t sentence_skip_space(const char *text, size_t size, size_t from) {
    struct reader r = {text, size, from};
    for (struct reader next = r; r.at < size; r = next)
        if (!unicode_is_space(take(&next))) break;
    return r.at;
}

/* ---- words around a mark --------------------------------------------------------------------- */

struct word {
    const char *text;
    size_t size; /* 0: none; more than SENTENCE_REACH: too long for any list */
};

static size_t back(const char *text, size_t at) {
    size_t least = at > 4 ? at - 4 : 0;
    do at--;
    while (at > least && ((unsigned char)text[at] & 0xC0u) == 0x80);
    return at;
}

/* The word that ends at text[end], begun behind white space, an opening mark or text[from]. */
static struct word word_before(const char *text, size_t from, size_t end) {
    size_t at = end;
    while (at > from && end - at <= SENTENCE_REACH) {
        size_t before = back(text, at);
        uint32_t c = peek((struct reader){text, at, before});
        if (before < from || unicode_is_space(c) || (is_opener(c) && c != '-')) break;
        at = before;
    }
    return (struct word){text + at, end - at};
}

/* The same, further back: white space comes first. */
static struct word word_before_that(const char *text, size_t from, struct word w) {
    size_t at = (size_t)(w.text - text);
    for (int i = 0; i < 4 && at > from; i++) {
        size_t before = back(text, at);
        if (!unicode_is_space(peek((struct reader){text, at, before}))) break;
        at = before;
    }
    return word_before(text, from, at);
}

static struct word word_behind(const char *text, size_t size, size_t at) {
    struct reader r = {text, size, at}, next = r;
    for (; is_letter(take(&next)) && next.at - at <= SENTENCE_REACH; r = next)
        ;
    return (struct word){text + at, r.at - at};
}

/* Is the word in the list? fold: the list is in small letters. */
static int listed(const char *list, struct word w, int fold) {
    char key[SENTENCE_REACH + 3] = " ";
    if (w.size == 0 || w.size > SENTENCE_REACH || memchr(w.text, 0, w.size)) return 0;
    for (size_t i = 0; i < w.size; i++) {
        char c = w.text[i];
        key[i + 1] = fold && c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        if (fold && i && (unsigned char)key[i] == 0xC3 && (unsigned char)c < 0x9F)
            key[i + 1] = (char)(c + 0x20); /* the capitals of Latin-1 */
    }
    key[w.size + 1] = ' ';
    return strstr(list, key) != NULL;
}

static int only_digits(struct word w) {
    for (size_t i = 0; i < w.size; i++)
        if (!is_digit((unsigned char)w.text[i])) return 0;
    return w.size > 0;
}

static int is_roman(struct word w) {
    for (size_t i = 0; i < w.size; i++)
        if (w.text[i] != 'I' && w.text[i] != 'V' && w.text[i] != 'X') return 0;
    return w.size > 0 && w.size < 8;
}

static int one_letter(struct word w) {
    struct reader r = {w.text, w.size, 0};
    return w.size && w.size <= 4 && is_letter(take(&r)) && r.at == w.size;
}

/* "U.S", "z.B", "Ph.D": letters, one or two at a time, with stops between them. */
static int has_stops(struct word w) {
    struct reader r = {w.text, w.size, 0};
    int run = 0, stops = 0;
    if (w.size > SENTENCE_REACH) return 0;
    for (uint32_t c; (c = take(&r));) {
        if (c == '.' && run) {
            stops++;
            run = 0;
        } else if (!is_letter(c) || ++run > 2) {
            return 0;
        }
    }
    return stops > 0 && run == 1;
}

/* ---- the decision ---------------------------------------------------------------------------- */

/* Marks and what follows. */
struct stop {
    size_t begin, end; /* of the run of marks and closers */
    int dots, strong, wide, quoted;
    uint32_t next; /* first character behind, white space and opening marks left out; 0: none */
    size_t next_at;
    int spaced, opened, bracket; /* white space, opening marks, "(" among them, before it */
};

/* "[12]" behind a mark: a note's number. */
static size_t take_note(struct reader r) {
    size_t n = 0;
    if (take(&r) != '[') return 0;
    while (is_digit(peek(r)) && n < 4) take(&r), n++;
    return n && take(&r) == ']' ? r.at : 0;
}

static int lone_dot(struct reader r) {
    if (take(&r) != '.') return 0;
    uint32_t c = peek(r);
    return !c || unicode_is_space(c);
}

/* The run that the mark at r->at begins; r is moved behind it. */
static struct stop take_marks(struct reader *r) {
    struct stop s = {.begin = r->at};
    for (;;) {
        struct reader ahead = *r;
        uint32_t c = take(&ahead);
        size_t note = s.end ? take_note(*r) : 0;
        if (note) {
            ahead.at = note;
        } else if (is_wide(c)) {
            s.wide = 1;
        } else if (c == '.' || c == 0x2026) {
            s.dots += c == '.' ? 1 : 3;
        } else if (is_spaced(c)) {
            s.strong = 1;
        } else if (s.end && is_closer(c)) {
            s.quoted = 1;
        } else if (s.dots && c == ' ' && lone_dot(ahead)) { /* . . . */
            s.dots++;
            take(&ahead);
        } else {
            break;
        }
        *r = ahead;
        s.end = r->at;
    }
    return s;
}

/* "« Oui. » Il": a closing mark that stands alone belongs to the run before it. */
static void take_lone_closer(struct stop *s, struct reader *r) {
    struct reader ahead = *r;
    ahead.at = sentence_skip_space(r->text, r->size, r->at);
    if (ahead.at == r->at || take(&ahead) != 0xBB) return;
    uint32_t c = peek(ahead);
    if (c && !unicode_is_space(c)) return;
    s->end = r->at = ahead.at;
    s->quoted = 1;
}

static void look_behind(struct stop *s, struct reader r) {
    size_t at = sentence_skip_space(r.text, r.size, r.at);
    s->spaced = at > r.at || at == r.size;
    r.at = at;
    for (int i = 0; i < 6 && is_opener(peek(r)); i++, s->opened = 1)
        if (take(&r) == '(') s->bracket = 1;
    if (s->opened) r.at = sentence_skip_space(r.text, r.size, r.at);
    s->next_at = r.at;
    s->next = peek(r);
}

/* Does what follows go on with the sentence? A small letter does, but for names like iPhone. */
static int goes_on(const struct stop *s, struct reader r) {
    static const uint32_t on[] = {',', ';', ':', 0x3001, 0xFF0C, 0x060C, 0};
    r.at = s->next_at;
    uint32_t c = take(&r), second = peek(r);
    if (among(c, on)) return !second || unicode_is_space(second) || c >= 0x80; /* no :-) */
    return is_lower(c) && !is_upper(second);
}

/* A number and a stop. */
static int ends_number(const struct sentence_rules *rules, const char *text, size_t from,
                       const struct stop *s, struct word w, struct word next) {
    int ordinal = is_roman(w) || w.size <= 2;
    if (is_digit(s->next) && only_digits(w) && w.size <= 2) return 0; /* 3. 10. 1990 */
    if (listed(rules->month, next, 0)) return w.size > 2;
    if (!rules->ordinals || !is_upper(s->next)) return 1;
    struct word before = word_before_that(text, from, w);
    if (listed(rules->last, before, 0)) return 1;
    if (before.size > 1 && before.text[before.size - 1] == '.' &&
        listed(rules->number, (struct word){before.text, before.size - 1}, 1))
        return 1; /* auf S. 14. */
    if (w.size == 3 && only_digits(w)) ordinal = listed(rules->owner, before, 1);
    return !ordinal || listed(rules->first, next, 0);
}

/* "z. B.": the letters before belong to it. */
static struct word glue(const char *text, size_t from, struct word w, char *room) {
    char glued[SENTENCE_REACH];
    size_t n = 0;
    if (!one_letter(w)) return w;
    n = w.size;
    memcpy(glued + SENTENCE_REACH - n, w.text, n);
    for (int i = 0; i < 4; i++) {
        struct word before = word_before_that(text, from, w), letter = before;
        if (before.size < 2 || before.text[before.size - 1] != '.') break;
        letter.size--;
        if (!one_letter(letter)) break;
        n += before.size;
        memcpy(glued + SENTENCE_REACH - n, before.text, before.size);
        w = before;
    }
    memcpy(room, glued + SENTENCE_REACH - n, n);
    return (struct word){room, n};
}

/* A single full stop. */
static int ends_full(const struct sentence_rules *rules, const char *text, size_t size, size_t from,
                     const struct stop *s) {
    char room[SENTENCE_REACH];
    struct word w = word_before(text, from, s->begin), next = word_behind(text, size, s->next_at);
    struct word abbreviation = glue(text, from, w, room);
    if (w.size == 0 || w.size > SENTENCE_REACH) return 1;
    if (w.text == text + from && w.size <= 3 && (only_digits(w) || one_letter(w) || is_roman(w)))
        return s->quoted; /* 1. First, but "(1.)" is all there is */
    if (listed(rules->never, abbreviation, 1)) return 0;
    int street = w.size > 3 && memcmp(w.text + w.size - 3, "str", 3) == 0;
    if ((listed(rules->number, w, 1) || street) && (is_digit(s->next) || is_roman(next))) return 0;
    if (!only_digits(w) && is_digit((unsigned char)w.text[w.size - 1]) &&
        listed(rules->month, next, 0))
        return 0; /* 28.-29. Oktober */
    if (only_digits(w) || (rules->ordinals && is_roman(w)))
        return ends_number(rules, text, from, s, w, next);
    if (listed(rules->ends, w, 1)) return s->quoted || (is_upper(s->next) && !s->bracket);
    int first = listed(rules->first, next, 0) || s->quoted;
    if (listed(rules->maybe, abbreviation, 1)) return first;
    if (one_letter(w)) {
        size_t dot = s->next_at + next.size;
        if (one_letter(next) && dot < size && text[dot] == '.') return 0;
        uint32_t letter = peek((struct reader){w.text, w.size, 0});
        return first || !is_letter(s->next) || !(is_upper(letter) || is_lower(letter));
    }
    return has_stops(abbreviation) ? first : 1;
}

static int ends(const struct sentence_rules *rules, struct reader r, size_t from, struct stop *s) {
    if (!s->next) return 1;
    if (s->wide) /* 「行く。」と言った */
        return !(s->quoted && !s->spaced && (s->next == 0x3068 || s->next == 0x3063)) &&
               !(s->spaced && goes_on(s, r));
    if (!s->spaced || goes_on(s, r)) return 0;
    if (s->strong) return 1;
    if (s->dots > 1) return !is_digit(s->next);
    return ends_full(rules, r.text, r.size, from, s);
}

/* | · • │ › ｜ between the items of a menu, a title, a path */
static int is_bar(uint32_t c) {
    return c == '|' || c == 0xB7 || c == 0x2022 || c == 0x2502 || c == 0x203A || c == 0xFF5C;
}

/* Bytes of the bar at text[at], before which is white space or nothing, if such is behind it, too;
 * or 0. */
static size_t lone_bar(const char *text, size_t size, size_t at) {
    struct reader r = {text, size, at};
    if (at >= size || !is_bar(take(&r))) return 0;
    return r.at == size || unicode_is_space(peek(r)) ? r.at - at : 0;
}

int sentence_is_bar(const char *text, size_t size) {
    return size && lone_bar(text, size, 0) == size;
}

size_t sentence_end(const struct sentence_rules *rules, const char *text, size_t size,
                    size_t from) {
    struct reader r = {text, size, from};
    if (!from || unicode_is_space(peek((struct reader){text, size, back(text, from)}))) {
        size_t bar = lone_bar(text, size, from);
        if (bar) return from + bar;
    }
    while (r.at < size) {
        struct reader ahead = r;
        uint32_t c = take(&ahead);
        if (unicode_is_space(c)) {
            size_t next = sentence_skip_space(text, size, ahead.at);
            if (lone_bar(text, size, next)) return r.at;
            r.at = next;
            continue;
        }
        if (!is_spaced(c) && !is_wide(c)) {
            r = ahead;
            continue;
        }
        struct stop s = take_marks(&r);
        if (s.strong || s.dots) take_lone_closer(&s, &r);
        look_behind(&s, r);
        if (ends(rules, r, from, &s)) return s.end;
    }
    while (size > from + 1 && unicode_is_space(peek((struct reader){text, size, back(text, size)})))
        size = back(text, size);
    return max_size(size, from + 1);
}

int sentence_begins_month(const struct sentence_rules *rules, const char *text, size_t size) {
    return listed(rules->month, word_behind(text, size, 0), 0);
}

int sentence_ends_wide(const char *text, size_t size) {
    size_t at = size;
    for (int i = 0; i < 4 && at > 0; i++) {
        struct reader r = {text, at, back(text, at)};
        uint32_t c = peek(r);
        at = r.at;
        if (is_wide(c)) return 1;
        if (!is_closer(c)) return 0;
    }
    return 0;
}
