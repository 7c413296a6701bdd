//===- OneDnnDevice.h - processors whose products are oneDNN's -------------===//
//
// Products with weights only; all else is CpuDevice's. A product is cut into blocks of a fixed
// number of rows and columns, which threads of the rank compute one by one: so the cut, and with it
// the bits, do not depend on how many threads there are. (They may depend on the number of rows,
// unlike those of our own products.) Bias, activation and residual are applied to a block while it
// is in the cache, by the functions that our own products use.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CPU_ONEDNNDEVICE_H
#define TPC_RT_CPU_ONEDNNDEVICE_H

#include "core/Device.h"

namespace tpc::rt {

/// Null, with the reason, if the library is not there or cannot be used.
const DeviceKind *oneDnnDevices(std::string &problem);

} // namespace tpc::rt

#endif // TPC_RT_CPU_ONEDNNDEVICE_H
