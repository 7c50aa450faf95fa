/* document_parts.h — what document.c puts together. Nobody else includes it. */
#ifndef TEXT_DOCUMENT_PARTS_H
#define TEXT_DOCUMENT_PARTS_H

#include "text/flow.h"

/* Subtitles. */
void srt_read(struct flow *flow);
extern const struct flow_style srt_style;

#endif
