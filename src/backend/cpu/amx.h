/* amx.h — the AMX operations that the kernels use, under our names.
 *
 * The tests define AMX_EMULATED and supply the same names in software
 * (tests/amx_emulated.c), so that gemm_amx.c and tiled_amx.c are tested on machines without AMX.
 * Intel calls the registers tiles; here that word means weights (tile.h). Numbers of registers must
 * be literals: they are part of the instruction. */
#ifndef BACKEND_CPU_AMX_H
#define BACKEND_CPU_AMX_H

#include <stdint.h>

/* The 64 bytes ldtilecfg reads: per register a number of rows (at most 16) and bytes per row (at
 * most 64). */
struct amx_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#ifdef AMX_EMULATED

static void amx_configure(const struct amx_config *config);
static void amx_release(void);
static void amx_zero(int reg);

#else

/* Not the compiler's intrinsics: GCC 12's tell the optimiser that ldtilecfg reads eight bytes and
 * that tileloadd reads no memory at all, so the stores that fill a configuration or a panel may
 * vanish. */
#define amx_configure(config)                                                                      \
    __asm__ volatile("ldtilecfg %0" : : "m"(*(const struct amx_config *)(config)))
#define amx_release() __asm__ volatile("tilerelease")
#define amx_zero(reg) __asm__ volatile("tilezero %%tmm" #reg : :)
#define amx_load(reg, base, stride)                                                                \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #reg                                             \
                     :                                                                             \
                     : "r"(base), "r"((int64_t)(stride))                                           \
                     : "memory")
/* Data that will not be wanted again soon: it does not push what will be out of the first-level
 * cache. */
#define amx_load_stream(reg, base, stride)                                                         \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #reg                                           \
                     :                                                                             \
                     : "r"(base), "r"((int64_t)(stride))                                           \
                     : "memory")
#define amx_store(reg, base, stride)                                                               \
    __asm__ volatile("tilestored %%tmm" #reg ", (%0,%1,1)"                                         \
                     :                                                                             \
                     : "r"(base), "r"((int64_t)(stride))                                           \
                     : "memory")
#define amx_multiply(sum, a, b)                                                                    \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)
#define amx_multiply_i8(sum, a, b)                                                                 \
    __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)

#endif

/* All eight registers 16 rows x 64 bytes: around any use of them. */
static inline void amx_enter(void) {
    struct amx_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = 16;
        config.row_bytes[i] = 64;
    }
    amx_configure(&config);
}
static inline void amx_leave(void) { amx_release(); }

/* Registers 0 .. 3, which hold the sums. */
static inline void amx_zero_sums(void) {
    amx_zero(0);
    amx_zero(1);
    amx_zero(2);
    amx_zero(3);
}

/* Defines name(iterations): the four multiplications of a step on registers that are never loaded
 * again. Returns the operations done; a row of a register holds `depth` numbers. */
#define AMX_PEAK(name, multiply, depth)                                                            \
    static double name(int64_t iterations) {                                                       \
        amx_zero_sums();                                                                           \
        amx_zero(4);                                                                               \
        amx_zero(5);                                                                               \
        amx_zero(6);                                                                               \
        amx_zero(7);                                                                               \
        for (int64_t n = 0; n < iterations; n++) {                                                 \
            multiply(0, 4, 6);                                                                     \
            multiply(1, 4, 7);                                                                     \
            multiply(2, 5, 6);                                                                     \
            multiply(3, 5, 7);                                                                     \
        }                                                                                          \
        return (double)iterations * 4 * 16 * 16 * (depth)*2;                                       \
    }

#endif
