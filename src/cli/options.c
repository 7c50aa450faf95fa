/* options.c — see options.h. */
#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "io/json.h"

/* ---- parsing --------------------------------------------------------------------------------- */

static const struct option *find(const struct command *command, const char *name, size_t length) {
    for (const struct option *o = command->options; o->name; o++)
        if (strlen(o->name) == length && strncmp(o->name, name, length) == 0) return o;
    return NULL;
}

/* --d-model -> d_model, if that is a field of the configuration (or one of its pairs). */
static int is_field(char *name, size_t size, const char *text, size_t length) {
    if (length >= size) return 0;
    for (size_t i = 0; i < length; i++) name[i] = text[i] == '-' ? '_' : text[i];
    name[length] = 0;
    return config_field_find(name) || strcmp(name, "n_layer") == 0 || strcmp(name, "n_vocab") == 0;
}

static int set_number(const struct option *o, const char *text, struct err *err) {
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    int whole = o->kind == OPTION_INT;
    if (end == text || *end || errno || !isfinite(v) || (whole && v != floor(v)))
        return err_set(err, HEED_EINVAL, "--%s: '%s' is not a %snumber", o->name, text,
                       whole ? "whole " : "");
    if (v < o->min || v > o->max)
        return err_set(err, HEED_EINVAL, "--%s: %s is not between %g and %g", o->name, text, o->min,
                       o->max);
    if (whole)
        *(int *)o->value = (int)v;
    else
        *(double *)o->value = v;
    return 0;
}

static int set_option(const struct option *o, const char *text, struct err *err) {
    if (o->kind == OPTION_STRING) {
        *(const char **)o->value = text;
        return 0;
    }
    return set_number(o, text, err);
}

static void add_item(const struct option *o, const char *text) {
    struct option_list *list = o->value;
    list->item = xrealloc(list->item, ((size_t)list->n + 1) * sizeof *list->item);
    list->item[list->n++] = text;
}

/* The words of a list: all up to the next that begins with a dash ("-" alone is standard input). */
static int parse_list(const struct option *o, const char *text, int argc, char **argv, int *used,
                      struct err *err) {
    if (text) return add_item(o, text), 0;
    for (*used = 1; *used < argc && (argv[*used][0] != '-' || !argv[*used][1]); ++*used)
        add_item(o, argv[*used]);
    return *used > 1 ? 0 : err_set(err, HEED_EINVAL, "--%s needs at least one value", o->name);
}

static int add_override(const struct command *command, const char *field, const char *text,
                        struct err *err) {
    struct overrides *over = command->overrides;
    if (over->n == MAX_OVERRIDES)
        return err_set(err, HEED_EINVAL, "more than %d model options", MAX_OVERRIDES);
    snprintf(over->item[over->n].name, sizeof over->item[over->n].name, "%s", field);
    over->item[over->n++].value = text;
    return 0;
}

/* One option; *used is how many words it took. */
static int parse_one(const struct command *command, int argc, char **argv, int *used,
                     struct err *err) {
    const char *word = argv[0];
    if (strncmp(word, "--", 2) != 0 || !word[2])
        return err_set(err, HEED_EINVAL, "%s: unexpected argument '%s'", command->name, word);
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct option *o = find(command, name, length);
    char field[32];
    if (!o && !(command->overrides && is_field(field, sizeof field, name, length)))
        return err_set(err, HEED_EINVAL, "%s: there is no option '--%.*s'", command->name,
                       (int)length, name);
    if (o && o->kind == OPTION_FLAG) {
        if (equals) return err_set(err, HEED_EINVAL, "--%s takes no value", o->name);
        *(int *)o->value = 1;
        return 0;
    }
    if (o && o->kind == OPTION_LIST)
        return parse_list(o, equals ? equals + 1 : NULL, argc, argv, used, err);
    const char *text = equals ? equals + 1 : argc > 1 ? argv[1] : NULL;
    if (!text) return err_set(err, HEED_EINVAL, "--%.*s needs a value", (int)length, name);
    if (!equals) *used = 2;
    return o ? set_option(o, text, err) : add_override(command, field, text, err);
}

int options_parse(const struct command *command, int argc, char **argv, struct err *err) {
    for (int i = 0; i < argc;) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            options_help(command);
            return 1;
        }
        int used = 1;
        int rc = parse_one(command, argc - i, argv + i, &used, err);
        if (rc) return rc;
        i += used;
    }
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void dashed(char *out, size_t size, const char *name) {
    snprintf(out, size, "%s", name);
    for (char *p = out; *p; p++)
        if (*p == '_') *p = '-';
}

