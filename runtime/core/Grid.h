//===- Grid.h - Grid of ranks in the runtime's namespace ------------------===//

#ifndef TPC_RT_CORE_GRID_H
#define TPC_RT_CORE_GRID_H

#include "tpc/grid.h"

namespace tpc::rt {

using ::tpc::Grid;
using ::tpc::Group;
using ::tpc::Part;
using ::tpc::partOf;

} // namespace tpc::rt

#endif // TPC_RT_CORE_GRID_H
