/* markup.h — an HTML document as sentences to translate, and back.
 *
 * Elements that are blocks, and everything that cannot be carried over, end sentences and stay
 * where they are, byte for byte; so does all the text without a letter in it. Between them are
 * segments: text with elements that lie wholly inside it (<b>, <a> ...) and with things that have a
 * place but no words (<img>, comments). Of a segment:
 *
 *   element      is put around the words of the translation that are aligned to its words: whole
 *                words, one stretch, inside the element that it was inside of. One whose words
 *                have no such counterpart is put around a word where its neighbours went that no
 *                other element has; one without words, between two words there
 *   things       are put between the words that their neighbours became; so are emoji
 *   kept         short content that is not for translation (<code>x</code>), and placeholders in
 *                the text ({name}, {{x}}, ${x}, %s, %1$d): the model reads them as words; they come
 *                out as they were, in the place of the words that were aligned to them
 *   white space  counts as one space, but stays as it is before and behind the segment, between
 *                sentences, between words that stay neighbours, and on its side of tags
 *
 * The sentences of a segment are translated one by one, and tags are placed in all of them at once:
 * an element may begin in one and end in another. Nothing that is kept is cut in two. A segment
 * whose sentences all come out as they went in stays as it was, byte for byte.
 *
 * Character references are decoded for the model, and what it writes is escaped; those of no
 * character (&#x110000;) are things. Start and end tags
 * that do not match, and elements more than MARKUP_DEPTH deep, end sentences like blocks. <br> does
 * so too, unless the sentence visibly goes on: no punctuation before it, no capital behind it.
 * Attributes are never translated.
 *
 * A plain text has the same things in it but tags (markup_read_text): placeholders and emoji, which
 * must come out as they are. Each of its sentences (data/passages.h) is a segment, nothing in it is
 * a reference, and nothing that is written is escaped.
 *
 * Reading and writing take time linear in the document (times MARKUP_DEPTH). The document stays the
 * caller's and must live as long as the markup. */
#ifndef TEXT_MARKUP_H
#define TEXT_MARKUP_H

#include "data/links.h"
#include "data/sentences.h"
#include "data/tokenizer.h"

enum { MARKUP_DEPTH = 32 };

struct markup;

/* rules: where sentences end. */
struct markup *markup_read(const char *html, size_t size, const struct sentence_rules *rules);

/* Has a text anything in it that its translation might not have? If not, it needs no markup. */
int markup_in_text(const char *text, size_t size);
struct markup *markup_read_text(const char *text, size_t size, const struct sentence_rules *rules);

void markup_free(struct markup *markup);

/* The texts to translate: well-formed UTF-8 without NUL bytes. */
int markup_count(const struct markup *markup);
const char *markup_text(const struct markup *markup, int i, size_t *size);

/* The translation of one of them, which becomes words and links as `translator` has them. */
struct markup_answer {
    const char *text; /* well-formed UTF-8 */
    size_t size;
    const struct span *source, *target; /* [n_source], [n_target] words of both */
    int n_source, n_target;
    const struct align_link *link; /* [n_link] */
    int n_link;
};

/* Of a plain text, what is kept of it before text i. */
const char *markup_before(const struct markup *markup, int i, size_t *size);

/* The document with answer[i] in place of text i, NUL-terminated; xfree it. */
char *markup_write(const struct markup *markup, const struct markup_answer *answer, size_t *size);

/* The same of a plain text, with its words and theirs. Words of the result are those of the answers
 * that are in it, and placeholders in their place. */
struct markup_word {
    struct span at;
    int answer, word; /* whose word it is; -1: a placeholder */
};
struct markup_words {
    struct span *source; /* [n_source] of the text */
    struct markup_word *target;
    struct align_link *link;
    int n_source, n_target, n_link, room_source, room_target, room_link;
};
char *markup_write_words(const struct markup *markup, const struct markup_answer *answer,
                         size_t *size, struct markup_words *words);
void markup_words_release(struct markup_words *words);

#endif
