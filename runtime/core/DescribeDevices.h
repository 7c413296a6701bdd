//===- DescribeDevices.h - what there is to compute on --------------------===//

#ifndef TPC_RT_CORE_DESCRIBEDEVICES_H
#define TPC_RT_CORE_DESCRIBEDEVICES_H

#include "tpc/runtime.h"
#include <string>

namespace tpc::rt {

/// What the program would find on this machine, a line for each thing and where it is from. Also
/// what is missing, and `problem`: why the program cannot run; else empty.
std::string describeDevices(const tpc_program &program, std::string &problem);

} // namespace tpc::rt

#endif // TPC_RT_CORE_DESCRIBEDEVICES_H
