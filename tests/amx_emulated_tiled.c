/* amx_emulated_tiled.c — tiled_amx.c on the operations of amx_emulated.h. */
#define TILED_AMX_BF16 tiled_bf16_amx_emulated
#define TILED_AMX_I8   tiled_i8_amx_emulated
#include "amx_emulated.h"
#include "backend/cpu/isa.h"

extern const struct tiled_kernel tiled_bf16_amx_emulated, tiled_i8_amx_emulated;

#include "backend/cpu/tiled_amx.c"
