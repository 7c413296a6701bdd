//===- DescribeDevices.h - Description of the available devices -----------===//

#ifndef TPC_RT_CORE_DESCRIBEDEVICES_H
#define TPC_RT_CORE_DESCRIBEDEVICES_H

#include "tpc/runtime.h"
#include <string>

namespace tpc::rt {

/// Describes the devices and libraries of this machine, one line each, with their source. Also
/// lists missing libraries. `problem` is set to the reason why the program cannot run, or to an
/// empty string.
std::string describeDevices(const tpc_program &program, std::string &problem);

} // namespace tpc::rt

#endif // TPC_RT_CORE_DESCRIBEDEVICES_H
