/* fuzz_config.c — any bytes are a config.json: refused with a message, or a configuration that can
 * be built and written, and reads back the same. */
#include "fuzz.h"

#include "backend/mat.h"
#include "model/modeldir.h"
#include "search/defaults.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config config, again;
    struct err err = {0};
    struct model_notes notes, kept;
    fuzz_enter();
    fuzz_put("config.json", data, size);
    int rc = modeldir_read_config(fuzz_dir, &config, &notes, &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    if (rc) {
        model_notes_release(&notes);
        return 0;
    }
    want(model_bytes(&config, DTYPE_F32) > 0); /* sizes do not overflow */
    want(modeldir_write_config(fuzz_dir, &config, &notes, &err) == 0);
    want(modeldir_read_config(fuzz_dir, &again, &kept, &err) == 0);
    want(memcmp(&config, &again, sizeof config) == 0);
    want(!notes.training == !kept.training && !notes.card == !kept.card);
    want(!notes.card || json_equal(notes.card, kept.card));
    want(!notes.translate == !kept.translate);
    struct translator_options options;
    want(defaults_read(&options, kept.translate, &config, "config.json", &err) ||
         search_check(&options.search, &err) == 0);
    model_notes_release(&notes);
    model_notes_release(&kept);
    return 0;
}
