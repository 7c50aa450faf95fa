/* label.h — a token as it may be shown: any bytes in, short harmless text out.
 *
 * Tokens come from other people's files, and from users. Characters that are invisible or change
 * how their surroundings look (control characters, marks that reverse the direction of writing,
 * characters XML forbids) are replaced by something visible. The result is well-formed UTF-8, but
 * must still be escaped for where it goes: label_xml and label_json do that. */
#ifndef VIZ_LABEL_H
#define VIZ_LABEL_H

#include "base/file.h"

enum { LABEL_TOKEN = 40, LABEL_TITLE = 240, LABEL_SIZE = 9 * LABEL_TITLE + 8 };

/* At most `chars` characters of the text (LABEL_TOKEN or LABEL_TITLE), followed by U+2026 if there
 * are more. Returns the number of character cells it takes; wide characters count twice. */
int label_make(char out[LABEL_SIZE], const char *text, int chars);

/* How many bytes of a label fit in a line of so many cells, ending after a space if possible. */
size_t label_fit(const char *label, int cells);

/* Writes text, which must be clean UTF-8, between tags or quotes of XML, or between quotes of JSON
 * inside a <script>. */
void label_xml(struct file_writer *w, const char *text);
void label_json(struct file_writer *w, const char *text);

/* "name":"label" of a sentence, and "name":["label",...] of tokens, in such JSON. */
void label_json_text(struct file_writer *w, const char *name, const char *text);
void label_json_list(struct file_writer *w, const char *name, const char *const *token, int n);

#endif
