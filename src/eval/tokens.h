/* tokens.h — a line of text as code points, and the four ways BLEU cuts it into tokens.
 *
 *   13a     what mteval-v13a did for Western languages: entities undone, ASCII punctuation apart,
 *           full stops and commas too unless between digits, a dash behind a digit
 *   intl    the same idea for all of Unicode: punctuation apart unless between numbers, symbols
 *           always
 *   char    every character
 *   none    as the spaces have it
 *
 * The first two are defined by substitutions applied one after another, each from left to right and
 * without overlap; tokens.c applies them literally, since their quirks ("a..." is not treated like
 * "a..") are part of the score. All of it counts in code points, spaces are those of
 * base/unicode.h.
 *
 * Buffers only grow, so that a corpus costs a handful of allocations. Nothing here fails. */
#ifndef EVAL_TOKENS_H
#define EVAL_TOKENS_H

#include <stddef.h>
#include <stdint.h>

enum tokenizer_kind { TOKENIZE_13A, TOKENIZE_INTL, TOKENIZE_CHAR, TOKENIZE_NONE, N_TOKENIZERS };

extern const char *const tokenize_names[N_TOKENIZERS + 1]; /* NULL-terminated */

enum { SEGMENT_MAX_SIZE = 1 << 24 }; /* bytes; keeps every table index in 32 bits */

/* Borrowed UTF-8. Bad sequences count as U+FFFD. */
struct segment {
    const char *text;
    size_t size; /* less than SEGMENT_MAX_SIZE */
};

struct codes {
    uint32_t *code;
    size_t n, room;
};

/* Tokens of one or more lines: token i is text.code[start[i] .. start[i] + length[i]). */
struct tokens {
    struct codes text;
    struct token {
        uint32_t start, length;
    } * token;
    size_t n, room;
    struct codes scratch[2];
};

void codes_release(struct codes *codes);
void codes_reserve(struct codes *codes, size_t room);

/* *codes becomes the segment, in lower case if asked for. `scratch` holds what lowering needs. */
void codes_decode(struct codes *codes, struct codes *scratch, struct segment segment, int lower);

/* Removes all space. */
void codes_squeeze(struct codes *codes);

void tokens_release(struct tokens *tokens);
void tokens_clear(struct tokens *tokens);

/* Appends the tokens of one line and returns how many. */
size_t tokens_add(struct tokens *tokens, struct segment line, enum tokenizer_kind kind, int lower);

/* The same with chrF's idea of words: cut at spaces, and one ASCII punctuation mark taken off the
 * end of a word or, if there is none, off its beginning. */
size_t tokens_add_words(struct tokens *tokens, struct segment line, int lower);

#endif
