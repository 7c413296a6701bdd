//===- Interface.h - between a program and the library for GPUs -----------===//
//
// libtpc_cuda.so knows the vendor's driver and libraries, and is loaded when a program for GPUs
// starts. It has the symbols of the functions below. What it gives is a C++ object of
// core/Device.h: both sides are built of the same headers, which `tag` makes sure of. Errors leave
// it as exceptions of the standard library.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_INTERFACE_H
#define TPC_RT_CUDA_INTERFACE_H

#include "core/Device.h"

namespace tpc::rt::cuda {

constexpr const char *libraryName = "libtpc_cuda.so";
constexpr const char *entryName = "tpc_cuda_devices";

/// Of the headers that both sides see.
constexpr const char *tag = TPC_DEVICE_INTERFACE;

/// Null, with the reason, if there is no driver, or none that will do. `tag`: the caller's.
using Entry = const DeviceKind *(const char *tag, std::string &problem);

constexpr const char *describeName = "tpc_cuda_describe";

/// What was found, and why it will not do.
using Describe = void(const char *tag, std::string &text, std::string &problem);

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_INTERFACE_H
