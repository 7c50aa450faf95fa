/* bundle.h — the files that a model consists of: in a directory, or in a zip.
 *
 * A path may also name one file of a directory (model.npz): then the bundle is its directory and
 * that file is the `main` one. Directories inside are part of the names, "model/model.bin"; a
 * directory that everything in a zip lies in is not. Contents are mapped, or unpacked on first use,
 * and live as long as the bundle. What a zip holds is not trusted: see io/zipfile.h. */
#ifndef CONVERT_BUNDLE_H
#define CONVERT_BUNDLE_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

struct bundle;

enum { BUNDLE_TEXT = 64 << 20 }; /* a limit for vocabularies, configurations, tokenizers */

int bundle_open(struct bundle **bundle, const char *path, struct err *err);
void bundle_close(struct bundle *bundle);

const char *bundle_path(const struct bundle *bundle); /* as it was given, for messages */
const char *bundle_main(const struct bundle *bundle); /* the file that was given, or NULL */

/* The names, sorted; of a directory with those of its direct sub-directories. */
int bundle_count(const struct bundle *bundle);
const char *bundle_name(const struct bundle *bundle, int i);
int bundle_has(const struct bundle *bundle, const char *name);

/* The first name that ends so ("sentencepiece.model", ".npz"), or NULL. */
const char *bundle_ending(const struct bundle *bundle, const char *ending);

/* The bytes of a file; HEED_ELIMIT if it has more than limit (0: none). No NUL behind them. */
int bundle_get(struct bundle *bundle, const char *name, size_t limit, const void **data,
               size_t *size, struct err *err);

/* The same, parsed; a new reference. */
int bundle_json(struct bundle *bundle, const char *name, json_t **value, struct err *err);

/* "DIR/NAME", shortened, to begin messages with. */
enum { BUNDLE_WHERE = 160 };
const char *bundle_where(const struct bundle *bundle, const char *name, char where[BUNDLE_WHERE]);

/* Its path, where it is a file of its own (xfree), or NULL inside a zip. */
char *bundle_file(const struct bundle *bundle, const char *name);

#endif
