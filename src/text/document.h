/* document.h — a file as texts to translate, and the file with their translations.
 *
 *   .txt    text as people write it, line by line
 *   .srt    subtitles: numbers, times and positions stay, <i> and its like follow their words
 *   .html   also .htm: one text, the document itself
 *   .md     also .markdown: code, addresses of links, front matter and the frames of tables stay
 *   .docx   paragraphs of the body, headers, footers, notes and comments; runs follow their words
 *   .odt    the same; spans follow their words
 *
 * How to use it, from a file's name and bytes:
 *
 *   document_kind      by the name's extension, or refused
 *   document_read      the bytes, which stay the caller's and must live as long as the document
 *   document_format    how all its texts are to be translated: FORMAT_TEXT or FORMAT_HTML (pages.h)
 *   document_text      each of document_count texts
 *   document_write     the whole file with a translation for each, or for any prefix of them: texts
 *                      behind it stay as they are
 *
 * Everything that is not translated stays byte for byte: what is between texts, a text whose
 * translation is the same, members of an archive that have no texts. With no translation that
 * differs, the file is the same bytes. Texts have no more markup than their translation must: in
 * FORMAT_HTML they may have numbered tags of the document's own (<b 12>, <img 13>), each of which
 * the translation must have, once, nested as they were; pages_run and whatever else goes through
 * markup.h sees to that.
 *
 * Files are hostile: archives must obey archive.h, and what is unpacked of one is at most
 * DOCUMENT_MAX bytes; a document type declaration, which could define entities, is refused. Nothing
 * is written to disk, nothing fetched. Work is linear.
 *
 * No threads, no state: a document may be read by one thread and written by another. */
#ifndef TEXT_DOCUMENT_H
#define TEXT_DOCUMENT_H

#include "base/err.h"
#include "search/translator.h"

enum { DOCUMENT_MAX = 64 << 20 }; /* bytes of a file */

enum document_kind {
    DOCUMENT_TXT,
    DOCUMENT_SRT,
    DOCUMENT_HTML,
    DOCUMENT_MD,
    DOCUMENT_DOCX,
    DOCUMENT_ODT,
};

/* The extensions that document_kind takes, with their dots, NULL-terminated. */
extern const char *const document_extensions[];

/* The kind of a file by the extension of its name, capitals or not. HEED_EINVAL for any other, with
 * a message that names those there are. */
int document_kind(enum document_kind *kind, const char *name, struct err *err);

struct document;

/* HEED_EFORMAT when the bytes are no such file, HEED_ELIMIT when it is too large. */
int document_read(struct document **document, enum document_kind kind, const char *bytes,
                  size_t size, struct err *err);
void document_free(struct document *document);

enum text_format document_format(const struct document *document);
int document_count(const struct document *document);
const char *document_text(const struct document *document, int i, size_t *size);

struct document_answer {
    const char *text;
    size_t size;
};

/* The file with answer[i] in place of text i, for i < n; the others stay. xfree(*out). HEED_EINVAL
 * when an answer has lost or doubled a tag. */
int document_write(const struct document *document, const struct document_answer *answer, int n,
                   char **out, size_t *size, struct err *err);

#endif
