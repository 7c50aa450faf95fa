/* place.h — where the code that is running lies on disk: what was installed with it is found beside
 * it, wherever the whole was moved to. */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include <stddef.h>

/* The folders of libheed.so (or what it was linked into) and of the program, without a slash at the
 * end; "" where one is not known. */
enum { PLACE_SIZE = 4096 };
struct places {
    char library[PLACE_SIZE], program[PLACE_SIZE];
};
void places_find(struct places *places);

#endif
