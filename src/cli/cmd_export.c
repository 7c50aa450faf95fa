/* cmd_export.c — `heed export` and `heed quantize`: a model ready to run, here or elsewhere.
 *
 * f32, bf16 and int8 are tiled directories that heed maps (model/frozen.h); ctranslate2 and
 * huggingface are directories for CTranslate2 and transformers (src/convert). `heed quantize` is
 * `heed export --format int8`. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "convert/ct2_write.h"
#include "convert/huggingface_write.h"
#include "model/frozen.h"
#include "train/target.h"

enum { FORMAT_CTRANSLATE2 = PRECISION_INT8 + 1, FORMAT_HUGGINGFACE }; /* behind the precisions */
static const char *const format_names[] = {"",  "f32", "bf16", "int8", "ctranslate2", "huggingface",
                                           NULL};
enum { THEIRS_AUTO, THEIRS_F32, THEIRS_F16, THEIRS_INT8 }; /* precisions of other engines' */
static const char *const theirs_names[] = {"auto", "f32", "f16", "int8", NULL};

static struct export_args {
    const char *model, *out;
    int format, precision, overwrite, threads;
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
    ROW(CHOICE, "precision", precision, "auto",
        "weights for another engine: f32, f16 for huggingface, int8 for ctranslate2; auto: what "
        "the model has, if the engine can have it",
        .choices = theirs_names),
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
    char *path = path_join(dir, name);
    double size = (double)file_size(path) / 1e6;
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

/* Are all matrices of the model f16? */
static int is_half(const struct modeldir *md) {
    int n = 0;
    for (int i = 0; i < md->table.n_param; i++) {
        if (!param_is_matrix(&md->table.param[i])) continue;
        if (strcmp(md->tensor[i]->dtype, "F16") != 0) return 0;
        n++;
    }
    return n > 0;
}

static int their_precision(const struct modeldir *md) {
    int int8 = md->form.tiled && md->form.type == DTYPE_I8;
    if (args.precision != THEIRS_AUTO) return args.precision;
    if (args.format == FORMAT_CTRANSLATE2) return int8 ? THEIRS_INT8 : THEIRS_F32;
    return is_half(md) ? THEIRS_F16 : THEIRS_F32;
}

static int write_foreign(const struct modeldir *md, struct err *err) {
    struct tongues *tongues = NULL;
    int theirs = args.format == FORMAT_HUGGINGFACE, precision = their_precision(md);
    int rc = tongues_open(&tongues, args.model, &md->config, md->notes.tokens, err);
    if (!rc)
        rc = theirs ? huggingface_write(args.out, md, tongues, precision == THEIRS_F16, err)
                    : ctranslate2_write(args.out, md, tongues, precision == THEIRS_INT8, err);
    tongues_free(tongues);
    if (!rc)
        printf("%s: %s model, %s, %.1f MB; %s has %.1f MB\n", args.out,
               theirs ? "MarianMT" : "CTranslate2", theirs_names[precision],
               megabytes(args.out, theirs ? MODELDIR_WEIGHTS : MODELDIR_CTRANSLATE2), args.model,
               megabytes(args.model, MODELDIR_WEIGHTS));
    return rc;
}

static int export_foreign(struct err *err) {
    struct modeldir md;
    int rc = modeldir_open_any(&md, args.model, err);
    if (rc) return rc;
    rc = modeldir_verify(&md, args.model, args.threads, err);
    if (!rc) rc = write_foreign(&md, err);
    modeldir_close(&md);
    return rc;
}

static int run_export(struct err *err) {
    int only = args.precision == THEIRS_INT8  ? FORMAT_CTRANSLATE2
               : args.precision == THEIRS_F16 ? FORMAT_HUGGINGFACE
                                              : args.format;
    if (only != args.format)
        return cli_usage(err, "export: --precision %s is for --format %s, not %s",
                         theirs_names[args.precision], format_names[only],
                         format_names[args.format]);
    if (args.precision != THEIRS_AUTO && args.format < FORMAT_CTRANSLATE2)
        return cli_usage(err, "export: --precision %s is for other engines; --format %s says it",
                         theirs_names[args.precision], format_names[args.format]);
    int rc = target_for_model(args.out, &args.model, 1, args.overwrite, err);
    if (rc) return rc;
    return args.format >= FORMAT_CTRANSLATE2 ? export_foreign(err) : export_tiled(err);
}

static int run_quantize(struct err *err) {
    args.format = PRECISION_INT8;
    return run_export(err);
}

const struct command cmd_export = {
    .name = "export",
    .summary = "write a model in a form ready to run, for heed, CTranslate2 or Hugging Face",
    .usage = "--model MODEL --out DIR --format f32|bf16|int8|ctranslate2|huggingface",
    .groups = export_groups,
    .run = run_export};
const struct command cmd_quantize = {.name = "quantize",
                                     .summary = "write a model with int8 weights: export --format "
                                                "int8",
                                     .usage = "--model MODEL --out DIR",
                                     .groups = quantize_groups,
                                     .run = run_quantize};
