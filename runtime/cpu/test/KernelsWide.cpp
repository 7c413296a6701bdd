//===- KernelsWide.cpp - the code of AVX-512, on any machine --------------===//
//
// Vectors of 16 floats and the register tile of AVX-512, compiled for whatever instruction set the
// tests are: slow, but the same source as KernelsAvx512.cpp, so that its indexing is tested
// everywhere.
//
//===----------------------------------------------------------------------===//

#define TPC_ISA wide
#define TPC_TABLE wideKernels
#define TPC_NAME "wide"
#define TPC_LANES 16
#define TPC_TILE_ROWS 12
#include "cpu/KernelsImpl.h"
