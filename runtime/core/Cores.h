//===- Cores.h - how many cores this process may use ----------------------===//

#ifndef TPC_RT_CORE_CORES_H
#define TPC_RT_CORE_CORES_H

namespace tpc::rt {

/// By affinity, and by the control group's quota where there is one. At least 1.
int usableCores();

/// What the control group's quota allows, rounded up; INT_MAX where there is none. It is of all
/// processes of the group together.
int quotaCores();

} // namespace tpc::rt

#endif // TPC_RT_CORE_CORES_H
