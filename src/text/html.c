/* html.c — see html.h. */
#include "text/html.h"

#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/utf8.h"
#include "text/html_entities.h"

/* ---- elements -------------------------------------------------------------------------------- */

static const struct element {
    const char *name;
    unsigned element;
} elements[] = {
    {"a", HTML_INLINE},
    {"abbr", HTML_INLINE},
    {"acronym", HTML_INLINE},
    {"area", HTML_VOID},
    {"b", HTML_INLINE},
    {"base", HTML_VOID},
    {"bdi", HTML_INLINE},
    {"bdo", HTML_INLINE},
    {"big", HTML_INLINE},
    {"br", HTML_INLINE | HTML_VOID | HTML_BREAK},
    {"cite", HTML_INLINE},
    {"code", HTML_INLINE | HTML_KEEP},
    {"col", HTML_VOID},
    {"data", HTML_INLINE},
    {"del", HTML_INLINE},
    {"dfn", HTML_INLINE},
    {"em", HTML_INLINE},
    {"embed", HTML_INLINE | HTML_VOID},
    {"font", HTML_INLINE},
    {"hr", HTML_VOID},
    {"i", HTML_INLINE},
    {"iframe", HTML_INLINE | HTML_KEEP | HTML_RAW},
    {"img", HTML_INLINE | HTML_VOID},
    {"input", HTML_INLINE | HTML_VOID},
    {"ins", HTML_INLINE},
    {"kbd", HTML_INLINE | HTML_KEEP},
    {"label", HTML_INLINE},
    {"link", HTML_VOID},
    {"mark", HTML_INLINE},
    {"math", HTML_INLINE | HTML_KEEP | HTML_XML},
    {"meta", HTML_VOID},
    {"nobr", HTML_INLINE},
    {"noembed", HTML_INLINE | HTML_KEEP | HTML_RAW},
    {"noframes", HTML_INLINE | HTML_KEEP | HTML_RAW},
    {"param", HTML_VOID},
    {"plaintext", HTML_KEEP | HTML_RAW},
    {"pre", HTML_KEEP},
    {"q", HTML_INLINE},
    {"s", HTML_INLINE},
    {"samp", HTML_INLINE | HTML_KEEP},
    {"script", HTML_INLINE | HTML_KEEP | HTML_RAW},
    {"small", HTML_INLINE},
    {"source", HTML_VOID},
    {"span", HTML_INLINE},
    {"strike", HTML_INLINE},
    {"strong", HTML_INLINE},
    {"style", HTML_INLINE | HTML_KEEP | HTML_RAW},
    {"sub", HTML_INLINE},
    {"sup", HTML_INLINE},
    {"svg", HTML_INLINE | HTML_KEEP | HTML_XML},
    {"textarea", HTML_INLINE | HTML_KEEP | HTML_RAW},
    {"time", HTML_INLINE},
    {"title", HTML_RAW},
    {"track", HTML_VOID},
    {"tt", HTML_INLINE},
    {"u", HTML_INLINE},
    {"var", HTML_INLINE | HTML_KEEP},
    {"wbr", HTML_INLINE | HTML_VOID},
    {"xmp", HTML_KEEP | HTML_RAW},
};

static const struct element *find_element(const char *name, size_t size) {
    size_t low = 0, high = sizeof elements / sizeof *elements;
    while (low < high) {
        size_t at = (low + high) / 2;
        size_t length = strlen(elements[at].name); /* name may hold NUL bytes */
        int order = strncasecmp(name, elements[at].name, min_size(size, length));
        if (!order) order = size < length ? -1 : size > length;
        if (!order) return &elements[at];
        if (order < 0)
            high = at;
        else
            low = at + 1;
    }
    return NULL;
}

/* ---- the scanner ----------------------------------------------------------------------------- */

static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'; }

struct html html_open(const char *text, size_t size) {
    return (struct html){.text = text, .size = size};
}

int html_same_name(const char *text, const struct html_token *a, const struct html_token *b) {
    return a->name_size == b->name_size &&
           strncasecmp(text + a->name, text + b->name, (size_t)a->name_size) == 0;
}

/* The end of the first `what` at or behind `at`, or 0. */
static size_t find(const struct html *h, size_t at, const char *what) {
    size_t n = strlen(what);
    for (const char *p; at + n <= h->size; at = (size_t)(p - h->text) + 1) {
        p = memchr(h->text + at, what[0], h->size - at - n + 1);
        if (!p) return 0;
        if (memcmp(p, what, n) == 0) return (size_t)(p - h->text) + n;
    }
    return 0;
}

