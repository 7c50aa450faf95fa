/* hf_names.c — see hf_names.h. */
#include "convert/hf_names.h"

#include <stdio.h>

static void name_in_layer(char name[HF_NAME], const struct foreign_role *r) {
    static const char *const norms[] = {[IN_SELF] = "self_attn_layer_norm",
                                        [IN_CROSS] = "encoder_attn_layer_norm",
                                        [IN_FF] = "final_layer_norm"};
    static const char *const parts[] = {
        [THE_QUERY] = "q_proj",    [THE_KEY] = "k_proj", [THE_VALUE] = "v_proj",
        [THE_RESULT] = "out_proj", [THE_FIRST] = "fc1",  [THE_SECOND] = "fc2"};
    const char *in = r->what == THE_NORM || r->place == IN_FF ? ""
                     : r->place == IN_SELF                    ? "self_attn."
                                                              : "encoder_attn.";
    snprintf(name, HF_NAME, "model.%s.layers.%d.%s%s.%s", r->decoder ? "decoder" : "encoder",
             r->layer, in, r->what == THE_NORM ? norms[r->place] : parts[r->what],
             r->bias ? "bias" : "weight");
}

void hf_name(char name[HF_NAME], const struct foreign_role *r, int tie) {
    static const char *const what[] = {[THE_EMBEDDING] = "embed_tokens",
                                       [THE_POSITIONS] = "embed_positions",
                                       [THE_EMBED_NORM] = "layernorm_embedding",
                                       [THE_FINAL_NORM] = "layer_norm"};
    if (r->place != IN_STACK)
        name_in_layer(name, r);
    else if (r->what == THE_OUTPUT)
        snprintf(name, HF_NAME, r->bias ? "final_logits_bias" : "lm_head.weight");
    else if (r->what == THE_EMBEDDING && tie == TIE_ALL)
        snprintf(name, HF_NAME, "model.shared.weight");
    else
        snprintf(name, HF_NAME, "model.%s.%s.%s", r->decoder ? "decoder" : "encoder", what[r->what],
                 r->bias ? "bias" : "weight");
}
