/* office.c — the XML of word processors: paragraphs as texts.
 *
 *   .odt    <text:p> and <text:h> hold text, <text:span> and <text:a> are around it
 *   .docx   <w:p> holds runs <w:r>, which hold <w:t> and say in <w:rPr> what it looks like; links
 *           and their like are around runs
 *
 * Of a .docx paragraph, the run with the longest text says what is usual. Words in runs that look
 * the same need no mark, other runs are pairs of marks. What is written are new runs, one for each
 * stretch of words. A field (a page number, a reference) moves as a whole and is not translated; of
 * links and tables of contents, which are fields, too, the text is.
 *
 * Everything else in a paragraph is a thing that moves with the words beside it, and may have
 * paragraphs inside (notes, text boxes), which are texts of their own. */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "text/document_parts.h"
#include "text/xml.h"

enum { DEEPEST = 8 }; /* paragraphs in paragraphs */

/* Tags of marks: a pair is one more than its token, which is positive. */
enum { TAG_RAW = 0, TAG_RUN = -1, TAG_CHILD = -2 };

struct reader {
    struct flow *flow;
    const char *bytes;
    struct xml_token *token;
    int n;
    const char *prefix; /* of a .docx's names: that of its first element */
    int n_prefix;
    struct buffer words;
    struct piece base, look; /* what is usual, and what the open mark says, if there is one */
    int in_run;
    int no_field;   /* there is no end of a field any more */
    int text_until; /* fields that begin before this token have text to translate */
};

static size_t size_of(struct piece p) { return p.end - p.begin; }

static int same(const char *bytes, struct piece a, struct piece b) {
    return size_of(a) == size_of(b) && memcmp(bytes + a.begin, bytes + b.begin, size_of(a)) == 0;
}

/* An element with all that is in it. */
static struct piece whole(const struct reader *r, int i) {
    struct piece p = r->token[i].of;
    if (r->token[i].kind == XML_OPEN) p.end = r->token[r->token[i].mate].of.end;
    return p;
}

static int behind(const struct reader *r, int i) {
    return r->token[i].kind == XML_OPEN ? (int)r->token[i].mate + 1 : i + 1;
}

static int is_start(const struct xml_token *t) {
    return t->kind == XML_OPEN || t->kind == XML_EMPTY;
}

static int is_one_of(const struct reader *r, int i, const char *const *name) {
    for (; *name; name++)
        if (xml_is(r->bytes, &r->token[i], *name)) return 1;
    return 0;
}

/* The text of a token. */
static void add_words(struct reader *r, int i) {
    const struct xml_token *t = &r->token[i];
    r->words.size = 0;
    if (t->kind == XML_TEXT)
        xml_decode(&r->words, r->bytes + t->of.begin, size_of(t->of));
    else /* <![CDATA[...]]> */
        buffer_put(&r->words, r->bytes + t->of.begin + 9, size_of(t->of) - 12);
    if (r->words.size) flow_words(r->flow, r->words.text, r->words.size);
}

static void add_thing(struct reader *r, int i) {
    flow_mark(r->flow, MARK_THING, TAG_RAW, whole(r, i));
}

/* ---- .odt ------------------------------------------------------------------------------------ */

static const char *const odt_paragraph[] = {"text:p", "text:h", NULL};
static const char *const odt_pair[] = {"text:span", "text:a", "text:meta", "text:meta-field", NULL};

static void read_odt(struct reader *r, int first, int end) {
    for (int i = first; i < end;) {
        const struct xml_token *t = &r->token[i];
        int pair = (t->kind == XML_OPEN || t->kind == XML_CLOSE) && is_one_of(r, i, odt_pair);
        if (t->kind == XML_TEXT || t->kind == XML_CDATA) {
            add_words(r, i++);
        } else if (pair && t->kind == XML_OPEN) {
            flow_open(r->flow, ++i, t->of);
        } else if (pair) {
            flow_close(r->flow, (int)t->mate + 1, t->of);
            i++;
        } else {
            enum mark_kind kind = MARK_THING;
            if (is_start(t) && xml_is(r->bytes, t, "text:tab")) kind = MARK_HARD;
            if (is_start(t) && xml_is(r->bytes, t, "text:line-break")) kind = MARK_BREAK;
            flow_mark(r->flow, kind, TAG_RAW, whole(r, i));
            i = behind(r, i);
        }
    }
    flow_end(r->flow, (struct piece){r->token[first - 1].of.end, r->token[end].of.begin});
}

