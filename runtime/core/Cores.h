//===- Cores.h - Number of usable CPU cores -------------------------------===//

#ifndef TPC_RT_CORE_CORES_H
#define TPC_RT_CORE_CORES_H

namespace tpc::rt {

/// Returns the number of usable cores by affinity and by the cgroup quota, at least 1.
int usableCores();

/// Returns the cgroup CPU quota in cores, rounded up; INT_MAX without a quota. All processes of the
/// group share the quota.
int quotaCores();

} // namespace tpc::rt

#endif // TPC_RT_CORE_CORES_H
