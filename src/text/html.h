/* html.h — a scanner of HTML that keeps every byte.
 *
 * It cuts a document into tokens that, one after another, are the document: text, tags, and all
 * else. It reads any bytes in one pass, as a browser's tokenizer would:
 *
 *   tag          < or </ and a letter, up to the > outside quoted attribute values
 *   other        comments, doctypes, processing instructions, </ and no letter, CDATA (which is a
 *                comment up to > outside of <svg> and <math>), the content of script, style,
 *                textarea and their like, and a tag that the document ends in
 *   text         everything else, a lone < among it; also the content of title
 *
 * Tokens point into the document, which stays the caller's. Nothing fails. */
#ifndef TEXT_HTML_H
#define TEXT_HTML_H

#include <stddef.h>
#include <stdint.h>

enum html_kind { HTML_TEXT, HTML_OPEN, HTML_CLOSE, HTML_OTHER, HTML_END };

/* What an element is to a translator. Elements that are not known end sentences, as blocks do. */
enum html_class {
    HTML_BLOCK,
    HTML_INLINE = 1, /* within a sentence */
    HTML_VOID = 2,   /* without content or end tag */
    HTML_KEEP = 4,   /* its content is not for translation */
    HTML_RAW = 8,    /* its content has no tags */
    HTML_BREAK = 16, /* <br> */
    HTML_XML = 32,   /* <svg>, <math>: inside, CDATA sections are, and <x/> has no content */
};

struct html_token {
    size_t begin, end; /* bytes of the document */
    size_t name;       /* of a tag: where it is, */
    int name_size;     /* and how long */
    enum html_kind kind;
    unsigned element; /* enum html_class */
    int keep;         /* of a start tag: translate="no" or class="notranslate" */
    int empty;        /* of a start tag: it ends in /> where that means something */
    int xml;          /* what follows is inside <svg> or <math> */
};

struct html {
    const char *text;
    size_t size, at;
    const char *raw; /* the element whose raw content comes next, or NULL */
    int raw_text;    /* it is text */
    int xml;         /* how many <svg> are open, or <math> */
    const char *of;  /* the name of those */
};

struct html html_open(const char *text, size_t size);

/* The next token; HTML_END after the last. */
struct html_token html_next(struct html *html);

/* Have two tags the same name? */
int html_same_name(const char *text, const struct html_token *a, const struct html_token *b);

/* ---- characters ------------------------------------------------------------------------------ */

/* The character reference at text[0..size), which begins with &: its length, with *code set to the
 * character; or 0: this is no reference, just an &; or minus its length: it has the form of one
 * (&name;), but is none of those that HTML 4 knows. */
int html_reference(uint32_t *code, const char *text, size_t size);

/* text as HTML: & < > and no-break spaces are written as references. At most 6 times as long. */
size_t html_escape(char *out, const char *text, size_t size);

#endif