static int starts(const struct html *h, size_t at, const char *what) {
    size_t n = strlen(what);
    return h->size - at >= n && memcmp(h->text + at, what, n) == 0;
}

/* The end of the comment that begins at `at`. */
static size_t comment_end(const struct html *h, size_t at) {
    if (starts(h, at, "<!-->")) return at + 5;
    if (starts(h, at, "<!--->")) return at + 6;
    for (size_t end = at + 4; (end = find(h, end, "--"));) {
        while (end < h->size && h->text[end] == '-') end++;
        if (end < h->size && h->text[end] == '>') return end + 1;
        if (starts(h, end, "!>")) return end + 2;
    }
    return h->size;
}

/* The end of what begins with <! or <? or </ and is no tag. */
static size_t other_end(const struct html *h, size_t at) {
    if (starts(h, at, "<!--")) return comment_end(h, at);
    size_t end = find(h, at, h->xml && starts(h, at, "<![CDATA[") ? "]]>" : ">");
    return end ? end : h->size;
}

static int has_word(const char *list, size_t size, const char *word) {
    size_t n = strlen(word);
    for (size_t at = 0, end; at < size; at = end + 1) {
        for (end = at; end < size && !is_space(list[end]);) end++;
        if (end - at == n && strncasecmp(list + at, word, n) == 0) return 1;
    }
    return 0;
}

/* Does the attribute say that its element is not for translation? */
static int says_keep(const char *name, size_t name_size, const char *value, size_t size) {
    if (name_size == 9 && strncasecmp(name, "translate", 9) == 0)
        return size == 2 && strncasecmp(value, "no", 2) == 0;
    return name_size == 5 && strncasecmp(name, "class", 5) == 0 &&
           has_word(value, size, "notranslate");
}

/* Moves behind one attribute, which begins at `at`, and takes note of what it says. */
static size_t take_attribute(const struct html *h, size_t at, struct html_token *token) {
    const char *t = h->text;
    size_t name = at++, name_end, value, end; /* a = may begin a name */
    while (at < h->size && !is_space(t[at]) && t[at] != '/' && t[at] != '>' && t[at] != '=') at++;
    name_end = at;
    while (at < h->size && is_space(t[at])) at++;
    if (at >= h->size || t[at] != '=') return at;
    for (at++; at < h->size && is_space(t[at]);) at++;
    if (at < h->size && (t[at] == '"' || t[at] == '\'')) {
        const char *quote = memchr(t + at + 1, t[at], h->size - at - 1);
        if (!quote) return h->size;
        value = at + 1;
        end = (size_t)(quote - t);
        at = end + 1;
    } else {
        for (value = at; at < h->size && !is_space(t[at]) && t[at] != '>';) at++;
        end = at;
    }
    token->keep |= says_keep(t + name, name_end - name, t + value, end - value);
    return at;
}

/* A tag; the name begins at token->name. */
static void take_tag(struct html *h, struct html_token *token) {
    const char *t = h->text;
    size_t at = token->name;
    while (at < h->size && !is_space(t[at]) && t[at] != '/' && t[at] != '>') at++;
    size_t size = at - token->name;
    int slash = 0;
    token->name_size = (int)min_size(size, 1 << 20);
    while (at < h->size && t[at] != '>') {
        slash = t[at] == '/';
        if (is_space(t[at]) || slash)
            at++;
        else
            at = take_attribute(h, at, token);
    }
    if (at >= h->size) {
        *token = (struct html_token){.kind = HTML_OTHER, .begin = token->begin, .end = h->size};
        return;
    }
    token->end = at + 1;
    const struct element *e = find_element(t + token->name, size);
    token->element = e ? e->element : HTML_BLOCK;
    int xml = h->xml || (token->element & HTML_XML);
    token->empty = xml && token->kind == HTML_OPEN && slash;
    if ((token->element & HTML_XML) && !h->xml) h->of = e->name;
    if ((token->element & HTML_XML) && h->of == e->name)
        h->xml += token->kind == HTML_OPEN ? !token->empty : -(h->xml > 0);
    if (token->kind == HTML_OPEN && (token->element & HTML_RAW) && !h->xml) {
        h->raw = e->name;
        h->raw_text = !(e->element & HTML_KEEP);
    }
}

/* What is before the end tag of the raw element. */
static struct html_token take_raw(struct html *h) {
    size_t begin = h->at, end = h->size, n = strlen(h->raw);
    for (size_t at = begin; (at = find(h, at, "</"));) {
        if (h->size - at < n || strncasecmp(h->text + at, h->raw, n) != 0) continue;
        char c = at + n < h->size ? h->text[at + n] : 0;
        if (!is_space(c) && c != '/' && c != '>') continue;
        if (strcmp(h->raw, "plaintext") == 0) continue;
        end = at - 2;
        break;
    }
    h->raw = NULL;
    return (struct html_token){
        .kind = h->raw_text ? HTML_TEXT : HTML_OTHER, .begin = begin, .end = end};
}

