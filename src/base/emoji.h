/* emoji.h — which characters are emoji. Models of text have hardly seen any and write rubbish for
 * them, so they are kept, not translated: like pictures. */
#ifndef BASE_EMOJI_H
#define BASE_EMOJI_H

#include <stddef.h>
#include <stdint.h>

/* Is it an emoji by itself: a picture, half a flag? Not © ® ™, arrows or digits, which are text. */
int emoji_is(uint32_t code);

/* May it go on behind one: another emoji, a tone of skin, a joiner, a selector of the style? */
int emoji_goes_on(uint32_t code);

/* How many bytes of text[0..size), from its beginning, are emoji that follow each other. */
size_t emoji_at(const char *text, size_t size);

#endif
