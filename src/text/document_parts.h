/* document_parts.h — what document.c puts together. Nobody else includes it. */
#ifndef TEXT_DOCUMENT_PARTS_H
#define TEXT_DOCUMENT_PARTS_H

#include "text/flow.h"

/* Subtitles. */
void srt_read(struct flow *flow);
extern const struct flow_style srt_style;

/* Markdown. */
void markdown_read(struct flow *flow);
extern const struct flow_style markdown_style;

/* A part of an office document: XML with paragraphs. HEED_EFORMAT if it is not. */
int docx_read(struct flow *flow, struct err *err);
int odt_read(struct flow *flow, struct err *err);
extern const struct flow_style docx_style, odt_style;

#endif
