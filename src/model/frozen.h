/* frozen.h — a model whose weights no longer change: the form in which it is run.
 *
 * For a backend that wants tiles (backend.h) matrices are tiled (tile.h) in one of three
 * precisions; everything else (biases, norms, positions) is in the type of the activations: f32 for
 * f32 and int8, bf16 for bf16. A directory written by frozen_write holds them in exactly that form
 * and is memory-mapped: opening it compares checksums and loads nothing; the pages are shared by
 * all processes that run the model and by all threads of each. A directory as the trainer writes it
 * works too: its matrices are tiled (and rounded, if asked) into private memory when it is opened.
 *
 * For any other backend the directory is mapped and nothing more: its weights go from the file to
 * the device, each model with a copy of its own. int8 becomes bf16 there, which holds it as well as
 * any: 8 bits of mantissa for 7 of the quantised value.
 *
 * A struct frozen is immutable after frozen_open, so any number of threads may use it at once, each
 * through a struct model of its own backend (frozen_model). It owns the mapping and the tiled
 * memory and must outlive those models. Files are hostile: names, shapes, types and sizes are
 * checked before use. */
#ifndef MODEL_FROZEN_H
#define MODEL_FROZEN_H

#include "model/model.h"

enum precision { PRECISION_AUTO, PRECISION_F32, PRECISION_BF16, PRECISION_INT8 };

/* "f32", "bf16", "int8"; "auto" is int8 if the directory holds int8, bf16 if it holds bf16 and runs
 * on a backend without tiles (a GPU is far slower in f32), otherwise f32. */
extern const char *const precision_names[]; /* of enum precision, NULL-terminated */
int precision_parse(enum precision *precision, const char *name, struct err *err);
const char *precision_name(enum precision precision);

struct frozen;

/* be: a backend of the kind the model will run on; NULL: one that wants tiles. n_thread: for tiling
 * what is not tiled yet and for copying to a device; 0: all CPUs. A stored precision can be
 * converted to the one asked for unless that needs what rounding has lost: int8 files run in int8
 * only. */
int frozen_open(struct frozen **frozen, const char *dir, enum precision precision,
                const struct backend *be, int n_thread, struct err *err);
void frozen_close(struct frozen *frozen);

/* Tiles of a model in training, so that a run can translate its validation text. A copy.
 * frozen_refresh takes over the current values of the same model; nobody may be using the tiles
 * meanwhile. */
int frozen_from_model(struct frozen **frozen, struct model *model, enum precision precision,
                      int n_thread, struct err *err);
int frozen_refresh(struct frozen *frozen, struct model *model, struct err *err);

/* Weights in int8 of which somebody else has the numbers, such as a reader of another engine's
 * files. `rows` is asked for rows [first, last) of every parameter i of the table, several threads
 * at a time, [last - first, cols] of it. It fills in `values`, which are quantised if it is a
 * matrix, and returns 0; or, where the numbers of a matrix are int8 already, q and one scale per
 * row, w = q * scale, which are kept bit for bit, and returns 1. q is NULL where the parameter
 * stays f32. Any q is taken, -128 too; a scale must be a positive number.
 * x_scale is asked for every matrix: its x_scale (mat.h), 0 for none; NULL: none has any. Where
 * there is one, rows has to return 1 and to fill in unit and zero, too. */
struct frozen_rows {
    float *values;
    int8_t *q;
    float *scale;       /* [last - first] */
    float *unit, *zero; /* the same; NULL without an x_scale */
};
struct frozen_source {
    int (*rows)(void *ctx, int i, int first, int last, const struct frozen_rows *to);
    float (*x_scale)(void *ctx, int i);
    void *ctx;
};
int frozen_from_rows(struct frozen **frozen, const struct config *config,
                     const struct frozen_source *source, int n_thread, struct err *err);

const struct config *frozen_config(const struct frozen *frozen);

/* What its config.json says besides; empty for frozen_from_model. */
const struct model_notes *frozen_notes(const struct frozen *frozen);
enum precision frozen_precision(const struct frozen *frozen);
size_t frozen_bytes(const struct frozen *frozen); /* of weights, mapped or not */

/* Mapped weights count as memory from when they were compared with their checksums. Until they are
 * used again they need not. */
void frozen_rest(const struct frozen *frozen);

/* A model over these weights on a backend: views where the backend wants tiles, which must then
 * exist; otherwise a copy in bf16 or f32. Its parameters cannot be set, drawn or trained. Free with
 * model_free before frozen_close. */
int frozen_model(struct model **model, const struct frozen *frozen, struct backend *be,
                 struct err *err);

/* A file of tiled weights; config.json beside it is modeldir_write_tiled_config's. */
int frozen_write_weights(const struct frozen *frozen, const char *path, struct err *err);

/* Writes DIR (config.json, model.safetensors, and the tokenizer's files copied from the model
 * directory `from`, which may be NULL) in tiled form, as a whole or not at all. docs/formats.md
 * describes it. */
int frozen_write(const struct frozen *frozen, const char *dir, const char *from, struct err *err);

#endif
