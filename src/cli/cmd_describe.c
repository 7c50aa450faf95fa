/* cmd_describe.c — `heed describe`: says in a model's config.json what it is for and how it is best
 * run. The weights are not touched.
 *
 * What is given replaces what was there; an empty value removes it. */
#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "model/card.h"
#include "model/modeldir.h"
#include "model/tongues.h"
#include "search/defaults.h"
#include "train/target.h"

static struct describe_args { struct option_list dir, set; } args;
static struct card card;

#define OPTIONS_OF describe_args
static const struct option rows[] = {
    ROW(WORDS, "dir", dir, NULL, "a model, by name or directory", .arg = "MODEL", .min = 1,
        .max = 1),
    ROW(LIST, "set", set, NULL,
        "NAME=VALUE: an option of heed translate that holds for this model where the user does not "
        "give it; repeat it for more",
        .arg = "NAME=VALUE"),
    {.name = NULL},
};
static struct option_group groups[] = {
    {.rows = rows, .values = &args}, {.rows = card_rows, .values = &card}, {.rows = NULL}};

/* The given texts in place of the old ones; "" removes. */
static int change_card(struct model_notes *notes, struct err *err) {
    struct card now;
    int rc = card_from_json(&now, notes->card, "", err); /* has been read before */
    for (const struct option *o = card_rows; o->name; o++) {
        const char *text = option_text(o, &card, NULL);
        if (text) option_copy(o, &now, *text ? &card : &(struct card){0});
    }
    if (!rc) rc = card_check(&now, err);
    json_t *changed = rc ? NULL : card_to_json(&now);
    json_decref(notes->card);
    notes->card = changed;
    return rc;
}

/* A tag that the tokenizer does not have would make the model useless. */
static int check_tag(const char *token, const struct config *config, const json_t *tokens,
                     struct err *err) {
    struct tongues *tongues = NULL;
    int rc = token ? tongues_open(&tongues, args.dir.item[0], config, tokens, err) : 0;
    if (!rc && token && tokenizer_find(tongues->source, token) < 0)
        rc = err_set(err, HEED_EINVAL,
                     "--set: prefix_token: the model's tokenizer has no piece '%.100s'", token);
    tongues_free(tongues);
    return rc;
}

static int change_translate(struct model_notes *notes, const struct config *config,
                            struct err *err) {
    struct translator_options checked;
    struct err why = {0};
    int rc = 0;
    if (!notes->translate) notes->translate = json_object();
    for (int i = 0; i < args.set.n && !rc; i++)
        if ((rc = defaults_set(notes->translate, args.set.item[i], &why)))
            err_set(err, rc, "--set: %.240s", why.msg);
    if (!rc && defaults_read(&checked, notes->translate, config, args.dir.item[0], err))
        rc = HEED_EINVAL;
    if (!rc) rc = check_tag(checked.prefix_token, config, notes->tokens, err);
    if (json_object_size(notes->translate)) return rc;
    json_decref(notes->translate);
    notes->translate = NULL;
    return rc;
}

static int run(struct err *err) {
    const char *dir = args.dir.item[0];
    struct config config;
    struct weights_form form;
    struct model_notes notes = {0};
    int given = args.set.n;
    for (const struct option *o = card_rows; o->name; o++) given += options_given(groups, o->name);
    if (!given)
        return cli_usage(err, "describe: nothing to change; heed inspect shows what there is");
    if (target_has_run(dir))
        return err_set(err, HEED_EIO,
                       "%.120s: a training run writes its config.json anew; describe what heed "
                       "average or heed export makes of it",
                       dir);
    int rc = modeldir_read_any(dir, &config, &form, &notes, err);
    if (!rc) rc = change_card(&notes, err);
    if (!rc) rc = change_translate(&notes, &config, err);
    if (!rc) rc = modeldir_annotate(dir, &notes, err);
    model_notes_release(&notes);
    return rc;
}

static const char about[] =
    "Languages, licence, description and the options that suit the model are kept in its "
    "config.json; its weights are not touched. heed average, heed export and heed quantize pass "
    "them on. An empty value removes an entry (--licence '', --set beam=). A model can set beam, "
    "alpha, length_rule, min_length, max_length, max_extra, no_repeat_ngram, repetition_penalty, "
    "no_unknown, trees, alignment_layer, alignment_head, alignment_row, alignment_threshold, "
    "source_lang, target_lang and prefix_token.";

const struct command cmd_describe = {
    .name = "describe",
    .summary = "say which languages a model is for, its licence and its best options",
    .usage =
        "MODEL [--source TAG --target TAG --licence TEXT --description TEXT] [--set NAME=VALUE]",
    .about = about,
    .groups = groups,
    .run = run};
