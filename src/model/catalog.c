/* catalog.c — see catalog.h. */
#include "model/catalog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/place.h"
#include "base/utf8.h"
#include "model/modeldir.h"

#ifndef HEED_PREFIX /* the Makefile says it */
#define HEED_PREFIX "/usr/local"
#endif
#define SHARED_MODELS "/share/heed/models"

/* ---- places ---------------------------------------------------------------------------------- */

static int same_folder(const char *a, const char *b) {
    struct stat x, y;
    if (strcmp(a, b) == 0) return 1;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void add_place(struct catalog *c, const char *folder) {
    for (int i = 0; i < c->n; i++)
        if (same_folder(c->place[i], folder)) return;
    c->place = xrealloc(c->place, ((size_t)c->n + 1) * sizeof *c->place);
    c->place[c->n++] = xstrdup(folder);
}

/* Seen from bin or lib. */
static void add_installed(struct catalog *c, const char *folder) {
    char path[PLACE_SIZE + 32];
    snprintf(path, sizeof path, "%s/.." SHARED_MODELS, folder);
    char *real = *folder ? realpath(path, NULL) : NULL;
    if (real) add_place(c, real);
    free(real);
}

void catalog_init(struct catalog *c, const char *first) {
    struct places places;
    *c = (struct catalog){0};
    while (first && *first) {
        size_t n = strcspn(first, ":");
        char *folder = xstrdup(first);
        folder[n] = 0;
        if (n) add_place(c, folder);
        xfree(folder);
        first += n + (first[n] == ':');
    }
    add_place(c, "models");
    places_find(&places);
    add_installed(c, places.library);
    add_installed(c, places.program);
    add_place(c, HEED_PREFIX SHARED_MODELS);
}

void catalog_release(struct catalog *c) {
    for (int i = 0; i < c->n; i++) xfree(c->place[i]);
    xfree(c->place);
    *c = (struct catalog){0};
}

/* ---- listing --------------------------------------------------------------------------------- */

static int is_name(const char *name) {
    size_t n = strlen(name);
    return n > 0 && name[0] != '.' && !strchr(name, '/') && utf8_plain_prefix(name, n) == n;
}

/* One that may not be looked into is, too, so that it is not passed over in silence. */
static int is_model(const char *dir) {
    struct stat st;
    if (!dir_exists(dir)) return 0;
    char *config = path_join(dir, MODELDIR_CONFIG);
    int is = lstat(config, &st) == 0 || errno == EACCES;
    xfree(config);
    return is;
}

static const struct catalog_model *find_listed(const struct catalog_list *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->model[i].name, name) == 0) return &list->model[i];
    return NULL;
}

static void list_place(struct catalog_list *list, const char *place) {
    struct dir_names names;
    if (dir_read(&names, place, NULL)) return;
    for (int i = 0; i < names.n; i++) {
        if (!is_name(names.name[i]) || find_listed(list, names.name[i])) continue;
        char *dir = path_join(place, names.name[i]);
        if (!is_model(dir)) {
            xfree(dir);
            continue;
        }
        list->model = xrealloc(list->model, ((size_t)list->n + 1) * sizeof *list->model);
        list->model[list->n++] = (struct catalog_model){xstrdup(names.name[i]), dir, 0};
    }
    dir_names_release(&names);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct catalog_model *)a)->name, ((const struct catalog_model *)b)->name);
}

static void remove_model(struct catalog_list *list, int at) {
    xfree(list->model[at].name);
    xfree(list->model[at].dir);
    list->n--;
    memmove(&list->model[at], &list->model[at + 1], (size_t)(list->n - at) * sizeof *list->model);
}

static void mark_default(struct catalog_list *list) {
    const struct catalog_model *named = find_listed(list, "default");
    int at = named ? (int)(named - list->model) : list->n == 1 ? 0 : -1;
    if (at < 0) return;
    list->model[at].is_default = 1;
    for (int i = 0; named && i < list->n; i++)
        if (i != at && same_folder(list->model[i].dir, list->model[at].dir)) {
            list->model[i].is_default = 1;
            remove_model(list, at);
            return;
        }
}

void catalog_list(struct catalog_list *list, const struct catalog *c) {
    *list = (struct catalog_list){0};
    for (int i = 0; i < c->n; i++) list_place(list, c->place[i]);
    if (list->n) qsort(list->model, (size_t)list->n, sizeof *list->model, by_name);
    mark_default(list);
}

void catalog_list_release(struct catalog_list *list) {
    while (list->n) remove_model(list, list->n - 1);
    xfree(list->model);
    *list = (struct catalog_list){0};
}

/* ---- finding --------------------------------------------------------------------------------- */

/* "a, b, c", or as much as there is room for. */
static void append(char *text, size_t size, const char *word) {
    size_t n = strlen(text);
    if (n + strlen(word) + sizeof ", ..." < size)
        snprintf(text + n, size - n, "%s%s", n ? ", " : "", word);
    else if (n < 3 || strcmp(text + n - 3, "...") != 0)
        snprintf(text + n, size - n, "%s...", n ? ", " : "");
}

static int not_found(const struct catalog *c, const char *name, struct err *err) {
    char places[100] = "", models[60] = "";
    struct catalog_list list;
    catalog_list(&list, c);
    for (int i = 0; i < c->n; i++) append(places, sizeof places, c->place[i]);
    for (int i = 0; i < list.n; i++) append(models, sizeof models, list.model[i].name);
    catalog_list_release(&list);
    return err_set(err, HEED_EIO, "%.40s: no such directory, and no model of that name in %s; %s%s",
                   name, places, *models ? "found there: " : "there are none", models);
}

int catalog_find(char **dir, const struct catalog *c, const char *name, struct err *err) {
    *dir = NULL;
    if (dir_exists(name)) return *dir = xstrdup(name), 0;
    if (!is_name(name)) return err_set(err, HEED_EIO, "%.180s: no such model directory", name);
    for (int i = 0; i < c->n && !*dir; i++) {
        char *path = path_join(c->place[i], name);
        if (is_model(path))
            *dir = path;
        else
            xfree(path);
    }
    return *dir ? 0 : not_found(c, name, err);
}

/* ---- by language ----------------------------------------------------------------------------- */

struct card catalog_card(const struct catalog_model *model, struct model_notes *notes) {
    struct config config;
    struct weights_form form;
    struct card card = {0};
    if (modeldir_read_any(model->dir, &config, &form, notes, NULL) ||
        card_from_json(&card, notes->card, "", NULL))
        return (struct card){0};
    return card;
}

int catalog_matching(int *found, const struct catalog_list *list, const char *from,
                     const char *to) {
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        struct model_notes notes;
        struct card card = catalog_card(&list->model[i], &notes);
        if (card_speaks(card.source, from) && card_speaks(card.target, to)) found[n++] = i;
        model_notes_release(&notes);
    }
    return n;
}

static int same_language(const char *a, const char *b) {
    size_t n = strcspn(a, "-");
    return n == strcspn(b, "-") && strncasecmp(a, b, n) == 0;
}

int catalog_comes_first(const struct catalog_list *list, int at, const struct card *card) {
    int first = 1;
    for (int i = 0; i < list->n && first; i++) {
        const struct catalog_model *a = &list->model[i], *b = &list->model[at];
        struct model_notes notes;
        struct card other = catalog_card(a, &notes);
        if (i != at && other.source && other.target && same_language(other.source, card->source) &&
            same_language(other.target, card->target))
            first = a->is_default != b->is_default ? b->is_default : at < i;
        model_notes_release(&notes);
    }
    return first;
}
