/* cmd_models.c — `heed models`: the models that can be named, and what they are.
 *
 * A directory that is there but cannot be used is listed with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/models.h"
#include "io/json.h"
#include "model/card.h"
#include "model/modeldir.h"
#include "search/defaults.h"

static struct models_args { int json; } args;

#define OPTIONS_OF models_args
static const struct option rows[] = {JSON_ROW(json), {.name = NULL}};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

/* What there is to say about a model: its card and notes, or why it cannot be used. */
struct row {
    const struct catalog_model *model;
    struct modeldir md;
    struct card card; /* texts in md.notes */
    uint64_t bytes;   /* of its files */
    int languages;    /* that it can be told; 0: one pair */
    struct err why;   /* code 0: it can be used */
};

static uint64_t size_of(const char *dir) {
    uint64_t bytes = 0;
    for (int i = 0; modeldir_files[i]; i++) {
        char *path = path_join(dir, modeldir_files[i]);
        bytes += file_size(path);
        xfree(path);
    }
    return bytes;
}

static void look(struct row *r, const struct catalog_model *model) {
    struct translator_options options;
    *r = (struct row){.model = model, .bytes = size_of(model->dir)};
    char *path = path_join(model->dir, MODELDIR_CONFIG);
    int rc = modeldir_open_any(&r->md, model->dir, &r->why);
    if (!rc) rc = card_from_json(&r->card, r->md.notes.card, path, &r->why);
    if (!rc) rc = defaults_read(&options, r->md.notes.translate, &r->md.config, path, &r->why);
    struct tongues *tongues = NULL;
    if (!rc) tongues_open(&tongues, model->dir, &r->md.config, r->md.notes.tokens, &r->why);
    if (tongues) r->languages = tongues->n_code;
    tongues_free(tongues);
    xfree(path);
}

/* Plain weights may be stored as BF16 or F16. */
static const char *precision_of(const struct modeldir *md) {
    if (md->form.tiled) return weights_type_name(md->form.type);
    const char *dtype = md->tensor[0]->dtype;
    return strcmp(dtype, "BF16") == 0 ? "bf16" : strcmp(dtype, "F16") == 0 ? "f16" : "f32";
}

static json_t *codes_of(const struct model_notes *notes) {
    json_t *list = json_array(), *token,
           *codes = json_object_get(json_object_get(notes->tokens, "languages"), "codes");
    const char *code;
    json_object_foreach(codes, code, token) { json_array_append_new(list, json_string(code)); }
    return list;
}

static void print_json(const struct row *r) {
    json_t *all = json_pack("{s:o, s:o, s:b}", "name", json_out_string(r->model->name), "directory",
                            json_out_string(r->model->dir), "default", r->model->is_default);
    if (r->why.code) {
        json_object_set_new(all, "error", json_out_string(r->why.msg));
    } else {
        json_object_update(all, r->md.notes.card);
        json_object_set_new(all, "bytes", json_integer((json_int_t)r->bytes));
        json_object_set_new(all, "precision", json_string(precision_of(&r->md)));
        json_object_set_new(all, "parameters", json_integer((json_int_t)r->md.table.n_value));
        if (r->md.notes.translate) json_object_set(all, "translate", r->md.notes.translate);
        if (r->languages) json_object_set_new(all, "languages", codes_of(&r->md.notes));
    }
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    puts(text ? text : "{}");
    free(text);
    json_decref(all);
}

static const char *or_dash(const char *text) { return text ? text : "-"; }

/* A language of the card, or of a model that says none how many it has. */
static const char *or_many(const struct row *r, const char *tag, char text[24]) {
    snprintf(text, 24, "%d", r->languages);
    return tag ? tag : r->languages ? text : "-";
}

static void print_text(const struct row *r) {
    char many[2][24];
    printf("%-16s%s ", r->model->name, r->model->is_default ? "*" : " ");
    if (r->why.code)
        printf("cannot be used: %s\n", r->why.msg);
    else
        printf("%-8s %-8s %7.1f MB  %-9s %-16s %s\n", or_many(r, r->card.source, many[0]),
               or_many(r, r->card.target, many[1]), (double)r->bytes / 1e6, precision_of(&r->md),
               or_dash(r->card.licence), r->model->dir);
}

/* Places that are there and cannot be read. */
static void warn(const struct catalog *catalog) {
    for (int i = 0; i < catalog->n; i++) {
        struct dir_names names;
        struct err why;
        if (dir_read(&names, catalog->place[i], &why))
            fprintf(stderr, "heed: warning: %s\n", why.msg);
        dir_names_release(&names);
    }
}

static int run(struct err *err) {
    (void)err;
    struct catalog catalog;
    struct catalog_list list;
    models_catalog(&catalog);
    catalog_list(&list, &catalog);
    warn(&catalog);
    if (list.n && !args.json)
        printf("%-17s %-8s %-8s %10s  %-9s %-16s %s\n", "name", "from", "to", "size", "precision",
               "licence", "directory");
    for (int i = 0; i < list.n; i++) {
        struct row r;
        look(&r, &list.model[i]);
        if (args.json)
            print_json(&r);
        else
            print_text(&r);
        modeldir_close(&r.md);
    }
    if (!list.n) {
        fprintf(stderr, "heed: there are no models in");
        for (int i = 0; i < catalog.n; i++)
            fprintf(stderr, "%s %s", i ? "," : "", catalog.place[i]);
        fprintf(stderr, "\n");
    }
    catalog_list_release(&list);
    catalog_release(&catalog);
    return 0;
}

static const char about[] =
    "A model's name is that of its directory, wherever a command takes a model. Models are looked "
    "for in the folders of the environment variable HEED_MODELS (separated by colons), in ./models "
    "and in share/heed/models of the installation; the first of a name counts. The one marked * is "
    "used where none is named: the only one, or the one called default, which may be a link.";

const struct command cmd_models = {.name = "models",
                                   .summary = "list the models that are installed",
                                   .usage = "[--json]",
                                   .about = about,
                                   .groups = groups,
                                   .run = run};
