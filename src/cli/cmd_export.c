/* cmd_export.c — `heed export` and `heed quantize`: a model in the form in which it is run, here or
 * elsewhere.
 *
 * f32, bf16 and int8 are tiled directories that heed maps (model/frozen.h); ctranslate2 is a
 * directory for CTranslate2. `heed quantize` is `heed export --format int8`. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "model/ctranslate2.h"
#include "model/frozen.h"
#include "train/target.h"

static const char *model, *out, *format, *precision = "f32";
static int overwrite, threads;

#define MODEL_ROW                                                                                  \
    { "model", OPTION_STRING, &model, "DIR", "the model to read", 0, 0 }
#define OUT_ROW                                                                                    \
    { "out", OPTION_STRING, &out, "DIR", "directory to write", 0, 0 }
#define OVERWRITE_ROW                                                                              \
    { "overwrite", OPTION_FLAG, &overwrite, NULL, "replace a model that is there", 0, 0 }
#define FORCE_ROW                                                                                  \
    { "force", OPTION_FLAG, &overwrite, NULL, "the same: its former name", 0, 0 }
#define THREADS_ROW                                                                                \
    { "threads", OPTION_INT, &threads, "N", "threads, 0 for all CPUs", 0, 1024 }

static const struct option export_rows[] = {
    MODEL_ROW,
    OUT_ROW,
    {"format", OPTION_STRING, &format, "FORMAT", "f32, bf16, int8 or ctranslate2", 0, 0},
    {"precision", OPTION_STRING, &precision, "TYPE", "of ctranslate2's weights: f32 or int8", 0, 0},
    OVERWRITE_ROW,
    FORCE_ROW,
    THREADS_ROW,
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};
static const struct option quantize_rows[] = {
    MODEL_ROW, OUT_ROW, OVERWRITE_ROW, FORCE_ROW, THREADS_ROW, {NULL, 0, NULL, NULL, NULL, 0, 0}};

static const struct command export_command = {
    .name = "export",
    .summary = "write a model in the form in which it runs, for heed or for CTranslate2",
    .usage = "--model DIR --out DIR --format f32|bf16|int8|ctranslate2",
    .options = export_rows};
static const struct command quantize_command = {.name = "quantize",
                                                .summary =
                                                    "write a model with int8 weights: export "
                                                    "--format int8",
                                                .usage = "--model DIR --out DIR",
                                                .options = quantize_rows};
static const struct command *const export_commands[] = {&export_command, NULL};
static const struct command *const quantize_commands[] = {&quantize_command, NULL};

static double megabytes(const char *dir, const char *name) {
    struct stat st;
    char *path = path_join(dir, name);
    double size = stat(path, &st) ? 0 : (double)st.st_size / 1e6;
    xfree(path);
    return size;
}

static int export_tiled(struct err *err) {
    enum precision wanted;
    int rc = precision_parse(&wanted, format, err);
    if (rc || wanted == PRECISION_AUTO)
        return cli_usage(err, "--format: '%.40s' is not one of f32, bf16, int8, ctranslate2",
                         format);
    struct frozen *frozen = NULL;
    char *tokenizer = path_join(model, MODELDIR_TOKENIZER);
    rc = frozen_open(&frozen, model, wanted, threads, err);
    if (!rc) rc = frozen_write(frozen, out, file_exists(tokenizer) ? tokenizer : NULL, err);
    if (!rc)
        printf("%s: %s, %.1f MB; %s has %.1f MB\n", out, format, megabytes(out, MODELDIR_WEIGHTS),
               model, megabytes(model, MODELDIR_WEIGHTS));
    frozen_close(frozen);
    xfree(tokenizer);
    return rc;
}

static int export_ctranslate2(struct err *err) {
    int int8 = strcmp(precision, "int8") == 0;
    if (!int8 && strcmp(precision, "f32") != 0)
        return cli_usage(err, "--precision: '%.40s' is not one of f32, int8", precision);
    struct modeldir md;
    struct tokenizer *tokenizer = NULL;
    int rc = modeldir_open_any(&md, model, err);
    if (rc) return rc;
    char *path = path_join(model, MODELDIR_TOKENIZER);
    rc = tokenizer_open(&tokenizer, path, err);
    if (!rc) rc = ctranslate2_write(out, &md, tokenizer, int8, err);
    if (!rc)
        printf("%s: CTranslate2 model, %s, %.1f MB; %s has %.1f MB\n", out, precision,
               megabytes(out, "model.bin"), model, megabytes(model, MODELDIR_WEIGHTS));
    tokenizer_free(tokenizer);
    xfree(path);
    modeldir_close(&md);
    return rc;
}

static int run_command(const struct command *command, int argc, char **argv, struct err *err) {
    int rc = options_parse(command, argc, argv, err);
    if (rc) return rc > 0 ? 0 : rc;
    if (!model) return cli_usage(err, "%s: --model is missing", command->name);
    if (!out) return cli_usage(err, "%s: --out is missing", command->name);
    if (!format) return cli_usage(err, "%s: --format is missing", command->name);
    rc = target_for_model(out, &model, 1, overwrite, err);
    if (rc) return rc;
    return strcmp(format, "ctranslate2") == 0 ? export_ctranslate2(err) : export_tiled(err);
}

static int run_export(int argc, char **argv, struct err *err) {
    return run_command(&export_command, argc, argv, err);
}

static int run_quantize(int argc, char **argv, struct err *err) {
    format = "int8";
    return run_command(&quantize_command, argc, argv, err);
}

const struct subcommand cmd_export = {
    .name = "export",
    .summary = "write a model in the form in which it runs, here or in CTranslate2",
    .run = run_export,
    .commands = export_commands};
const struct subcommand cmd_quantize = {.name = "quantize",
                                        .summary = "write a model with int8 weights",
                                        .run = run_quantize,
                                        .commands = quantize_commands};
