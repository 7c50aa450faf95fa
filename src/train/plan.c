/* plan.c — see plan.h. */
#include "train/plan.h"

#include <string.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "model/modeldir.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* Left free: prepared batches, a thread's stack, buffers for checkpoints and text. */
static const size_t spare = (size_t)64 << 20;

/* The most tokens per batch that fit, the need growing with them; 0: not even a sentence. */
static int fitting_tokens(struct model *model, int tokens, int max_length, size_t room) {
    int low = max_length - 1, high = tokens;
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        struct acts_need need;
        if (acts_measure(&need, model, mid, mid, 1, NULL)) return 0;
        if (need.acts + need.workspace <= room)
            low = mid;
        else
            high = mid;
    }
    int even = low / 100 * 100;
    return low < max_length ? 0 : even < max_length ? low : even;
}

/* The same with as many more batches per update: they are fewer tokens' worth of memory, but their
 * gradients take some, too. *times is how many there are in the place of each. */
static int fitting_batches(struct model *model, const struct plan_run *run, size_t room,
                           int *times) {
    int fits = run->tokens, before = 0, batches = max_int(run->accumulate, 1);
    int ranks = max_int(run->n_rank, 1);
    for (*times = 1; *times != before && fits > 0;) {
        before = *times;
        size_t state = optimizer_bytes(model, batches * before, ranks, run->ema);
        fits = fitting_tokens(model, run->tokens, run->max_length, room > state ? room - state : 0);
        if (fits > 0) *times = max_int(before, ceil_div(run->tokens, fits));
    }
    return fits;
}

/* The copy of the state, if the run makes one: with the rest where that is the host's, too. */
static int plan_copy(struct plan_memory *memory, const struct model *model,
                     const struct plan_run *run, struct err *err) {
    size_t room = run->host > spare ? run->host - spare : 0;
    memory->copy = run->aside ? snapshot_bytes(model, run->ema) : 0;
    if (!backend_device_memory(model->be)) {
        memory->total += memory->copy;
        return 0;
    }
    if (memory->copy <= room) return 0;
    return err_set(err, HEED_ENOMEM,
                   "--save-aside on needs %.1f GiB of the host's memory for a copy of weights and "
                   "moments, %.1f GiB are available; --save-aside off needs none",
                   gib(memory->copy), gib(room));
}

int plan_memory(struct plan_memory *memory, struct model *model, const struct plan_run *run,
                struct err *err) {
    int tokens = run->tokens, max_length = run->max_length, batches = max_int(run->accumulate, 1);
    size_t room = run->room > spare ? run->room - spare : 0;
    struct acts_need need;
    int rc = acts_measure(&need, model, tokens, tokens, 1, err);
    if (rc) return rc;
    *memory = (struct plan_memory){
        .model = model_bytes(&model->config, model->type),
        .state = optimizer_bytes(model, batches, max_int(run->n_rank, 1), run->ema),
        .acts = need.acts,
        .workspace = need.workspace};
    memory->total = memory->model + memory->state + memory->acts + memory->workspace;
    rc = plan_copy(memory, model, run, err);
    size_t more = memory->total - memory->model;
    if (rc || more <= room) return rc;
    size_t copy = backend_device_memory(model->be) ? 0 : memory->copy; /* which takes from room */
    int times = 1, fits = fitting_batches(model, run, room > copy ? room - copy : 0, &times);
    if (fits > 0)
        return err_set(
            err, HEED_ENOMEM,
            "--tokens %d needs %.1f GiB more memory, %.1f GiB are available; --tokens %d "
            "would fit (with --accumulate %d for the same batch)",
            tokens, gib(more), gib(room), fits, batches * times);
    return err_set(
        err, HEED_ENOMEM,
        "training this model needs more than %.1f GiB of further memory, even for a single "
        "sentence of --max-length %d; %.1f GiB are available",
        gib(memory->state + copy), max_length, gib(room));
}

/* ---- shape ----------------------------------------------------------------------------------- */

const struct option *plan_difference(const struct config *a, const struct config *b) {
    for (const struct option *o = config_rows; o->name; o++) {
        int is_training = strstr(o->name, "dropout") || strcmp(o->name, "label_smoothing") == 0;
        if (!is_training && !option_equal(o, a, b)) return o;
    }
    return NULL;
}

int plan_shape(const char *dir, const struct config *config, struct err *err) {
    struct config was;
    char began[OPTION_TEXT], now[OPTION_TEXT];
    int rc = modeldir_read_config(dir, &was, NULL, err);
    const struct option *o = rc ? NULL : plan_difference(&was, config);
    if (!o) return rc;
    return err_set(err, HEED_EINVAL,
                   "%.120s: the run began with %s %s, not %s; --overwrite starts over", dir,
                   o->name, option_text(o, &was, began), option_text(o, config, now));
}

/* Equal numbers of pieces are not enough: with other pieces the rows of the embedding would mean
 * other words. */
static int check_tokenizer(const char *dir, const struct model_notes *notes,
                           const struct tokenizer *tokenizer, struct err *err) {
    if (notes->tokens || modeldir_has_tongues(dir))
        return err_set(err, HEED_EINVAL,
                       "--init: %.100s has more than one tokenizer or ids of its own; leave "
                       "--tokenizer out to use them",
                       dir);
    char *path = path_join(dir, MODELDIR_TOKENIZER);
    char its[TOKENIZER_HASH_TEXT], ours[TOKENIZER_HASH_TEXT];
    struct tokenizer *own = NULL;
    int rc = tokenizer_open(&own, path, err);
    xfree(path);
    if (rc) return rc;
    tokenizer_hash_text(own, its);
    tokenizer_hash_text(tokenizer, ours);
    tokenizer_free(own);
    if (strcmp(its, ours) == 0) return 0;
    return err_set(err, HEED_EINVAL,
                   "--init: %.100s was learnt with another tokenizer than --tokenizer; leave that "
                   "out to use the model's",
                   dir);
}

int plan_init(const char *dir, const struct config *config, const struct tokenizer *tokenizer,
              struct err *err) {
    struct modeldir md;
    char its[OPTION_TEXT], ours[OPTION_TEXT];
    int rc = modeldir_open_any(&md, dir, err);
    if (rc) return rc;
    rc = tokenizer ? check_tokenizer(dir, &md.notes, tokenizer, err) : 0;
    const struct option *o = rc ? NULL : plan_difference(&md.config, config);
    if (o)
        rc = err_set(err, HEED_EINVAL,
                     "--init: %.100s has %s %s, not %s; leave --preset and the model's fields out "
                     "to have those of its weights",
                     dir, o->name, option_text(o, &md.config, its), option_text(o, config, ours));
    modeldir_close(&md);
    return rc;
}