/* Does the command line give this option? */
static int given(int argc, char **argv, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, n) != 0) continue;
        if (!argv[i][2 + n] || argv[i][2 + n] == '=') return 1;
    }
    return 0;
}

/* Options point into texts from files until the process ends: whatever they came from is kept
 * here. */
static json_t *kept;

static json_t *keep(json_t *value) {
    if (!kept) kept = json_array();
    json_array_append_new(kept, value);
    return value;
}

/* A JSON scalar as the text an option would have on the command line, or NULL. */
static const char *scalar_text(const json_t *value) {
    if (json_is_string(value)) return json_string_value(value);
    if (!json_is_number(value)) return NULL;
    char text[40];
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(text, sizeof text, "%.17g", json_real_value(value));
    return json_string_value(keep(json_string(text)));
}

static int file_list(const struct option *o, const json_t *value, struct err *err) {
    size_t i;
    json_t *item;
    if (!json_is_array(value)) {
        const char *text = scalar_text(value);
        return text ? (add_item(o, text), 0) : err_set(err, HEED_ECONFIG, "not a list of texts");
    }
    json_array_foreach(value, i, item) {
        const char *text = scalar_text(item);
        if (!text) return err_set(err, HEED_ECONFIG, "item %zu is not a text or a number", i + 1);
        add_item(o, text);
    }
    return 0;
}

static int file_option(const struct command *command, const char *key, const json_t *value,
                       int argc, char **argv, struct err *err) {
    char name[48], field[32];
    dashed(name, sizeof name, key);
    const struct option *o = find(command, name, strlen(name));
    int is_model = command->overrides && is_field(field, sizeof field, key, strlen(key));
    if (!o && !is_model) return err_set(err, HEED_ECONFIG, "there is no such option");
    if (given(argc, argv, name) || json_is_null(value)) return 0;
    if (o && o->kind == OPTION_LIST) return file_list(o, value, err);
    if (o && o->kind == OPTION_FLAG) {
        if (!json_is_boolean(value)) return err_set(err, HEED_ECONFIG, "neither true nor false");
        *(int *)o->value = json_is_true(value);
        return 0;
    }
    const char *text = scalar_text(value);
    if (!text) return err_set(err, HEED_ECONFIG, "neither a text nor a number");
    if (o) return set_option(o, text, err);
    /* the value is used much later, when nobody knows of the file any more */
    struct config scratch;
    int rc = config_preset(&scratch, "base", err);
    if (!rc) rc = config_set(&scratch, field, text, err);
    return rc ? rc : add_override(command, field, text, err);
}

static int file_object(const struct command *command, const char *path, const json_t *object,
                       int argc, char **argv, struct err *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return err_set(err, HEED_ECONFIG, "%s: expected a JSON object", path);
    json_object_foreach((json_t *)object, key, value) {
        struct err why = {0};
        if (file_option(command, key, value, argc, argv, &why))
            return err_set(err, HEED_ECONFIG, "%.100s: %.40s: %.100s", path, key, why.msg);
    }
    return 0;
}

int options_file(const struct command *command, const char *path, int argc, char **argv,
                 struct err *err) {
    json_t *root;
    int rc = json_in_file(&root, path, err);
    if (rc) return rc;
    keep(root);
    json_t *model = json_object_get(root, "model"), *training = json_object_get(root, "training");
    if (!json_is_object(model) || !json_is_object(training))
        return file_object(command, path, root, argc, argv, err);
    /* The config.json of a model directory: the run's options and the model's fields, but for the
     * vocabularies, which the tokenizer decides. */
    json_object_del(model, "n_vocab_src");
    json_object_del(model, "n_vocab_tgt");
    rc = file_object(command, path, training, argc, argv, err);
    return rc ? rc : file_object(command, path, model, argc, argv, err);
}

