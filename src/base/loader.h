/* loader.h — plug-ins: parts of the program that live in shared objects of their own and are loaded
 * when asked for.
 *
 * libheed-NAME.so exports heed_NAME_open. It needs no symbol of the program that loads it, and
 * stays loaded until the process ends: threads of what it brings along may outlive its use. */
#ifndef BASE_LOADER_H
#define BASE_LOADER_H

#include <stddef.h>

#include "base/err.h"

/* Finds and loads the plug-in of this name; *open is its heed_NAME_open, to be called as what it
 * is. `path` (may be NULL) is a list of folders, separated by colons, looked through after those
 * beside the program: its own, ../lib/heed and ../lib. */
int loader_find(void **open, const char *name, const char *path, struct err *err);

/* A library of the system that is not linked, since its relocations, and those of all that it needs
 * in turn, would be part of every start: loads `file`, such as libz.so.1, and sets the n pointers
 * from `function` on to what has these names in it. It stays loaded. */
int loader_library(void *function, const char *const *name, size_t n, const char *file,
                   struct err *err);

#endif
