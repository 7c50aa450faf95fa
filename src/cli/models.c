/* models.c — see models.h. */
#include "cli/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "model/card.h"

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

static void join_names(char text[100], const struct catalog_list *list, const int *which, int n) {
    size_t at = 0;
    for (int i = 0; i < n && at < 99; i++)
        at += (size_t)snprintf(text + at, 100 - at, "%s%s", i ? ", " : "",
                               list->model[which[i]].name);
}

static void say(const struct catalog_model *model) {
    struct model_notes notes;
    struct card card = catalog_card(model, &notes);
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
    if (from || to) n = catalog_matching(found, list, from, to);
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

int models_all(struct option_list *all, struct err *err) {
    struct catalog catalog;
    struct catalog_list list;
    models_catalog(&catalog);
    catalog_list(&list, &catalog);
    all->item = xcalloc((size_t)list.n + 1, sizeof *all->item);
    for (int i = 0; i < list.n; i++) {
        struct model_notes notes;
        struct card card = catalog_card(&list.model[i], &notes);
        if (card.source && card.target && catalog_comes_first(&list, i, &card))
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
