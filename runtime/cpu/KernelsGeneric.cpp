//===- KernelsGeneric.cpp - Kernels of the baseline instruction set -------===//

#define TPC_ISA generic
#define TPC_TABLE genericKernels
#define TPC_NAME "generic"
#define TPC_LANES 4
#define TPC_TILE_ROWS 5
#include "cpu/KernelsImpl.h"
