/* setup_inside.h — what the files of setup.h share: src/train/setup*.c only.
 *
 *     setup.c         from the options to batches, in order
 *     setup_text.c    what is read: tags, tokenizers, languages, corpora
 *     setup_ranks.c   what ranks must have in common */
#ifndef TRAIN_SETUP_INSIDE_H
#define TRAIN_SETUP_INSIDE_H

#include "train/setup.h"

/* A line for whoever watches. */
void setup_note(const struct setup *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define GROUPED(n) num_grouped((char[28]){0}, (n))

/* ---- setup_text.c ---------------------------------------------------------------------------- */

/* The i-th tag that was asked for, the validation text's last; NULL: none. */
const char *setup_tag(const struct setup_options *a, int i);
int setup_tagged(const struct setup_options *a);  /* is there any? */
int setup_longest(const struct setup_options *a); /* most tokens of a sentence in a batch */
/* Which ids tags are, once there is a tokenizer. */
int setup_find_tags(struct setup *s, struct err *err);

/* The model that a run begins with. One that continues has weights of its own; but the shape is not
 * asked for again. */
int setup_find_init(struct setup *s, struct err *err);

/* The tokenizer that exists already: the one given, the run's or --init's. Otherwise one will be
 * learnt from the corpora, for all ranks by one. */
int setup_find_tokenizer(struct setup *s, struct err *err);
int setup_get_tokenizer(struct setup *s, struct err *err);

/* What stands before the lines of texts of a model for several languages, as options or the model
 * say. Tags do so in the place of the source's. */
int setup_find_languages(struct setup *s, struct err *err);

/* Before the tokenizer is learnt, its type is what was asked for. */
int setup_get_subword(struct setup *s, struct err *err);

int setup_check_texts(struct setup *s, struct err *err);
int setup_get_corpora(struct setup *s, struct err *err);

/* ---- setup_ranks.c --------------------------------------------------------------------------- */

/* Collective. Configuration and tokenizers that rank 0 has in the directory `dir`, be it a run's or
 * a model's, come to all: on the others they are in the directory `home`, which is made. */
int setup_fetch(struct comm *comm, const char *dir, const char *home, struct err *err);

/* Collective. The same for one file: `path` on rank 0, `name` in `home` on the others. */
int setup_fetch_file(struct comm *comm, const char *path, const char *home, const char *name,
                     struct err *err);

#endif
