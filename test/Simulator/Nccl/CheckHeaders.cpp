//===- CheckHeaders.cpp - Comparison with the vendor's headers ------------===//

#include "Cuda/SameShape.h"
#include "Functions.h"

#include <nccl.h>

namespace sim::nccl {

#define FUNCTION(result, name, parameters)                                                         \
  static_assert(sameShape<type::name, decltype(::name)>, "of " #name);
#include "Functions.def"

static_assert(sizeof(ncclUniqueId) == sizeof(UniqueId));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static_assert(sizeof(ncclConfig_t) == sizeof(Config));
static_assert(offsetof(ncclConfig_t, commName) == offsetof(Config, commName));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(Config, blocking));
#endif
static_assert(undefined == NCCL_CONFIG_UNDEF_INT && noColor == NCCL_SPLIT_NOCOLOR);
static_assert(windowAlignment == NCCL_WIN_REQUIRED_ALIGNMENT);
#define SAME(ours, theirs) static_assert(int(ours) == int(theirs))
SAME(Success, ncclSuccess);
SAME(UnhandledCudaError, ncclUnhandledCudaError);
SAME(SystemError, ncclSystemError);
SAME(InternalError, ncclInternalError);
SAME(InvalidArgument, ncclInvalidArgument);
SAME(InvalidUsage, ncclInvalidUsage);
SAME(RemoteError, ncclRemoteError);
SAME(InProgress, ncclInProgress);
SAME(Int8, ncclInt8);
SAME(Uint8, ncclUint8);
SAME(Int32, ncclInt32);
SAME(Uint32, ncclUint32);
SAME(Int64, ncclInt64);
SAME(Uint64, ncclUint64);
SAME(Float16, ncclFloat16);
SAME(Float32, ncclFloat32);
SAME(Float64, ncclFloat64);
SAME(Bfloat16, ncclBfloat16);
SAME(Sum, ncclSum);
SAME(Prod, ncclProd);
SAME(Max, ncclMax);
SAME(Min, ncclMin);
SAME(Avg, ncclAvg);

} // namespace sim::nccl
