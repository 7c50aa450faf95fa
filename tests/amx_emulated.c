/* amx_emulated.c — gemm_amx.c on the operations of amx_emulated.h. */
#define GEMM_AMX_KERNEL gemm_bf16_amx_emulated
#include "amx_emulated.h"
#include "backend/cpu/isa.h"

extern const struct gemm_kernel gemm_bf16_amx_emulated;

#include "backend/cpu/gemm_amx.c"
