/* block.h — runs the blocks of a kernel (block.cc) for the stand-in of the runtime (runtime.cc). */
#ifndef EMULATED_BLOCK_H
#define EMULATED_BLOCK_H

#include <cuda_runtime.h>

#include <functional>

/* Calls body once for every thread of every block. One kernel runs at a time in a process. */
void emulated_run(dim3 grid, dim3 block, size_t shared, const char *name,
                  const std::function<void()> &body);

#endif
