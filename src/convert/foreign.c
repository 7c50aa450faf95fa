/* foreign.c — see foreign.h: roles in words, and the life of a model. */
#include "convert/foreign.h"

#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"

const char *const foreign_dtype_names[] = {"auto", "f32", "f16", "bf16", "int8", NULL};

size_t foreign_type_size(enum foreign_type type) {
    return type == FOREIGN_F32 ? 4 : type == FOREIGN_I8 ? 1 : 2;
}

const char *foreign_role_text(char text[FOREIGN_ROLE_TEXT], const struct foreign_role *r) {
    static const char *const place[] = {[IN_STACK] = "",
                                        [IN_SELF] = "self-attention",
                                        [IN_CROSS] = "cross-attention",
                                        [IN_FF] = "feed-forward network",
                                        [IN_SSRU] = "SSRU"};
    static const char *const what[] = {
        [THE_EMBEDDING] = "embeddings",      [THE_POSITIONS] = "positions",
        [THE_EMBED_NORM] = "embedding norm", [THE_FINAL_NORM] = "final norm",
        [THE_OUTPUT] = "output projection",  [THE_QUERY] = "query projection",
        [THE_KEY] = "key projection",        [THE_VALUE] = "value projection",
        [THE_RESULT] = "result projection",  [THE_FIRST] = "first projection",
        [THE_SECOND] = "second projection",  [THE_CELL] = "cell projection",
        [THE_GATE] = "forget gate",          [THE_NORM] = "norm",
    };
    char layer[40] = "";
    if (r->place != IN_STACK)
        snprintf(layer, sizeof layer, " layer %d, %s", r->layer, place[r->place]);
    snprintf(text, FOREIGN_ROLE_TEXT, "%s%s: %s, %s", r->decoder ? "decoder" : "encoder", layer,
             what[r->what], r->bias ? "bias" : "weight");
    return text;
}

struct config foreign_config(void) {
    struct config config;
    BUG_ON(config_preset(&config, "base", NULL));
    return config;
}

static int take_tokenizer(struct foreign_side *side, struct bundle *bundle, const char *prefix,
                          const char *name, struct err *err) {
    char *path = *prefix ? path_append(prefix, name) : xstrdup(name);
    int rc = 0;
    if (bundle_has(bundle, path))
        rc = bundle_get(bundle, path, BUNDLE_TEXT, &side->tokenizer, &side->tokenizer_size, err);
    xfree(path);
    return rc;
}

int foreign_tokenizers(struct foreign *m, struct bundle *bundle, const char *prefix,
                       struct err *err) {
    static const char *const both[] = {"tokenizer.model", "sentencepiece.model",
                                       "sentencepiece.bpe.model", "spm.model", NULL};
    int rc = take_tokenizer(&m->source, bundle, prefix, "source.spm", err);
    if (!rc) rc = take_tokenizer(&m->target, bundle, prefix, "target.spm", err);
    for (int i = 0; both[i] && !rc && !m->source.tokenizer; i++)
        rc = take_tokenizer(&m->source, bundle, prefix, both[i], err);
    return rc;
}

void foreign_close(struct foreign *m) {
    if (m->close) m->close(m);
    json_decref(m->translate);
    keep_release(&m->keep);
    *m = (struct foreign){0};
}
