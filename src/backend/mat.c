/* mat.c — see mat.h. */
#include "backend/mat.h"

const char *dtype_name(enum dtype type) {
    static const char *const name[DTYPE_COUNT] = {"f32", "bf16", "f64", "i8", "f16"};
    return (unsigned)type < DTYPE_COUNT ? name[type] : "?";
}
