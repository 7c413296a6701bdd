//===- CopyRows.h - copies within a GPU ------------------------*- C++ -*-===//

#ifndef TPC_RT_CUDA_LIBRARY_COPYROWS_H
#define TPC_RT_CUDA_LIBRARY_COPYROWS_H

#include "core/Device.h"
#include "cuda/library/Driver.h"

namespace tpc::rt::cuda {

/// In one call, unless distances are larger than what the driver takes.
void copyRows(const Driver &driver, Stream stream, const Device::Rows &copy, const char *what);

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_COPYROWS_H