/* ---- .docx ----------------------------------------------------------------------------------- */

/* Is this <w:name>, whatever the prefix is here? */
static int is_w(const struct reader *r, int i, const char *name) {
    const struct xml_token *t = &r->token[i];
    const char *full = r->bytes + t->of.begin + t->name;
    size_t prefix = (size_t)r->n_prefix, n = strlen(name);
    return t->length == prefix + n && memcmp(full, r->prefix, prefix) == 0 &&
           memcmp(full + prefix, name, n) == 0;
}

static int is_w_of(const struct reader *r, int i, const char *const *name) {
    for (; *name; name++)
        if (is_w(r, i, *name)) return 1;
    return 0;
}

static const char *const docx_pair[] = {"hyperlink", "ins", "smartTag", "sdt",    "sdtContent",
                                        "fldSimple", "dir", "bdo",      "moveTo", NULL};

/* What a run looks like: its <w:rPr>, or nothing. */
static struct piece look_of(const struct reader *r, int run) {
    int i = run + 1;
    if (r->token[run].kind == XML_EMPTY) return (struct piece){0, 0};
    while (r->token[i].kind == XML_TEXT || r->token[i].kind == XML_OTHER) i++;
    return is_start(&r->token[i]) && is_w(r, i, "rPr") ? whole(r, i) : (struct piece){0, 0};
}

/* Bytes of text in a run. */
static size_t text_of(const struct reader *r, int run) {
    size_t n = 0;
    for (int i = run + 1; r->token[run].kind == XML_OPEN && i < (int)r->token[run].mate;
         i = behind(r, i))
        if (r->token[i].kind == XML_OPEN && is_w(r, i, "t")) n += size_of(whole(r, i));
    return n;
}

static void end_look(struct reader *r) {
    if (r->in_run) flow_close(r->flow, TAG_RUN, (struct piece){0, 0});
    r->in_run = 0;
}

static void begin_look(struct reader *r, struct piece look) {
    if (r->in_run && same(r->bytes, look, r->look)) return;
    end_look(r);
    if (same(r->bytes, look, r->base)) return;
    flow_open(r->flow, TAG_RUN, look);
    r->look = look;
    r->in_run = 1;
}

/* A child of a run that is no text. */
static void add_child(struct reader *r, int i, struct piece look) {
    enum mark_kind kind = MARK_THING;
    int plain = !memchr(r->bytes + r->token[i].of.begin, '=', size_of(r->token[i].of));
    if (is_w(r, i, "noBreakHyphen")) {
        flow_word(r->flow, 0x2011);
        return;
    }
    if (is_w(r, i, "tab") || is_w(r, i, "br") || is_w(r, i, "fldChar")) kind = MARK_HARD;
    if (is_w(r, i, "cr") || (is_w(r, i, "br") && plain)) kind = MARK_BREAK;
    flow_mark(r->flow, kind, TAG_CHILD, whole(r, i));
    r->flow->mark[r->flow->n_mark - 1].close = look;
}

static void read_run(struct reader *r, int run) {
    struct piece look = look_of(r, run);
    begin_look(r, look);
    for (int i = run + 1; r->token[run].kind == XML_OPEN && i < (int)r->token[run].mate;) {
        const struct xml_token *t = &r->token[i];
        if (t->kind == XML_OPEN && is_w(r, i, "t")) {
            for (i++; r->token[i].kind != XML_CLOSE; i = behind(r, i))
                if (r->token[i].kind == XML_TEXT || r->token[i].kind == XML_CDATA) add_words(r, i);
            i++;
            continue;
        }
        if (is_start(t) && !is_w(r, i, "rPr") && !is_w(r, i, "t")) add_child(r, i, look);
        i = behind(r, i);
    }
}

