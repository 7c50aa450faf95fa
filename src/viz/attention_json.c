/* attention_json.c — attention as numbers; see attention.h. */
#include "viz/attention.h"
#include "viz/label.h"

/* [head][query][key] of one layer, a query a line; nine digits are all that a float has. */
static void put_layer(struct file_writer *w, const struct attention_set *s, int layer, int n_head) {
    const float *p = s->probs[layer];
    for (int h = 0; h < n_head; h++) {
        file_writer_printf(w, h ? ",\n[" : "[");
        for (int i = 0; i < s->n_query; i++) {
            file_writer_printf(w, i ? ",\n[" : "[");
            for (int j = 0; j < s->n_key; j++)
                file_writer_printf(w, j ? ",%.9g" : "%.9g", (double)*p++);
            file_writer_printf(w, "]");
        }
        file_writer_printf(w, "]");
    }
}

void attention_json(struct file_writer *w, const struct attention *a) {
    file_writer_printf(w, "{");
    label_json_text(w, "source", a->source);
    file_writer_printf(w, ",");
    label_json_text(w, "target", a->target);
    file_writer_printf(w, ",\"first_head\":%d,\"kinds\":[", a->first_head);
    for (int kind = 0, n = 0; kind < ATTENTION_KINDS; kind++) {
        const struct attention_set *s = &a->set[kind];
        if (!s->n_layer) continue;
        file_writer_printf(w, "%s{\"kind\":\"%s\",\"first_layer\":%d,", n++ ? ",\n" : "",
                           attention_kinds[kind], s->first_layer);
        label_json_list(w, "query", s->query, s->n_query);
        file_writer_printf(w, ",");
        label_json_list(w, "key", s->key, s->n_key);
        file_writer_printf(w, ",\"probs\":[");
        for (int l = 0; l < s->n_layer; l++) {
            file_writer_printf(w, l ? ",\n[" : "[");
            put_layer(w, s, l, a->n_head);
            file_writer_printf(w, "]");
        }
        file_writer_printf(w, "]}");
    }
    file_writer_printf(w, "]}\n");
}
