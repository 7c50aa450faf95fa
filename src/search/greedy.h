/* greedy.h — the most probable next token, again and again, for a batch of sentences. */
#ifndef SEARCH_GREEDY_H
#define SEARCH_GREEDY_H

#include "model/acts.h"

/* Translates the packed source sentences. out[s * cap_len ..] receives the tokens of sentence s without the
 * end mark, out_len[s] their number; at most cap_len of them. `encoder` are activations with room for the
 * batch (acts_new with cap_tgt 0 will do). */
int greedy_search(struct model *model, struct acts *encoder, const struct packed *src, int n_seq,
                  int32_t bos, int32_t eos, int cap_len, int32_t *out, int *out_len,
                  struct err *err);

#endif
