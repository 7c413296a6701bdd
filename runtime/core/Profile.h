//===- Profile.h - Time profile of a step ---------------------------------===//
//
// A device wrapper that forwards all work, waits for its completion, and sums up seconds for each
// kind of call and its sizes, such as matmuls (m x k x n) and attention (batch x heads x queries x
// keys x head size), and for each kernel by name. Waiting after each call removes overlap on the
// device, so a profiled step may take longer than others. Collectives through host memory are timed
// as well.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_PROFILE_H
#define TPC_RT_CORE_PROFILE_H

#include "core/Device.h"

namespace tpc::rt {

struct ProfileRow {
  std::string kind; ///< "product", "attention", "kernel", "copy", …
  std::string what; ///< sizes or name; without tabs
  int64_t count = 0;
  double seconds = 0;
  double flops = 0; ///< multiplications and additions of matmuls and attention
};

/// One call, in steady-clock seconds. `kind` and `what` are a profile row's kind and sizes, or a
/// collective and its axis: ("all_reduce", "tp"), ("send", "pp"), ("receive", "pp").
struct TimedCall {
  std::string kind, what;
  double begin = 0, seconds = 0;
};

/// Wraps devices of `kind`, which must outlive the result.
std::unique_ptr<DeviceKind> profiledDevices(const DeviceKind &kind);

/// Rows since the last call, by descending seconds. Empty for devices without profile.
std::vector<ProfileRow> takeProfile(Device &device);
/// Calls since the last call, in order. Collectives on devices are not included.
std::vector<TimedCall> takeTimeline(Device &device);

} // namespace tpc::rt

#endif // TPC_RT_CORE_PROFILE_H