json_t *options_json(const struct command *command) {
    json_t *object = json_object();
    for (const struct option *o = command->options; o->name; o++) {
        json_t *value = json_null();
        if (o->kind == OPTION_FLAG) value = json_boolean(*(const int *)o->value);
        if (o->kind == OPTION_INT) value = json_integer(*(const int *)o->value);
        if (o->kind == OPTION_FLOAT) value = json_real(*(const double *)o->value);
        if (o->kind == OPTION_STRING && *(const char *const *)o->value)
            value = json_string(*(const char *const *)o->value);
        if (o->kind == OPTION_LIST) {
            const struct option_list *list = o->value;
            value = json_array();
            for (int i = 0; i < list->n; i++)
                json_array_append_new(value, json_string(list->item[i]));
        }
        char key[48];
        snprintf(key, sizeof key, "%s", o->name);
        for (char *p = key; *p; p++)
            if (*p == '-') *p = '_';
        json_object_set_new(object, key, value);
    }
    return object;
}

/* ---- model ----------------------------------------------------------------------------------- */

int options_dtype(enum dtype *type, const char *name, const struct backend *be, struct err *err) {
    if (strcmp(name, "auto") == 0)
        return *type = be && backend_device_memory(be) ? DTYPE_BF16 : DTYPE_F32, 0;
    if (strcmp(name, "f32") == 0) return *type = DTYPE_F32, 0;
    if (strcmp(name, "bf16") == 0) return *type = DTYPE_BF16, 0;
    return err_set(err, HEED_EINVAL, "--dtype: '%s' is not one of auto, f32, bf16", name);
}

int options_config(struct config *config, const char *preset, const struct overrides *overrides,
                   struct err *err) {
    int rc = config_preset(config, preset, err);
    for (int i = 0; !rc && i < overrides->n; i++)
        rc = config_set(config, overrides->item[i].name, overrides->item[i].value, err);
    return rc ? rc : config_check(config, err);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void default_text(char *text, size_t size, const struct option *o) {
    text[0] = 0;
    if (o->kind == OPTION_INT) snprintf(text, size, " (%d)", *(const int *)o->value);
    if (o->kind == OPTION_FLOAT) snprintf(text, size, " (%g)", *(const double *)o->value);
    if (o->kind == OPTION_STRING && *(const char *const *)o->value)
        snprintf(text, size, " (%s)", *(const char *const *)o->value);
}

static void field_arg(char *text, size_t size, const struct config_field *f) {
    snprintf(text, size, "%s", f->kind == CONFIG_INT ? "N" : "X");
    if (f->kind != CONFIG_CHOICE) return;
    text[0] = 0;
    for (int i = 0; f->choice[i]; i++) {
        if (!f->choice[i][0]) continue;
        size_t at = strlen(text);
        snprintf(text + at, size - at, "%s%s", at ? "|" : "", f->choice[i]);
    }
}

/* Calls fn for every option of the command, model fields included. */
static void each(const struct command *command,
                 void (*fn)(const char *name, const char *arg, const char *help)) {
    char text[160], name[40], arg[64];
    for (const struct option *o = command->options; o->name; o++) {
        char def[64];
        default_text(def, sizeof def, o);
        snprintf(text, sizeof text, "%s%s", o->help, def);
        snprintf(arg, sizeof arg, "%s%s", o->arg ? o->arg : "",
                 o->kind == OPTION_LIST ? "..." : "");
        fn(o->name, arg, text);
    }
    fn("help", "", "this text");
    if (!command->overrides) return;
    fn("n-layer", "N", "layers of both encoder and decoder");
    fn("n-vocab", "N", "source and target vocabulary");
    for (const struct config_field *f = config_fields; f->name; f++) {
        dashed(name, sizeof name, f->name);
        field_arg(arg, sizeof arg, f);
        fn(name, arg, f->help);
    }
}

static void help_row(const char *name, const char *arg, const char *help) {
    char left[96];
    snprintf(left, sizeof left, "--%s %s", name, arg);
    printf("  %-38s %s\n", left, help);
}

void options_help(const struct command *command) {
    printf("heed %s — %s\n\nusage: heed %s %s\n\n", command->name, command->summary, command->name,
           command->usage ? command->usage : "[options]");
    each(command, help_row);
}

static void manual_row(const char *name, const char *arg, const char *help) {
    printf(".TP\n.B \\-\\-%s \\fI%s\\fR\n%s.\n", name, arg, help);
}

void options_manual(const struct command *command) {
    printf(".SS heed %s\n%s.\n", command->name, command->summary);
    each(command, manual_row);
}

static void completion_row(const char *name, const char *arg, const char *help) {
    (void)arg, (void)help;
    printf("--%s ", name);
}

void options_completion(const struct command *command) {
    each(command, completion_row);
    printf("\n");
}
