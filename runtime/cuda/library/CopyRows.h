//===- CopyRows.h - Strided copies within a GPU ---------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_COPYROWS_H
#define TPC_RT_CUDA_LIBRARY_COPYROWS_H

#include "core/Device.h"
#include "cuda/library/Driver.h"

namespace tpc::rt::cuda {

/// Copies rows in one driver call, unless a stride exceeds the driver's maximum pitch.
void copyRows(const Driver &driver, Stream stream, const Device::Rows &copy, const char *what);

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_COPYROWS_H
