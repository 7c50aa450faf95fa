/* cmd_export.c — `heed export` and `heed quantize`: a model ready to run, here or elsewhere.
 *
 * f32, bf16 and int8 are tiled directories that heed maps (model/frozen.h); ctranslate2 is a
 * directory for CTranslate2. `heed quantize` is `heed export --format int8`. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "convert/ct2_write.h"
#include "model/frozen.h"
#include "train/target.h"

enum { FORMAT_CTRANSLATE2 = PRECISION_INT8 + 1 }; /* behind the precisions */
static const char *const format_names[] = {"", "f32", "bf16", "int8", "ctranslate2", NULL};
static const char *const ctranslate2_names[] = {"f32", "int8", NULL};

static struct export_args {
    const char *model, *out;
    int format, int8, overwrite, threads;
} args;

#define OPTIONS_OF export_args
#define OUT_ROW                                                                                    \
    ROW(STRING, "out", out, NULL, "directory to write", .arg = "DIR", .made = 1, .required = 1)
#define OVERWRITE_ROWS                                                                             \
    ROW(FLAG, "overwrite", overwrite, NULL, "replace an existing model"),                          \
        ROW(FLAG, "force", overwrite, NULL, "former name of --overwrite")

static const struct option export_rows[] = {
    MODEL_ROW(model),
    OUT_ROW,
    ROW(CHOICE, "format", format, NULL, "what to write", .choices = format_names, .required = 1),
    ROW(CHOICE, "precision", int8, "f32", "precision of ctranslate2's weights",
        .choices = ctranslate2_names),
    OVERWRITE_ROWS,
    THREADS_ROW(threads),
    {.name = NULL},
};
static const struct option quantize_rows[] = {
    MODEL_ROW(model), OUT_ROW, OVERWRITE_ROWS, THREADS_ROW(threads), {.name = NULL}};
static struct option_group export_groups[] = {{.rows = export_rows, .values = &args},
                                              {.rows = NULL}};
static struct option_group quantize_groups[] = {{.rows = quantize_rows, .values = &args},
                                                {.rows = NULL}};

static double megabytes(const char *dir, const char *name) {
    struct stat st;
    char *path = path_join(dir, name);
    double size = stat(path, &st) ? 0 : (double)st.st_size / 1e6;
    xfree(path);
    return size;
}

static int export_tiled(struct err *err) {
    struct frozen *frozen = NULL;
    int rc = frozen_open(&frozen, args.model, (enum precision)args.format, NULL, args.threads, err);
    if (!rc) rc = frozen_write(frozen, args.out, args.model, err);
    if (!rc)
        printf("%s: %s, %.1f MB; %s has %.1f MB\n", args.out, format_names[args.format],
               megabytes(args.out, MODELDIR_WEIGHTS), args.model,
               megabytes(args.model, MODELDIR_WEIGHTS));
    frozen_close(frozen);
    return rc;
}

static int export_ctranslate2(struct err *err) {
    struct modeldir md;
    struct tokenizer *tokenizer = NULL;
    int rc = modeldir_open_any(&md, args.model, err);
    if (rc) return rc;
    char *path = path_join(args.model, MODELDIR_TOKENIZER);
    rc = modeldir_verify(&md, args.model, args.threads, err);
    if (!rc) rc = tokenizer_open(&tokenizer, path, err);
    if (!rc) rc = ctranslate2_write(args.out, &md, tokenizer, args.int8, err);
    if (!rc)
        printf("%s: CTranslate2 model, %s, %.1f MB; %s has %.1f MB\n", args.out,
               ctranslate2_names[args.int8], megabytes(args.out, MODELDIR_CTRANSLATE2), args.model,
               megabytes(args.model, MODELDIR_WEIGHTS));
    tokenizer_free(tokenizer);
    xfree(path);
    modeldir_close(&md);
    return rc;
}

static int run_export(struct err *err) {
    int rc = target_for_model(args.out, &args.model, 1, args.overwrite, err);
    if (rc) return rc;
    return args.format == FORMAT_CTRANSLATE2 ? export_ctranslate2(err) : export_tiled(err);
}

static int run_quantize(struct err *err) {
    args.format = PRECISION_INT8;
    return run_export(err);
}

const struct command cmd_export = {
    .name = "export",
    .summary = "write a model in a form ready to run, for heed or for CTranslate2",
    .usage = "--model MODEL --out DIR --format f32|bf16|int8|ctranslate2",
    .groups = export_groups,
    .run = run_export};
const struct command cmd_quantize = {.name = "quantize",
                                     .summary = "write a model with int8 weights: export --format "
                                                "int8",
                                     .usage = "--model MODEL --out DIR",
                                     .groups = quantize_groups,
                                     .run = run_quantize};
