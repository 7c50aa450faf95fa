/* fuzz_ct2.c — any bytes are CTranslate2's model.bin: refused with a message, or every parameter
 * that it becomes can be made to its last value. */
#include "fuzz.h"

#include "base/mem.h"
#include "convert/assembly.h"

static const char tokens[] = "<blank>\n<s>\n</s>\na\nb\n<unk>\n";
static const char config[] =
    "{\"unk_token\":\"<unk>\",\"eos_token\":\"</s>\",\"decoder_start_token\":\"<s>\"}";

static void read_all(const struct foreign *model) {
    struct assembly a;
    struct err err = {0};
    int rc = assembly_init(&a, model, &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    if (rc) return;
    for (int i = 0; i < a.table.n_param; i++) {
        const struct param *p = &a.table.param[i];
        float *row = xmalloc((size_t)p->cols * sizeof *row), scale;
        int8_t *q = xmalloc((size_t)p->cols);
        for (int r = 0; r < p->rows; r++) {
            assembly_rows(&a, i, r, r + 1, row);
            if (assembly_is_int8(&a, i)) assembly_int8(&a, i, r, q, &scale);
        }
        xfree(q);
        xfree(row);
    }
    assembly_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bundle *bundle;
    struct foreign model = {0};
    struct err err = {0};
    if (fuzz_enter()) {
        fuzz_put("shared_vocabulary.txt", (const uint8_t *)tokens, sizeof tokens - 1);
        fuzz_put("config.json", (const uint8_t *)config, sizeof config - 1);
    }
    fuzz_put("model.bin", data, size);
    want(bundle_open(&bundle, fuzz_dir, &err) == 0);
    want(ct2_reader.looks(bundle));
    int rc = ct2_reader.open(&model, bundle, &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    if (!rc) read_all(&model);
    foreign_close(&model);
    bundle_close(bundle);
    return 0;
}
