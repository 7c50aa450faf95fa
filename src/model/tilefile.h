/* tilefile.h — tiled weights (tile.h) as tensors of a safetensors file.
 *
 * A matrix of the parameter table is a tensor of its name and shape [tiles, lines, 16, 4 / size],
 * type F32, BF16 or I8: byte for byte the tiles that products read, so that a mapped file needs no
 * loading. An I8 matrix has `NAME.scale` (F32) and `NAME.sum` (I32) beside it, one entry per padded
 * row; one with an x_scale (mat.h) also `NAME.x_scale` (F32, one number), `NAME.unit` and
 * `NAME.zero` (F32, an entry per padded row). Vectors and learned positions are as in any model
 * file, in the type of the activations. All tiles begin at multiples of 64 bytes.
 *
 * Files are hostile. Names, types, shapes and alignment are checked before use, and that all scales
 * are positive numbers. The contents of tiles and sums are trusted: false ones cause wrong
 * translations, never a wrong address. Checksums guard against accidents (safetensors.h). */
#ifndef MODEL_TILEFILE_H
#define MODEL_TILEFILE_H

#include "backend/mat.h"
#include "io/safetensors.h"
#include "model/params.h"

/* A view of one parameter in a mapped file whose matrices have this type. */
int tilefile_match(struct mat *view, const struct safetensors *st, const struct param *param,
                   enum dtype type, const char *path, struct err *err);

/* How many tensors a file of these views has, whose matrices have this type. */
int tilefile_tensors(const struct param_table *table, const struct mat *view, enum dtype type);

/* Writes a file from one host view per parameter. step as in modeldir.h: negative is not
 * recorded. */
int tilefile_write(const char *path, const struct param_table *table, const struct mat *view,
                   enum dtype type, int64_t step, struct err *err);

#endif
