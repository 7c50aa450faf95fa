/* beam_step.c — the bookkeeping of a beam search, one token of all sentences: that of ref.
 *
 * Some hundred comparisons per sentence: there is nothing to be faster at than the specification.
 * Searches on the cpu do this on the host's own arrays (search/search.c), which is the same
 * memory. */
#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

void cpu_beam_step(struct backend *be, const struct beam_step_args *a) {
    if (backend_scratch(be, 0)) ref_beam_step(a);
}