/* Does markup begin at `at`, where a < is? */
static int is_markup(const struct html *h, size_t at) {
    char c = at + 1 < h->size ? h->text[at + 1] : 0;
    return is_letter(c) || c == '!' || c == '?' || (c == '/' && at + 2 < h->size);
}

static size_t text_end(const struct html *h, size_t at) {
    for (; at < h->size; at++) {
        const char *p = memchr(h->text + at, '<', h->size - at);
        if (!p) return h->size;
        at = (size_t)(p - h->text);
        if (is_markup(h, at)) return at;
    }
    return h->size;
}

struct html_token html_next(struct html *h) {
    struct html_token token = {.kind = HTML_END, .begin = h->at, .end = h->size};
    if (h->at >= h->size) return token;
    if (h->raw) {
        token = take_raw(h);
        h->at = token.end;
        if (token.end > token.begin) return token;
        token = (struct html_token){.begin = h->at};
    }
    if (h->text[h->at] != '<' || !is_markup(h, h->at)) {
        token.kind = HTML_TEXT;
        token.end = text_end(h, h->at);
    } else {
        int close = h->text[h->at + 1] == '/';
        token.name = h->at + 1 + (size_t)close;
        token.kind = close ? HTML_CLOSE : HTML_OPEN;
        if (is_letter(h->text[token.name])) {
            take_tag(h, &token);
        } else {
            token.kind = HTML_OTHER;
            token.end = other_end(h, h->at);
        }
    }
    token.xml = h->xml > 0;
    h->at = token.end;
    return token;
}

/* ---- characters ------------------------------------------------------------------------------ */

static const struct entity *find_entity(const char *name, size_t size) {
    size_t low = 0, high = sizeof entities / sizeof *entities;
    while (low < high) {
        size_t at = (low + high) / 2;
        int order = strncmp(name, entities[at].name, size);
        if (!order && entities[at].name[size]) order = -1;
        if (!order) return &entities[at];
        if (order < 0)
            high = at;
        else
            low = at + 1;
    }
    return NULL;
}

/* What browsers read in place of the control characters U+0080 to U+009F: those of Windows. */
static const uint16_t windows[32] = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                     0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                     0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                     0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

static int digit_of(char c, int base) {
    if (is_digit(c)) return c - '0';
    c |= 32;
    return base == 16 && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* text begins with &#. */
static int numeric(uint32_t *code, const char *text, size_t size) {
    int base = size > 2 && (text[2] | 32) == 'x' ? 16 : 10;
    size_t begin = base == 16 ? 3 : 2, at = begin;
    uint32_t c = 0;
    for (int d; at < size && (d = digit_of(text[at], base)) >= 0; at++)
        c = c > 0x10FFFF ? c : c * (uint32_t)base + (uint32_t)d;
    if (at == begin || at > 1 << 20) return 0;
    if (c >= 0x80 && c < 0xA0) c = windows[c - 0x80];
    if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
    *code = c;
    return (int)at + (at < size && text[at] == ';');
}

int html_reference(uint32_t *code, const char *text, size_t size) {
    enum { LONGEST = 40 };
    size_t n = 1;
    if (size > 1 && text[1] == '#') return numeric(code, text, size);
    while (n < size && n < LONGEST && (is_letter(text[n]) || is_digit(text[n]))) n++;
    const struct entity *e = find_entity(text + 1, n - 1);
    if (n < size && text[n] == ';') {
        if (e) return *code = e->code, (int)n + 1;
    } else if (e && e->bare) {
        return *code = e->code, (int)n;
    }
    for (size_t k = min_size(n - 1, 6); k >= 2; k--) /* &ltx is &lt;x */
        if ((e = find_entity(text + 1, k)) && e->bare) return *code = e->code, (int)k + 1;
    return n > 1 && n < size && text[n] == ';' ? -(int)n - 1 : 0;
}

size_t html_escape(char *out, const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        const char *ref = text[i] == '&' ? "&amp;" : text[i] == '<' ? "&lt;" : NULL;
        if (text[i] == '>') ref = "&gt;";
        if (text[i] == '\xC2' && i + 1 < size && text[i + 1] == '\xA0') ref = "&nbsp;", i++;
        size_t length = ref ? strlen(ref) : 1;
        for (size_t k = 0; k < length; k++) out[n + k] = ref ? ref[k] : text[i];
        n += length;
    }
    return n;
}