/* What a run has of a field: +1 its beginning, -1 its end. */
static int field_of(const struct reader *r, int run, int *is_text) {
    int depth = 0;
    for (int i = run + 1; r->token[run].kind == XML_OPEN && i < (int)r->token[run].mate;
         i = behind(r, i)) {
        struct piece p = whole(r, i);
        const char *bytes = r->bytes + p.begin;
        if (!is_start(&r->token[i])) continue;
        if (is_w(r, i, "instrText"))
            *is_text |=
                memmem(bytes, size_of(p), "HYPERLINK", 9) || memmem(bytes, size_of(p), "TOC", 3);
        if (!is_w(r, i, "fldChar")) continue;
        depth += memmem(bytes, size_of(p), "\"begin\"", 7) != NULL;
        depth -= memmem(bytes, size_of(p), "\"end\"", 5) != NULL;
    }
    return depth;
}

/* The field that begins in a run: the token behind it, or 0 if it is none that stays as it is. */
static int read_field(struct reader *r, int run, int end) {
    int is_text = 0, depth = field_of(r, run, &is_text), last = run;
    if (depth < 1 || r->no_field || run < r->text_until) return 0;
    for (int i = behind(r, run); depth > 0 && !is_text; i = behind(r, i)) {
        if (i >= end || r->token[i].kind == XML_CLOSE) {
            r->no_field = 1;
            return 0;
        }
        if (!is_start(&r->token[i]) || !is_w(r, i, "r")) continue;
        depth += field_of(r, i, &is_text);
        last = i;
    }
    if (is_text) r->text_until = last;
    if (is_text) return 0;
    end_look(r);
    r->words.size = 0;
    for (int i = run; i < behind(r, last); i++) /* what the model sees of it */
        if (r->token[i].kind == XML_OPEN && is_w(r, i, "t") && r->token[i + 1].kind == XML_TEXT)
            xml_decode(&r->words, r->bytes + r->token[i + 1].of.begin, size_of(r->token[i + 1].of));
    flow_kept(r->flow, (struct piece){r->token[run].of.begin, whole(r, last).end},
              r->words.size ? r->words.text : "", r->words.size);
    return behind(r, last);
}

static void find_base(struct reader *r, int first, int end) {
    size_t most = 0;
    r->base = (struct piece){0, 0};
    for (int i = first; i < end;) {
        if (is_start(&r->token[i]) && is_w(r, i, "r")) {
            size_t n = text_of(r, i);
            if (n > most) most = n, r->base = look_of(r, i);
            i = behind(r, i);
        } else {
            int pair = is_w_of(r, i, docx_pair) || r->token[i].kind == XML_CLOSE;
            i = pair ? i + 1 : behind(r, i);
        }
    }
}

