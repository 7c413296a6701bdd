//===- KernelsAvx2.cpp - Kernels compiled with -mavx2 -mfma ---------------===//

#define TPC_ISA avx2
#define TPC_TABLE avx2Kernels
#define TPC_NAME "avx2"
#define TPC_LANES 8
#define TPC_TILE_ROWS 6

#ifdef __x86_64__
#include "cpu/KernelsImpl.h"
#endif
