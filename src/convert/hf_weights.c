/* hf_weights.c — see hf_weights.h. */
#include "convert/hf_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/json.h"
#include "io/safetensors.h"

enum { MAX_FILES = 256 };

static const struct {
    const char *name;
    int index, torch;
} choices[] = {{"model.safetensors", 0, 0},
               {"model.safetensors.index.json", 1, 0},
               {"pytorch_model.bin", 0, 1},
               {"pytorch_model.bin.index.json", 1, 1}};
enum { N_CHOICES = sizeof choices / sizeof *choices };

/* One of the two. */
struct part {
    struct safetensors st;
    struct torch_file *torch;
};

struct hf_weights {
    struct part *part;
    int n_part;
    struct torch_tensor *tensor; /* sorted by name */
    int n, room;
};

static void add(struct hf_weights *w, const struct torch_tensor *t) {
    if (w->n == w->room) {
        w->room = 2 * w->room + 256;
        w->tensor = xrealloc(w->tensor, (size_t)w->room * sizeof *w->tensor);
    }
    w->tensor[w->n++] = *t;
}

_Static_assert((int)TORCH_MAX_RANK == (int)SAFETENSORS_MAX_RANK, "shapes fit");

static void add_plain(struct hf_weights *w, const struct tensor *t) {
    struct torch_tensor v = {.name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data};
    int64_t step = 1;
    for (int i = t->rank; i-- > 0;) {
        v.shape[i] = t->shape[i];
        v.stride[i] = step;
        step *= t->shape[i];
    }
    add(w, &v);
}

static int open_file(struct hf_weights *w, const struct bundle *bundle, const char *name, int torch,
                     struct err *err) {
    if (!bundle_has(bundle, name))
        return err_set(err, HEED_EFORMAT, "%.120s: there is no file '%.60s'", bundle_path(bundle),
                       name);
    if (w->n_part == MAX_FILES)
        return err_set(err, HEED_ELIMIT, "%.120s: weights in more than %d files",
                       bundle_path(bundle), MAX_FILES);
    char *path = bundle_file(bundle, name);
    if (!path)
        return err_set(err, HEED_EINVAL, "%.160s: unpack it and import the directory",
                       bundle_path(bundle));
    struct part *p = &w->part[w->n_part];
    int rc = torch ? torch_open(&p->torch, path, err) : safetensors_open(&p->st, path, err);
    xfree(path);
    if (rc) return rc;
    w->n_part++;
    for (int i = 0; torch && i < torch_count(p->torch); i++) add(w, torch_at(p->torch, i));
    for (int i = 0; !torch && i < p->st.n_tensor; i++) add_plain(w, &p->st.tensor[i]);
    return 0;
}

/* {"weight_map": {"tensor": "file", ...}}: each file once. */
static int open_index(struct hf_weights *w, struct bundle *bundle, const char *name, int torch,
                      struct err *err) {
    json_t *index, *seen = json_object(), *file;
    const char *tensor;
    int rc = bundle_json(bundle, name, &index, err);
    json_t *map = json_object_get(index, "weight_map");
    if (!rc && !json_is_object(map))
        rc = err_set(err, HEED_EFORMAT, "%.120s: %s: there is no weight_map", bundle_path(bundle),
                     name);
    json_object_foreach(map, tensor, file) {
        if (rc) break;
        const char *text = json_string_value(file);
        if (!text)
            rc = err_set(err, HEED_EFORMAT, "%.120s: %s: the file of '%.60s' is no text",
                         bundle_path(bundle), name, tensor);
        else if (!json_object_get(seen, text))
            rc = open_file(w, bundle, text, torch, err);
        if (!rc) json_object_set(seen, text, json_true());
    }
    json_decref(seen);
    json_decref(index);
    return rc;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct torch_tensor *)a)->name, ((const struct torch_tensor *)b)->name);
}

static int choose(const struct bundle *bundle) {
    for (int i = 0; i < N_CHOICES; i++)
        if (bundle_has(bundle, choices[i].name)) return i;
    return -1;
}

int hf_weights_present(const struct bundle *bundle) { return choose(bundle) >= 0; }

int hf_weights_open(struct hf_weights **out, struct bundle *bundle, struct err *err) {
    struct hf_weights *w = xcalloc(1, sizeof *w);
    int i = choose(bundle), rc;
    w->part = xcalloc(MAX_FILES, sizeof *w->part);
    *out = NULL;
    if (i < 0)
        rc = err_set(err, HEED_EFORMAT,
                     "%.120s: there is neither model.safetensors nor pytorch_model.bin",
                     bundle_path(bundle));
    else
        rc = choices[i].index ? open_index(w, bundle, choices[i].name, choices[i].torch, err)
                              : open_file(w, bundle, choices[i].name, choices[i].torch, err);
    if (!rc && w->n) qsort(w->tensor, (size_t)w->n, sizeof *w->tensor, by_name);
    for (int k = 1; k < w->n && !rc; k++)
        if (strcmp(w->tensor[k - 1].name, w->tensor[k].name) == 0)
            rc = err_set(err, HEED_EFORMAT, "%.120s: tensor '%.80s' is in two files",
                         bundle_path(bundle), w->tensor[k].name);
    if (rc)
        hf_weights_close(w);
    else
        *out = w;
    return rc;
}

void hf_weights_close(struct hf_weights *w) {
    if (!w) return;
    for (int i = 0; i < w->n_part; i++) {
        torch_close(w->part[i].torch);
        safetensors_close(&w->part[i].st);
    }
    xfree(w->part);
    xfree(w->tensor);
    xfree(w);
}

int hf_weights_count(const struct hf_weights *w) { return w->n; }

const struct torch_tensor *hf_weights_at(const struct hf_weights *w, int i) {
    return &w->tensor[i];
}

const struct torch_tensor *hf_weights_find(const struct hf_weights *w, const char *name) {
    struct torch_tensor key = {.name = name};
    return w->n ? bsearch(&key, w->tensor, (size_t)w->n, sizeof key, by_name) : NULL;
}