static void read_docx(struct reader *r, int first, int end) {
    size_t begin = r->token[first - 1].of.end;
    r->no_field = r->text_until = r->in_run = 0;
    find_base(r, first, end);
    for (int i = first, next; i < end; i = next) {
        const struct xml_token *t = &r->token[i];
        int pair = (t->kind == XML_OPEN || t->kind == XML_CLOSE) && is_w_of(r, i, docx_pair);
        next = pair ? i + 1 : behind(r, i);
        if (t->kind == XML_TEXT || t->kind == XML_CDATA) continue; /* white space */
        if (is_start(t) && is_w(r, i, "pPr")) {
            begin = whole(r, i).end;
        } else if (is_start(t) && is_w(r, i, "r")) {
            int field = read_field(r, i, end);
            if (field)
                next = field;
            else
                read_run(r, i);
        } else {
            if (pair) end_look(r);
            if (pair && t->kind == XML_OPEN)
                flow_open(r->flow, i + 1, t->of);
            else if (pair)
                flow_close(r->flow, (int)t->mate + 1, t->of);
            else
                add_thing(r, i);
        }
    }
    end_look(r);
    if (flow_end(r->flow, (struct piece){begin, r->token[end].of.begin}))
        r->flow->text[r->flow->n_text - 1].base = r->base;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int open_part(struct reader *r, struct flow *flow, struct err *err) {
    *r = (struct reader){.flow = flow, .bytes = flow->bytes, .prefix = ""};
    r->n = xml_read(&r->token, flow->bytes, flow->size, err);
    return r->n < 0 ? r->n : 0;
}

static void close_part(struct reader *r) {
    xfree(r->token);
    xfree(r->words.text);
}

int odt_read(struct flow *flow, struct err *err) {
    struct reader r;
    int rc = open_part(&r, flow, err), depth = 0;
    for (int i = 0; i < r.n; i++) {
        int open = r.token[i].kind == XML_OPEN, close = r.token[i].kind == XML_CLOSE;
        if ((!open && !close) || !is_one_of(&r, i, odt_paragraph)) continue;
        if (open && depth < DEEPEST) read_odt(&r, i + 1, (int)r.token[i].mate);
        depth += open ? 1 : -1;
    }
    close_part(&r);
    return rc;
}

int docx_read(struct flow *flow, struct err *err) {
    struct reader r;
    int rc = open_part(&r, flow, err), depth = 0;
    int root = 0;
    while (root < r.n && !is_start(&r.token[root])) root++;
    if (root < r.n) {
        size_t name = r.token[root].of.begin + r.token[root].name;
        const char *colon = memchr(r.bytes + name, ':', r.token[root].length);
        r.prefix = r.bytes + name;
        r.n_prefix = colon ? (int)(colon - r.prefix) + 1 : 0;
        flow->prefix = (struct piece){name, name + (size_t)r.n_prefix};
    }
    for (int i = 0; i < r.n; i++) {
        int open = r.token[i].kind == XML_OPEN, close = r.token[i].kind == XML_CLOSE;
        if ((!open && !close) || !is_w(&r, i, "p")) continue;
        if (open && depth < DEEPEST) read_docx(&r, i + 1, (int)r.token[i].mate);
        depth += open ? 1 : -1;
    }
    close_part(&r);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_odt(struct flow_writer *w, const char *text, size_t size) {
    xml_escape(w->out, text, size);
}

/* <w:name, or </w:name */
static void put_tag(struct flow_writer *w, const char *begin, const char *name) {
    struct piece prefix = w->flow->prefix;
    buffer_puts(w->out, begin);
    buffer_put(w->out, w->flow->bytes + prefix.begin, size_of(prefix));
    buffer_puts(w->out, name);
}

static void put_piece(struct flow_writer *w, struct piece p) {
    buffer_put(w->out, w->flow->bytes + p.begin, size_of(p));
}

static void put_docx(struct flow_writer *w, const char *text, size_t size) {
    put_tag(w, "<", "r>");
    put_piece(w, w->run < 0 ? w->text->base : w->flow->mark[w->run].open);
    put_tag(w, "<", "t xml:space=\"preserve\">");
    xml_escape(w->out, text, size);
    put_tag(w, "</", "t>");
    put_tag(w, "</", "r>");
}

static void put_docx_mark(struct flow_writer *w, const struct mark *mark, enum mark_side side) {
    if (mark->tag == TAG_RUN) {
        w->run = side == MARK_OPEN ? (int)(mark - w->flow->mark) : -1;
    } else if (mark->tag == TAG_CHILD) {
        put_tag(w, "<", "r>");
        put_piece(w, mark->close);
        flow_copy(w, mark->open);
        put_tag(w, "</", "r>");
    } else {
        flow_raw_mark(w, mark, side);
    }
}

const struct flow_style odt_style = {.words = put_odt, .mark = flow_raw_mark};
const struct flow_style docx_style = {.words = put_docx, .mark = put_docx_mark};
