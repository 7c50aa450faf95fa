/* import.c — see import.h. */
#include "convert/import.h"

#include <string.h>

#include "base/mem.h"
#include "convert/words.h"
#include "data/tokenizer.h"

/* The first that recognises a bundle gets it. */
static const struct foreign_reader *const readers[] = {&ct2_reader, &huggingface_reader,
                                                       &marian_reader};
enum { N_READERS = sizeof readers / sizeof readers[0] };
const char *const import_format_names[] = {"auto", "ctranslate2", "huggingface", "marian", NULL};

/* ---- what it is not -------------------------------------------------------------------------- */

static int is_ours(struct bundle *bundle) {
    json_t *config = NULL;
    if (!bundle_has(bundle, "config.json") || bundle_json(bundle, "config.json", &config, NULL))
        return 0;
    const char *format = json_string_value(json_object_get(config, "format"));
    int ours = format && strcmp(format, "heed") == 0;
    json_decref(config);
    return ours;
}

static int is_fairseq(const struct bundle *bundle) {
    const char *main = bundle_main(bundle);
    if (main && strlen(main) > 3 && strcmp(main + strlen(main) - 3, ".pt") == 0) return 1;
    return bundle_ending(bundle, ".pt") && bundle_ending(bundle, ".txt") &&
           !bundle_has(bundle, "metadata.json");
}

static int unknown(struct bundle *bundle, struct err *err) {
    const char *path = bundle_path(bundle);
    if (is_fairseq(bundle))
        return err_set(err, HEED_EFORMAT,
                       "%.120s: a fairseq checkpoint, which is not supported; convert it to "
                       "CTranslate2 or Hugging Face first",
                       path);
    return err_set(err, HEED_EFORMAT,
                   "%.120s: not a model of a known format; docs/import.md lists what is expected",
                   path);
}

/* The folder of a file that may be weights, of so many letters; -1: it is no such file. */
static int weights_folder(const char *name) {
    static const char *const endings[] = {".bin", ".npz", ".safetensors"};
    const char *slash = strrchr(name, '/');
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(name), m = strlen(endings[i]);
        if (n > m && strcmp(name + n - m, endings[i]) == 0) return slash ? (int)(slash - name) : 0;
    }
    return -1;
}

/* A folder of models is none, even if the parts of several could be put together. */
static int check_single(const struct bundle *bundle, struct err *err) {
    const char *first = NULL, *other = NULL;
    int length = 0, more = 0;
    for (int i = 0; i < bundle_count(bundle) && !bundle_main(bundle); i++) {
        const char *name = bundle_name(bundle, i);
        int n = weights_folder(name);
        if (n == 0) return 0; /* it is a model itself, whatever else it has */
        if (n > 0 && !first)
            first = name, length = n;
        else if (n > 0 && (n != length || strncmp(name, first, (size_t)n) != 0) && !other)
            other = name, more = n;
    }
    if (!other) return 0;
    return err_set(err, HEED_EFORMAT,
                   "%.100s: several folders with weights, '%.*s' and '%.*s' among them; import one "
                   "of these",
                   bundle_path(bundle), length < 40 ? length : 40, first, more < 40 ? more : 40,
                   other);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int choose(const struct foreign_reader **reader, struct bundle *bundle, int format,
                  struct err *err) {
    *reader = format ? readers[format - 1] : NULL;
    if (is_ours(bundle))
        return err_set(err, HEED_EINVAL, "%.160s: this is a heed model already",
                       bundle_path(bundle));
    int rc = check_single(bundle, err);
    if (rc) return rc;
    for (int i = 0; i < N_READERS && !*reader; i++)
        if (readers[i]->looks(bundle)) *reader = readers[i];
    return *reader ? 0 : unknown(bundle, err);
}

static int give_tokenizer(struct import *import, int target, const char *path, struct err *err) {
    struct foreign *m = &import->model;
    struct foreign_side *side = target ? &m->target : &m->source;
    struct file_map *map = &import->tokenizer[target];
    if (!path) return 0;
    if (strcmp(path, IMPORT_WORDS) == 0) return words_tokenizers(m, err);
    struct tokenizer *opened;
    struct err why;
    int rc = file_map_open(map, path, err);
    if (rc) return rc;
    if (tokenizer_open_memory(&opened, map->data, map->size, &why))
        return err_set(err, HEED_EFORMAT, "%.120s: %s", path, why.msg);
    tokenizer_free(opened);
    side->tokenizer = map->data;
    side->tokenizer_size = map->size;
    if (!target) m->target.tokenizer = NULL; /* it serves both, unless there is another */
    return 0;
}

int import_open(struct import *import, const struct import_options *options, struct err *err) {
    const struct foreign_reader *reader;
    *import = (struct import){.model.path = options->path};
    int rc = bundle_open(&import->bundle, options->path, err);
    if (!rc) rc = choose(&reader, import->bundle, options->format, err);
    if (!rc) rc = reader->open(&import->model, import->bundle, err);
    if (!rc) rc = give_tokenizer(import, 0, options->tokenizer, err);
    if (!rc) rc = give_tokenizer(import, 1, options->target_tokenizer, err);
    return rc;
}

void import_close(struct import *import) {
    foreign_close(&import->model);
    bundle_close(import->bundle);
    for (int k = 0; k < 2; k++)
        if (import->tokenizer[k].data) file_map_close(&import->tokenizer[k]);
    *import = (struct import){0};
}
