/* label.h — a token as it may be shown: any bytes in, short harmless text out.
 *
 * Tokens come from files of others, and from users. What has no shape of its own, or would change
 * the shape of its surroundings (control characters, marks that reverse the direction of writing,
 * characters XML forbids), is replaced by something visible. What is left is well-formed UTF-8 and
 * still wants escaping for where it goes: label_xml and label_json do that. */
#ifndef VIZ_LABEL_H
#define VIZ_LABEL_H

#include "base/file.h"

enum { LABEL_TOKEN = 40, LABEL_TITLE = 100, LABEL_SIZE = 9 * LABEL_TITLE + 8 };

/* At most `chars` characters of the text (LABEL_TOKEN or LABEL_TITLE), with U+2026 behind them when
 * there are more. Returns the number of character cells it takes, wide characters counted twice. */
int label_make(char out[LABEL_SIZE], const char *text, int chars);

/* Between tags or quotes of XML, and between quotes of JSON inside a <script>. The text is clean
 * UTF-8. */
void label_xml(struct file_writer *w, const char *text);
void label_json(struct file_writer *w, const char *text);

#endif
