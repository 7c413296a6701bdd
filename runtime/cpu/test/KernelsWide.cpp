//===- KernelsWide.cpp - AVX-512 kernel code on any machine ---------------===//
//
// Vectors of 16 floats and the register tile of AVX-512, compiled for the tests' instruction set:
// slow, but the same source as KernelsAvx512.cpp, so that its indexing is tested on all machines.
//
//===----------------------------------------------------------------------===//

#define TPC_ISA wide
#define TPC_TABLE wideKernels
#define TPC_NAME "wide"
#define TPC_LANES 16
#define TPC_TILE_ROWS 12
#include "cpu/KernelsImpl.h"
