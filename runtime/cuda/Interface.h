//===- Interface.h - Entry points of the CUDA device library --------------===//
//
// libtpc_cuda.so loads NVIDIA's driver and libraries; it is itself loaded when a GPU program
// starts. It exports two functions, whose names and types are below. They return C++ objects of
// core/Device.h; `tag` ensures that program and library are built from the same headers. Errors are
// thrown as exceptions of the standard library.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_INTERFACE_H
#define TPC_RT_CUDA_INTERFACE_H

#include "core/Device.h"

namespace tpc::rt::cuda {

constexpr const char *libraryName = "libtpc_cuda.so";
constexpr const char *entryName = "tpc_cuda_devices";

/// Digest of the headers that program and library include. A function of a library with another
/// digest sets `problem`.
constexpr const char *tag = TPC_DEVICE_INTERFACE;

/// Returns a new device kind, which is never destroyed. Returns null and sets `problem` if there is
/// no usable driver. `tag` is the caller's.
using Entry = const DeviceKind *(const char *tag, std::string &problem);

constexpr const char *describeName = "tpc_cuda_describe";

/// Sets `text` to the libraries and GPUs found, and `problem` to the reason if they are unusable.
using Describe = void(const char *tag, std::string &text, std::string &problem);

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_INTERFACE_H
