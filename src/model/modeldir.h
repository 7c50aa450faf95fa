/* modeldir.h — a model as files: a directory with config.json, model.safetensors and
 * tokenizer.model.
 *
 *     config.json         {"format": "heed", "version": 1, "model": {fields of config.h},
 *                          "tokenizer": hash of tokenizer.model and its like (tongues.h),
 *                          "training", "card", "translate", "tokens": {struct model_notes}}
 *                         (all but the first three may be absent)
 *     model.safetensors   one tensor per row of the parameter table, by its name; F32, BF16
 *                         or F16
 *     tokenizer.model     a SentencePiece file; this module copies it and never looks inside, nor
 *                         into the others that tongues.h knows
 *
 * That is the form in which models are trained. A model that is only run may be tiled (frozen.h,
 * tilefile.h): version 2, with "weights": {"layout": "tile16", "type": "f32" | "bf16" | "int8"} in
 * config.json.
 *
 * Files come from outside: every field, name and shape is checked against the configuration, and a
 * missing, unknown or misshapen one is an error that names it. Writing is atomic, file by file;
 * what must change together (weights and training state) is the business of train/checkpoint.h.
 *
 * docs/formats.md describes the formats for users. */
#ifndef MODEL_MODELDIR_H
#define MODEL_MODELDIR_H

#include <jansson.h>

#include "backend/mat.h"
#include "io/safetensors.h"
#include "model/model.h"

#define MODELDIR_CONFIG    "config.json"
#define MODELDIR_WEIGHTS   "model.safetensors"
#define MODELDIR_TOKENIZER "tokenizer.model"

/* Of models that have more than one tokenizer, or ids that are not its own: tongues.h. */
#define MODELDIR_TARGET_TOKENIZER "tokenizer.target.model"
#define MODELDIR_TOKENS           "vocabulary.txt"
#define MODELDIR_TARGET_TOKENS    "vocabulary.target.txt"

/* The weights and pieces of a CTranslate2 model. */
#define MODELDIR_CTRANSLATE2 "model.bin"
#define MODELDIR_VOCABULARY  "shared_vocabulary.json"

/* Their names, the configuration first, and those that models exported to other engines have; then
 * NULL. */
extern const char *const modeldir_files[];

/* Those that make ids of text, MODELDIR_TOKENIZER first; then NULL. */
extern const char *const modeldir_tokenizer_files[];

/* Those that are there must be regular files: whoever opens a pipe waits for ever. All functions
 * that read config.json check it. */
int modeldir_check_files(const char *dir, struct err *err);

/* ---- configuration --------------------------------------------------------------------------- */

/* Every field of the configuration in the order of config_rows, without those that have a default
 * and its value: files of models that do not use them stay as they were. A new reference. */
json_t *config_to_json(const struct config *config);

/* The reverse. `where` begins every message. Fields that are absent keep the value *config has;
 * unknown ones are an error. The result is not checked as a whole (config_check). */
int config_from_json(struct config *config, const json_t *object, const char *where,
                     struct err *err);

/* How the weights lie in the file; {0} is the form of training. */
struct weights_form {
    int tiled;
    enum dtype type; /* of tiled matrices */
};

/* "f32", "bf16", "int8": what such a type is called in files and on the command line. */
const char *weights_type_name(enum dtype type);

/* What config.json holds beside the model's fields: objects, each NULL where there is none. Copies
 * of a model (average, export) keep all but the first. */
struct model_notes {
    json_t *training;  /* the options of the run; only in the form of training */
    json_t *card;      /* what the model is for; card_from_json has passed it */
    json_t *translate; /* its own defaults of heed translate: search/defaults.h reads them */
    json_t *tokens;    /* which ids mean what: tongues.h reads it */
};
void model_notes_release(struct model_notes *notes);

/* DIR/config.json, written atomically, with the hash of the tokenizer that is there. notes may be
 * NULL. */
int modeldir_write_config(const char *dir, const struct config *config,
                          const struct model_notes *notes, struct err *err);
