/* translate_print.c — see translate_print.h. */
#include "cli/translate_print.h"

#include <stdlib.h>
#include <string.h>

#include "io/json.h"

/* ---- plain ----------------------------------------------------------------------------------- */

static void print_plain(struct outlet *out, const struct print_options *o,
                        const struct candidate *c) {
    outlet_put(out, c->text, c->size);
    if (o->scores || o->nbest) outlet_printf(out, " ||| %.6f", (double)c->score);
    if (!o->alignment) return;
    outlet_put(out, " |||", 4);
    for (int i = 0; i < c->n_link; i++)
        outlet_printf(out, " %d-%d", c->link[i].src, c->link[i].tgt);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *pieces(const struct tokenizer *tokenizer, const int32_t *ids, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(array, json_out_string(tokenizer_piece(tokenizer, ids[i])));
    return array;
}

json_t *print_words(const char *text, const struct span *word, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            array, json_stringn(text + word[i].begin, (size_t)(word[i].end - word[i].begin)));
    return array;
}

json_t *print_links(const struct align_link *link, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(array, json_pack("[ii]", link[i].src, link[i].tgt));
    return array;
}

static void add_candidate(json_t *object, const struct print_options *o,
                          const struct candidate *c) {
    json_object_set_new(object, "text", json_stringn(c->text, c->size));
    json_object_set_new(object, "score", json_out_real((double)c->score));
    json_object_set_new(object, "log_prob", json_out_real((double)c->log_prob));
    json_object_set_new(object, "tokens", json_integer(c->n_tok));
    if (c->cut) json_object_set_new(object, "cut", json_true());
    if (!o->alignment) return;
    json_object_set_new(object, "alignment", print_links(c->link, c->n_link));
    if (o->alignment == ALIGNMENT_WORDS)
        json_object_set_new(object, "words", print_words(c->text, c->word, c->n_word));
    else
        json_object_set_new(object, "pieces", pieces(o->target, c->ids, c->n_tok));
}

static void print_json(struct outlet *out, const struct print_options *o,
                       const struct feed_line *line, const struct translation *t) {
    json_t *root = json_object();
    json_object_set_new(root, "line", json_integer((json_int_t)line->total + 1));
    add_candidate(root, o, &t->best[0]);
    if (o->alignment == ALIGNMENT_WORDS)
        json_object_set_new(root, "source_words", print_words(t->text, t->word, t->n_word));
    else if (o->alignment)
        json_object_set_new(root, "source_pieces", pieces(o->source, t->src, t->n_src));
    if (t->n_part > 1) json_object_set_new(root, "parts", json_integer(t->n_part));
    if ((line->flags | line->prefix_flags) & LINE_REPLACED)
        json_object_set_new(root, "replaced", json_true());
    if (o->nbest) {
        json_t *all = json_array();
        for (int k = 0; k < t->n; k++) {
            json_t *one = json_object();
            add_candidate(one, o, &t->best[k]);
            json_array_append_new(all, one);
        }
        json_object_set_new(root, "nbest", all);
    }
    char *text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    BUG_ON(!text); /* all of it is UTF-8 and finite */
    outlet_put(out, text, strlen(text));
    outlet_put(out, "\n", 1);
    free(text);
    json_decref(root);
}

void translate_print(struct outlet *out, const struct print_options *o,
                     const struct feed_line *line, const struct translation *t) {
    if (o->json) {
        print_json(out, o, line, t);
        return;
    }
    for (int k = 0; k < (o->nbest ? t->n : 1); k++) {
        if (o->nbest) outlet_printf(out, "%llu ||| ", (unsigned long long)line->total);
        print_plain(out, o, &t->best[k]);
        const char *end = o->own_ends ? line->end : "\n";
        outlet_put(out, end, strlen(end));
    }
}
