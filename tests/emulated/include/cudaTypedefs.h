/* cudaTypedefs.h — a stand-in for the driver's (../README.md). */
#include <cuda.h>
