/* Element types, as named by programs, the runtime, and its users. */
#ifndef TPC_DTYPE_H
#define TPC_DTYPE_H

typedef enum {
  TPC_F32 = 0,
  TPC_F64 = 1,
  TPC_F16 = 2,
  TPC_BF16 = 3,
  TPC_I8 = 4,
  TPC_I16 = 5,
  TPC_I32 = 6,
  TPC_I64 = 7,
  TPC_BOOL = 8,
  TPC_U8 = 9
} tpc_dtype;

#endif
