//===- NcclHeader.cpp - Comparison of NCCL declarations -------------------===//
//
// Compiled only if NVIDIA's header is installed, and never linked.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/Nccl.h"
#include "cuda/library/SameShape.h"
#include <cstddef>
#include <nccl.h>

namespace {

using namespace tpc::rt::cuda;

// Structs passed by value, and by pointer.
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
#define TPC_COMPARE_FIELD(own, vendors)                                                            \
  static_assert(offsetof(nccl::Config, own) == offsetof(ncclConfig_t, vendors) &&                  \
                    sizeof(nccl::Config::own) == sizeof(ncclConfig_t::vendors),                    \
                #own);
TPC_COMPARE_FIELD(size, size)
TPC_COMPARE_FIELD(magic, magic)
TPC_COMPARE_FIELD(version, version)
TPC_COMPARE_FIELD(blocking, blocking)
#if NCCL_VERSION_CODE >= 22800
static_assert(sizeof(nccl::Config) == sizeof(ncclConfig_t));
TPC_COMPARE_FIELD(netName, netName)
TPC_COMPARE_FIELD(commName, commName)
TPC_COMPARE_FIELD(nvlinkCentricSched, nvlinkCentricSched)
#endif
#undef TPC_COMPARE_FIELD

#define TPC_COMPARE(name, arguments)                                                               \
  static_assert(SameShape<decltype(nccl::Library::name), decltype(&::nccl##name)>::value, #name);
TPC_NCCL_FUNCTIONS(TPC_COMPARE)
#if NCCL_VERSION_CODE >= 21900
TPC_NCCL_MEMORY_FUNCTIONS(TPC_COMPARE)
#endif
#undef TPC_COMPARE
static_assert(
    SameShape<decltype(nccl::Library::GetErrorString), decltype(&::ncclGetErrorString)>::value);
static_assert(
    SameShape<decltype(nccl::Library::GetLastError), decltype(&::ncclGetLastError)>::value);

static_assert(nccl::success == ncclSuccess && nccl::unhandledCudaError == ncclUnhandledCudaError &&
              nccl::systemError == ncclSystemError && nccl::remoteError == ncclRemoteError &&
              nccl::inProgress == ncclInProgress && nccl::undefined == NCCL_CONFIG_UNDEF_INT);
static_assert(nccl::int8 == ncclInt8 && nccl::uint8 == ncclUint8 && nccl::int32 == ncclInt32 &&
              nccl::int64 == ncclInt64 && nccl::float16 == ncclFloat16 &&
              nccl::float32 == ncclFloat32 && nccl::float64 == ncclFloat64 &&
              nccl::bfloat16 == ncclBfloat16);
static_assert(nccl::sum == ncclSum && nccl::max == ncclMax && nccl::min == ncclMin);

} // namespace
