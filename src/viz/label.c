/* label.c — see label.h. */
#include "viz/label.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

struct span {
    uint32_t first, last;
};

static int within(const struct span *span, size_t n, uint32_t code) {
    for (size_t i = 0; i < n; i++)
        if (code >= span[i].first && code <= span[i].last) return 1;
    return 0;
}
#define WITHIN(table, code) within(table, sizeof(table) / sizeof *(table), code)

/* Invisible, or able to change how the text beside them looks. Joiners are left alone: scripts
 * need them. */
static const struct span spelled[] = {
    {0x80, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},     {0x180e, 0x180e},   {0x200b, 0x200b},
    {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},   {0xfdd0, 0xfdef},   {0xfeff, 0xfeff},
    {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff}};

/* Two cells wide in most fonts: close enough to reserve space. */
static const struct span wide[] = {{0x1100, 0x115f},   {0x2e80, 0xa4cf},  {0xac00, 0xd7a3},
                                   {0xf900, 0xfaff},   {0xfe30, 0xfe4f},  {0xff00, 0xff60},
                                   {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};

/* One character as it is shown: its bytes in out, and its cells. */
static int show(char out[16], uint32_t code) {
    if (code < 0x20 || code == 0x7f) /* the pictures U+2400 has for them */
        out[utf8_encode(out, code == 0x7f ? 0x2421 : 0x2400 + code)] = 0;
    else if (WITHIN(spelled, code) || (code & 0xfffe) == 0xfffe)
        return snprintf(out, 16, "U+%04X", (unsigned)code);
    else
        out[utf8_encode(out, code)] = 0;
    return WITHIN(wide, code) ? 2 : 1;
}

int label_make(char out[LABEL_SIZE], const char *text, int chars) {
    size_t size = strlen(text), at = 0, used = 0;
    int cells = 0, shown = 0;
    for (; at < size && shown < chars; shown++) {
        char one[16];
        uint32_t code = 0;
        int n = utf8_decode(&code, text + at, size - at);
        cells += show(one, n < 0 ? 0xfffd : code);
        at += (size_t)(n < 0 ? -n : n);
        memcpy(out + used, one, strlen(one));
        used += strlen(one);
    }
    if (at < size) used += (size_t)utf8_encode(out + used, 0x2026), cells++;
    out[used] = 0;
    return cells;
}

size_t label_fit(const char *label, int cells) {
    size_t size = strlen(label), at = 0, space = 0;
    int halves = 2 * cells; /* capitals are wider than most letters */
    while (at < size) {
        uint32_t code = 0;
        int n = utf8_decode(&code, label + at, size - at);
        halves -= WITHIN(wide, code) ? 4 : code >= 'A' && code <= 'Z' ? 3 : 2;
        if (halves < 0 && at) return space ? space : at;
        at += (size_t)(n < 0 ? -n : n);
        if (code == ' ') space = at;
    }
    return at;
}

void label_xml(struct file_writer *w, const char *text) {
    for (; *text; text++) {
        const char *entity = *text == '<'    ? "&lt;"
                             : *text == '>'  ? "&gt;"
                             : *text == '&'  ? "&amp;"
                             : *text == '"'  ? "&quot;"
                             : *text == '\'' ? "&#39;"
                                             : NULL;
        file_writer_write(w, entity ? entity : text, entity ? strlen(entity) : 1);
    }
}

/* A script ends at "</script", even inside a JSON string, so every '<' is escaped. U+2028 does not
 * occur in labels. */
void label_json(struct file_writer *w, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f || strchr("<>&'\"\\", c))
            file_writer_printf(w, "\\u%04x", c);
        else
            file_writer_write(w, text, 1);
    }
}

void label_json_text(struct file_writer *w, const char *name, const char *text) {
    char label[LABEL_SIZE];
    label_make(label, text, LABEL_TITLE);
    file_writer_printf(w, "\"%s\":\"", name);
    label_json(w, label);
    file_writer_printf(w, "\"");
}

void label_json_list(struct file_writer *w, const char *name, const char *const *token, int n) {
    file_writer_printf(w, "\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        char label[LABEL_SIZE];
        label_make(label, token[i], LABEL_TOKEN);
        file_writer_printf(w, i ? ",\"" : "\"");
        label_json(w, label);
        file_writer_printf(w, "\"");
    }
    file_writer_printf(w, "]");
}
