/* setup_ranks.c — see setup.h: what ranks do before they can work together. Files that only rank 0
 * has come to the others, and ranks that differ are found out before the first update. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "train/agree.h"
#include "train/facts.h"
#include "train/setup_inside.h"

int setup_ranks(const struct comm *comm, int accumulate, struct err *err) {
    char valid[200];
    if (shards_valid(accumulate, comm->size)) return 0;
    shards_valid_text(accumulate, valid, sizeof valid);
    return err_set(err, HEED_EINVAL,
                   "train: %d ranks cannot share the --accumulate %d batches of an update; give "
                   "as many to each, a power of two: for %d the ranks may be %s",
                   comm->size, accumulate, accumulate, valid);
}

/* ---- files ----------------------------------------------------------------------------------- */

enum { FILE_LIMIT = 1 << 28 };

int setup_fetch_file(struct comm *comm, const char *path, const char *home, const char *name,
                     struct err *err) {
    char *data = NULL;
    size_t size = 0;
    int rc = comm->rank == 0 ? file_read_all(&data, &size, path, FILE_LIMIT, err) : 0;
    rc = agree_with_first(comm, rc, err);
    if (rc || comm->size == 1) return xfree(data), rc;
    comm_bcast(comm, &size, sizeof size, 0);
    if (comm->rank > 0) data = xmalloc(size + 1);
    comm_bcast(comm, data, size, 0);
    rc = comm_check(comm, err);
    if (!rc && comm->rank > 0) {
        char *to = path_join(home, name);
        rc = dir_make(home, err);
        if (!rc) rc = file_write_all(to, data, size, err);
        xfree(to);
    }
    xfree(data);
    return rc;
}

/* A file that need not be there. */
static int fetch_if_there(struct comm *comm, const char *dir, const char *home, const char *name,
                          struct err *err) {
    char *path = path_join(dir, name);
    int there = comm->rank == 0 && file_exists(path);
    comm_bcast(comm, &there, sizeof there, 0);
    int rc = there ? setup_fetch_file(comm, path, home, name, err) : comm_check(comm, err);
    xfree(path);
    return rc;
}

int setup_fetch(struct comm *comm, const char *dir, const char *home, struct err *err) {
    int rc = fetch_if_there(comm, dir, home, MODELDIR_CONFIG, err);
    for (int i = 0; modeldir_tokenizer_files[i] && !rc; i++)
        rc = fetch_if_there(comm, dir, home, modeldir_tokenizer_files[i], err);
    return rc;
}

/* ---- guard ----------------------------------------------------------------------------------- */

enum { PROGRAM, PROCESSOR, MODEL, TOKENS, DATA, VALID, OPTIONS, N_FACT };
enum { FACT_SIZE = sizeof((struct fact *)0)->text };

static void options_text(const struct setup_options *a, char *text) {
    const struct trainer_options *t = &a->trainer;
    const struct {
        double number[21];
    } all = {{(double)a->seed,
              a->tokens,
              t->accumulate,
              (double)a->warmup,
              (double)a->cooldown,
              a->lr_scale,
              a->clip,
              a->ema,
              (double)t->max_steps,
              (double)t->max_epochs,
              t->max_minutes,
              t->log_every,
              t->valid_every,
              t->save_every,
              t->bleu_every,
              t->patience,
              t->on_divergence,
              a->guided_weight,
              a->guided_layer,
              a->guided_head,
              a->rounding}};
    snprintf(text, FACT_SIZE, "seed %llu, %08x", (unsigned long long)a->seed,
             crc32c(0, &all, sizeof all));
}

static void collect(const struct setup *s, struct fact *fact) {
    struct batches_state at;
    char hash[2][TOKENIZER_HASH_TEXT], device[FACT_SIZE - 16];
    fact_program(&fact[PROGRAM]); /* with what was loaded for the device */
    backend_describe(s->be, device, sizeof device);
    snprintf(fact[PROCESSOR].text, FACT_SIZE, "%s, %s", device, dtype_name(s->type));
    for (const struct option *o = config_rows; o->name; o++) {
        char value[OPTION_TEXT];
        option_text(o, &s->config, value);
        uint32_t sum = (uint32_t)strtoul(fact[MODEL].text, NULL, 16);
        snprintf(fact[MODEL].text, FACT_SIZE, "%08x", crc32c(sum, value, strlen(value)));
    }
    tokenizer_hash_text(s->src_tokenizer, hash[0]);
    tokenizer_hash_text(s->tgt_tokenizer, hash[1]);
    snprintf(fact[TOKENS].text, FACT_SIZE, "%.38s %.38s", hash[0], hash[1]);
    batches_state(s->batches, &at);
    snprintf(fact[DATA].text, FACT_SIZE, "%016llx%016llx", (unsigned long long)at.data[0],
             (unsigned long long)at.data[1]);
    if (s->has_valid)
        snprintf(fact[VALID].text, FACT_SIZE, "%08x",
                 crc32c(0, s->valid_corpus.key, CORPUS_KEY_SIZE));
    options_text(s->a, fact[OPTIONS].text);
}

int setup_guard(const struct setup *s, struct err *err) {
    struct fact fact[N_FACT] = {[PROCESSOR] = {"processor or device", ""},
                                [MODEL] = {"model", ""},
                                [TOKENS] = {"tokenizer", ""},
                                [DATA] = {"training data", ""},
                                [VALID] = {"validation data", ""},
                                [OPTIONS] = {"training options", ""}};
    if (s->comm->size == 1) return 0;
    collect(s, fact);
    return facts_same(s->comm, fact, N_FACT, err);
}
