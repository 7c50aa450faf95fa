/* xml.h — the tokens of an XML document, every byte of it.
 *
 * Tags are matched. Nothing is expanded: a document type declaration, the only place that could
 * define an entity, is refused. */
#ifndef TEXT_XML_H
#define TEXT_XML_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/err.h"

enum { XML_MOST = 4 << 20 }; /* tokens */

/* Empty: <x/>. Other: comments and processing instructions. */
enum xml_kind { XML_TEXT, XML_OPEN, XML_CLOSE, XML_EMPTY, XML_CDATA, XML_OTHER };

struct xml_token {
    enum xml_kind kind;
    struct piece of;       /* bytes of the document */
    uint32_t mate;         /* of a start tag: its end tag, and the other way round */
    unsigned short name;   /* of a tag: how far behind `of.begin` its name is, */
    unsigned short length; /* and how long */
};

/* The number of tokens, xfree(*token); HEED_EFORMAT if tags do not match, HEED_ELIMIT. */
int xml_read(struct xml_token **token, const char *bytes, size_t size, struct err *err);

/* Has a tag this name? */
int xml_is(const char *bytes, const struct xml_token *token, const char *name);

/* Text as a reader sees it, added to out. */
void xml_decode(struct buffer *out, const char *text, size_t size);

/* Text as XML has it: escaped, and without characters that XML does not allow. */
void xml_escape(struct buffer *out, const char *text, size_t size);

#endif
