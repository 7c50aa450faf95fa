/* fuzz_config.c — any bytes are a config.json: refused with a message, or a configuration that can
 * be built and written, and reads back the same. */
#include "fuzz.h"

#include "backend/mat.h"
#include "model/modeldir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config config, again;
    struct err err = {0};
    json_t *training = NULL, *kept = NULL;
    fuzz_enter();
    fuzz_put("config.json", data, size);
    int rc = modeldir_read_config(fuzz_dir, &config, &training, &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    if (rc) return 0;
    want(model_bytes(&config, DTYPE_F32) > 0); /* sizes do not overflow */
    want(modeldir_write_config(fuzz_dir, &config, training, &err) == 0);
    want(modeldir_read_config(fuzz_dir, &again, &kept, &err) == 0);
    want(memcmp(&config, &again, sizeof config) == 0 && !training == !kept);
    json_decref(training);
    json_decref(kept);
    return 0;
}
