/* fuzz_state.c — any bytes are the state.safetensors of a checkpoint whose other files are fine:
 * refused with a message, or a state that can be read to the end. */
#include "fuzz.h"

#include "backend/mat.h"
#include "base/mem.h"
#include "model/modeldir.h"
#include "train/checkpoint.h"

static int ones(void *ctx, size_t offset, size_t count, float *out, struct err *err) {
    (void)ctx, (void)offset, (void)err;
    for (size_t i = 0; i < count; i++) out[i] = 1;
    return 0;
}

/* The model the seeds in corpus/state belong to. */
static void make_model(void) {
    struct err err = {0};
    struct config config;
    char path[128];
    want(config_preset(&config, "tiny", &err) == 0);
    static const char *const set[][2] = {{"n_vocab", "2"}, {"n_layer", "1"}, {"d_model", "2"},
                                         {"d_ff", "2"},    {"n_head", "1"},  {"max_len", "4"}};
    for (int i = 0; i < 6; i++) want(config_set(&config, set[i][0], set[i][1], &err) == 0);
    want(config_check(&config, &err) == 0);
    want(modeldir_write_config(fuzz_dir, &config, NULL, &err) == 0);
    struct param_table table;
    param_table_init(&table, &config);
    struct weights_options options = {.step = 3, .type = DTYPE_F32};
    fuzz_path(path, sizeof path, "model.safetensors");
    want(weights_write(path, &table, ones, NULL, &options, &err) == 0);
    param_table_release(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err = {0};
    struct state state = {0};
    int64_t step = -1;
    if (fuzz_enter()) make_model();
    fuzz_put("state.safetensors", data, size);
    int rc = checkpoint_verify(fuzz_dir, 1, &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    int whole = !rc;
    rc = checkpoint_read_state(fuzz_dir, &state, &step, &err);
    want(rc <= 0 && (!rc || err.msg[0]) &&
         (!whole || rc == 0 || strstr(err.msg, "training state")));
    for (int i = 0; i < state.n_item; i++) {
        char *text = state_item_format(&state.item[i]);
        want(text != NULL);
        xfree(text);
    }
    want(rc || step == 3);
    state_release(&state);

    /* A checksum keeps most changes from the parser of values: it gets the bytes directly, too. */
    char *text = xmalloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    struct state direct = {0};
    if (state_parse(&direct, "key", text, &err) == 0) {
        char *out = state_item_format(&direct.item[0]);
        struct state back = {0};
        want(state_parse(&back, "key", out, &err) == 0);
        char *again = state_item_format(&back.item[0]);
        want(strcmp(out, again) == 0);
        xfree(out);
        xfree(again);
        state_release(&back);
    }
    state_release(&direct);
    xfree(text);
    return 0;
}
