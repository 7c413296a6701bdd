//===- CopyRows.h - copies within a GPU ------------------------*- C++ -*-===//

#ifndef TPC_RT_CUDA_LIBRARY_COPYROWS_H
#define TPC_RT_CUDA_LIBRARY_COPYROWS_H

#include "cuda/library/Driver.h"

namespace tpc::rt::cuda {

/// Rows of `width` bytes, with distances in bytes between them.
struct RowCopy {
  Address to, from;
  int64_t toStride, fromStride, width, rows;
};

/// In one call, unless distances are larger than what the driver takes.
void copyRows(const Driver &driver, Stream stream, const RowCopy &copy, const char *what);

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_COPYROWS_H
