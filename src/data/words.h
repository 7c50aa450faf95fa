/* words.h — what a word of a text is, and which word each piece of a tokenizer belongs to.
 *
 * Models see pieces, people see words: alignments are told, judged and handed to training in words,
 * and every part of heed must cut a text into the same ones. The rule knows no language and no list
 * of abbreviations:
 *
 *   space      separates (base/unicode.h, and U+200B, U+FEFF, which tokenizers read as space)
 *   letters    everything that is neither space, punctuation nor symbol (digits, marks and
 *              characters without category among them): a run of them is a word
 *   joiners    between two letters, one of ' U+2019 . - U+2010 U+2011 _ stays in the word (don't,
 *              well-known, heed.h, snake_case), and so does one of , : U+2044 between two digits
 *              (1,000 3.14 12:30)
 *   ends       a word of single letters with full stops keeps its last stop (U.S. z.B.); one
 *              hyphen between a letter and a space stays (Ein- und Ausgang); an apostrophe before
 *              a word that is just s t d m re ve or ll stays (the 's of text with spaces between
 *              all tokens)
 *   the rest   punctuation and symbols are words of their own, the same character several times
 *              in a row being one ("..." "--"), an emoji with all that modifies it being one
 *
 * So text that has spaces between its tokens already ("book ?") keeps nearly all of them. Scripts
 * without spaces have one word per run of letters.
 *
 * Where a text's tokens must be those that its spaces make, as in alignments made by hand, the unit
 * is WORDS_TOKENS instead. */
#ifndef DATA_WORDS_H
#define DATA_WORDS_H

#include <stddef.h>

#include "data/tokenizer.h"

enum words_unit { WORDS_WORDS, WORDS_TOKENS }; /* by the rule above; between spaces */

/* The words of a text: how many; the first `cap` of them are written as bytes [begin, end) of the
 * text, which is at most TOKENIZER_MAX_TEXT long. Bad UTF-8 counts as letters. */
int words_split(struct span *word, int cap, enum words_unit unit, const char *text, size_t size);

/* of[i]: the word that piece i belongs to, or -1. A piece belongs to the word with which it has
 * most bytes in common, the first if there are several; one without any (a space of its own) to the
 * next word, which it begins; one behind the last word (an end mark) to none. Pieces and words are
 * in the order of the text. */
void words_map(int *of, const struct span *piece, int n_piece, const struct span *word, int n_word);

/* A text's words and, where it came with pieces, the word of each. Owns its buffers, which only
 * grow: start from {0}, use it for one text after another. */
struct words {
    struct span *word; /* [n] bytes of the text */
    int n;
    int *of; /* [n_piece] as words_map has it */
    int n_piece;
    int room_word, room_piece;
    struct span *piece; /* [n_piece] bytes of the text */
    int32_t *ids;       /* [n_piece], of words_encode; there is room for an end mark */
    char *text;         /* NUL-terminated, of words_of_ids */
    size_t room_text;
};

void words_release(struct words *words);

/* The words of a text. No pieces. */
void words_of_text(struct words *words, enum words_unit unit, const char *text, size_t size);

/* The words of a text and its pieces: their number, no end mark among them, or a negative status as
 * in tokenizer_encode. */
int words_encode(struct words *words, enum words_unit unit, const struct tokenizer *tokenizer,
                 const char *text, size_t size);

/* The same from ids alone: the text is what they decode to. End marks and other control pieces
 * belong to no word, wherever they are. The number of words, or a negative status as in
 * tokenizer_decode. */
int words_of_ids(struct words *words, enum words_unit unit, const struct tokenizer *tokenizer,
                 const int32_t *ids, int n);

#endif
