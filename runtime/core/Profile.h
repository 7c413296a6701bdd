//===- Profile.h - where the time of a step goes --------------------------===//
//
// A device that hands all work to another, waits until it is done, and counts seconds: by product
// (m x k x n), batch product, attention (batch x heads x queries x keys x head size), kernel (name)
// and copies. Waiting after each piece of work takes away what a device would do at the same time:
// a profiled step may take longer than others.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_PROFILE_H
#define TPC_RT_CORE_PROFILE_H

#include "core/Device.h"

namespace tpc::rt {

struct ProfileRow {
  std::string kind; ///< "product", "batch_product", "attention", "kernel", "copy"
  std::string what; ///< sizes or name, without spaces
  int64_t count = 0;
  double seconds = 0;
  double flops = 0; ///< of products and attention: multiplications and additions
};

/// Devices of `kind`, which outlives this, profiled.
std::unique_ptr<DeviceKind> profiledDevices(const DeviceKind &kind);

/// What a profiled device has done since the last call, most seconds first. Empty for others.
std::vector<ProfileRow> takeProfile(Device &device);

} // namespace tpc::rt

#endif // TPC_RT_CORE_PROFILE_H
