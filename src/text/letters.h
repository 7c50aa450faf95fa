/* letters.h — is there something to translate? */
#ifndef TEXT_LETTERS_H
#define TEXT_LETTERS_H

#include <stddef.h>
#include <stdint.h>

/* A letter of any script. */
int letter_is(uint32_t code);

/* Has the text a letter? Bad UTF-8 is none. */
int letters_in(const char *text, size_t size);

#endif
