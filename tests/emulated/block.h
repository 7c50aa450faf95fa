/* block.h — runs the blocks of a kernel (block.cc) for the stand-in of the runtime (runtime.cc). */
#ifndef EMULATED_BLOCK_H
#define EMULATED_BLOCK_H

#include <cuda_runtime.h>

#include <functional>
#include <string>

struct emulated_kernel {
    dim3 grid, block;
    size_t shared;
    std::string name;
    bool early; /* it may be set up early, and so must wait */
    std::function<void()> body;
};

/* Calls body once for every thread of every block. One kernel runs at a time in a process. */
void emulated_run(const struct emulated_kernel &kernel);

#endif