int modeldir_write_tiled_config(const char *dir, const struct config *config, enum dtype type,
                                const struct model_notes *notes, struct err *err);

/* DIR/config.json, all model fields present that have no default, and config_check passed. *notes
 * (if wanted: not NULL) are to be released, after an error too. The second reads tiled models, too,
 * which the first refuses. */
int modeldir_read_config(const char *dir, struct config *config, struct model_notes *notes,
                         struct err *err);
int modeldir_read_any(const char *dir, struct config *config, struct weights_form *form,
                      struct model_notes *notes, struct err *err);

/* Puts card and translate into the config.json of a model of either form, atomically, in the place
 * of what it had; NULL: none. Nothing else in it changes. */
int modeldir_annotate(const char *dir, const struct model_notes *notes, struct err *err);

/* Makes the directory (with its parents) if need be and puts config.json and a copy of the
 * tokenizer there. tokenizer is a path, or NULL for none; it may already be DIR/tokenizer.model. */
int modeldir_init(const char *dir, const struct config *config, const struct model_notes *notes,
                  const char *tokenizer, struct err *err);

/* DIR/tokenizer.model becomes a copy of the file `tokenizer`, which may be the same file. */
int modeldir_copy_tokenizer(const char *dir, const char *tokenizer, struct err *err);

/* All of modeldir_tokenizer_files that the model directory `from` has become DIR's, and others that
 * DIR had go. It may have none. */
int modeldir_copy_tokenizers(const char *dir, const char *from, struct err *err);

/* Has DIR such files besides tokenizer.model? Then they, and "tokens", decide ids (tongues.h). */
int modeldir_has_tongues(const char *dir);

/* ---- reading weights ------------------------------------------------------------------------- */

/* A model directory opened for reading: nothing is loaded, the weights are mapped. */
struct modeldir {
    struct config config;
    struct param_table table;
    struct safetensors weights;
    const struct tensor **tensor; /* [table.n_param]: where each parameter is */
    struct weights_form form;
    struct model_notes notes;
    struct mat *view; /* [table.n_param]: tiled form only, in the mapping; NULL else */
    int64_t step;     /* updates this model has seen; -1 where the file does not say */
};

/* Reads and checks the configuration, and the names, shapes and types of all tensors, and that the
 * tokenizer, if there is one, is the one the model was trained with (HEED_EFORMAT). The first
 * refuses tiled models, which cannot be averaged; the second opens them, too. */
int modeldir_open(struct modeldir *md, const char *dir, struct err *err);
int modeldir_open_any(struct modeldir *md, const char *dir, struct err *err);
void modeldir_close(struct modeldir *md);

/* Are the weights what was written? Reads all of them (safetensors_verify). */
int modeldir_verify(const struct modeldir *md, const char *dir, int n_thread, struct err *err);

/* Elements [first, first + count) of parameter i as f32; int8 as what it stands for. */
void modeldir_values(const struct modeldir *md, int i, size_t first, size_t count, float *out);

/* All values, into a model of the same configuration. Nothing changes unless the whole file
 * fits. */
int model_load_weights(struct model *model, const struct modeldir *md, struct err *err);

/* ---- writing weights ------------------------------------------------------------------------- */

/* Where values to be written come from: elements [offset, offset + count) of the flat buffer, as
 * f32. */
typedef int weights_source(void *ctx, size_t offset, size_t count, float *out, struct err *err);

struct weights_options {
    int64_t step;    /* recorded as metadata "step"; negative: not recorded */
    enum dtype type; /* DTYPE_F32 or DTYPE_BF16 */
    uint32_t *crc;   /* NULL, or [table->n_param]: receives the crc32c of every tensor's bytes */
};

/* Writes a safetensors file atomically. Needs memory for a small buffer only. */
int weights_write(const char *path, const struct param_table *table, weights_source *source,
                  void *ctx, const struct weights_options *options, struct err *err);

/* The same from a model. */
int model_save(struct model *model, const char *path, const struct weights_options *options,
               struct err *err);

#endif
