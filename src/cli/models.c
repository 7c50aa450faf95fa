/* models.c — see models.h. */
#include "cli/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "model/card.h"
#include "model/modeldir.h"

void models_catalog(struct catalog *catalog) { catalog_init(catalog, getenv("HEED_MODELS")); }

int models_find(const char **dir, const char *word, struct err *err) {
    struct catalog catalog;
    char *found;
    models_catalog(&catalog);
    int rc = catalog_find(&found, &catalog, word, err);
    *dir = rc ? word : found;
    catalog_release(&catalog);
    return rc;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* " from en to de" */
static const char *direction(char text[128], const char *from, const char *to) {
    snprintf(text, 128, "%s%.40s%s%.40s", from ? " from " : "", from ? from : "", to ? " to " : "",
             to ? to : "");
    return text;
}

static int check_languages(const char *from, const char *to, struct err *err) {
    struct err why = {0};
    if (card_check(&(struct card){.source = from}, &why))
        return cli_usage(err, "--from%s", strchr(why.msg, ':'));
    if (card_check(&(struct card){.source = to}, &why))
        return cli_usage(err, "--to%s", strchr(why.msg, ':'));
    return 0;
}

/* What a model says of itself, as long as the notes last; a broken one says nothing. */
static struct card card_of(const struct catalog_model *model, struct model_notes *notes) {
    struct config config;
    struct weights_form form;
    struct card card = {0};
    if (modeldir_read_any(model->dir, &config, &form, notes, NULL) ||
        card_from_json(&card, notes->card, "", NULL))
        return (struct card){0};
    return card;
}

/* Which models of the list translate so. */
static int matching(int *found, const struct catalog_list *list, const char *from, const char *to) {
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        struct model_notes notes;
        struct card card = card_of(&list->model[i], &notes);
        if (card_speaks(card.source, from) && card_speaks(card.target, to)) found[n++] = i;
        model_notes_release(&notes);
    }
    return n;
}

static void join_names(char text[100], const struct catalog_list *list, const int *which, int n) {
    size_t at = 0;
    for (int i = 0; i < n && at < 99; i++)
        at += (size_t)snprintf(text + at, 100 - at, "%s%s", i ? ", " : "",
                               list->model[which[i]].name);
}

static void say(const struct catalog_model *model) {
    struct model_notes notes;
    struct card card = card_of(model, &notes);
    char text[128];
    fprintf(stderr, "heed: translating%s with the model %s\n",
            direction(text, card.source, card.target), model->dir);
    model_notes_release(&notes);
}

/* The index of the one to use. */
static int choose(int *chosen, const struct catalog_list *list, const char *from, const char *to,
                  struct err *err) {
    char text[128], names[100] = "";
    int n = list->n, *found = xcalloc((size_t)n + 1, sizeof *found);
    for (int i = 0; i < n; i++) found[i] = i;
    if (from || to) n = matching(found, list, from, to);
    *chosen = n == 1 ? found[0] : -1;
    for (int i = 0; i < n; i++)
        if (list->model[found[i]].is_default) *chosen = found[i];
    join_names(names, list, found, n);
    xfree(found);
    if (*chosen >= 0) return 0;
    if (n > 0 && !from && !to)
        return cli_usage(err,
                         "several models are installed: %s; choose one with --model, or with "
                         "--from and --to",
                         names);
    if (n > 0)
        return cli_usage(err, "several models translate%s: %s; choose one with --model",
                         direction(text, from, to), names);
    return cli_usage(err, "no model translates%s; heed models lists those that are installed",
                     direction(text, from, to));
}

int models_choose(struct option_list *chosen, const char *from, const char *to, int quiet,
                  struct err *err) {
    struct catalog catalog;
    struct catalog_list list;
    int at = 0, rc = check_languages(from, to, err);
    if (rc) return rc;
    models_catalog(&catalog);
    catalog_list(&list, &catalog);
    if (!list.n)
        rc = cli_usage(err, "--model is missing, and no model is installed");
    else
        rc = choose(&at, &list, from, to, err);
    if (!rc && !quiet) say(&list.model[at]);
    if (!rc) {
        chosen->item = xmalloc(sizeof *chosen->item);
        chosen->item[chosen->n++] = xstrdup(list.model[at].dir);
    }
    catalog_list_release(&list);
    catalog_release(&catalog);
    return rc;
}

/* en-GB and en-US are */
static int same_language(const char *a, const char *b) {
    size_t n = strcspn(a, "-");
    return n == strcspn(b, "-") && strncasecmp(a, b, n) == 0;
}

/* Does this model come before all others of the list for its languages? */
static int first_of_pair(const struct catalog_list *list, int at, const struct card *card) {
    int first = 1;
    for (int i = 0; i < list->n && first; i++) {
        const struct catalog_model *a = &list->model[i], *b = &list->model[at];
        struct model_notes notes;
        struct card other = card_of(a, &notes);
        if (i != at && other.source && other.target && same_language(other.source, card->source) &&
            same_language(other.target, card->target))
            first = a->is_default != b->is_default ? b->is_default : at < i;
        model_notes_release(&notes);
    }
    return first;
}

int models_all(struct option_list *all, struct err *err) {
    struct catalog catalog;
    struct catalog_list list;
    models_catalog(&catalog);
    catalog_list(&list, &catalog);
    all->item = xcalloc((size_t)list.n + 1, sizeof *all->item);
    for (int i = 0; i < list.n; i++) {
        struct model_notes notes;
        struct card card = card_of(&list.model[i], &notes);
        if (card.source && card.target && first_of_pair(&list, i, &card))
            all->item[all->n++] = xstrdup(list.model[i].dir);
        model_notes_release(&notes);
    }
    int rc = all->n
                 ? 0
                 : cli_usage(err, "--model is missing, and no %s",
                             list.n ? "installed model says its languages" : "model is installed");
    catalog_list_release(&list);
    catalog_release(&catalog);
    return rc;
}
