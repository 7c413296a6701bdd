//===- KernelsAvx512.cpp - Kernels compiled with -mavx512f and more -------===//

#define TPC_ISA avx512
#define TPC_TABLE avx512Kernels
#define TPC_NAME "avx512"
#define TPC_LANES 16
#define TPC_TILE_ROWS 12

#ifdef __x86_64__
#include "cpu/KernelsImpl.h"
#endif
