//===- Functions.h - Types of NCCL's entry points -------------------------===//

#ifndef TPC_TEST_SIMULATOR_NCCL_FUNCTIONS_H
#define TPC_TEST_SIMULATOR_NCCL_FUNCTIONS_H

#include "Types.h"

namespace sim::nccl::type {

#define FUNCTION(result, name, parameters) using name = result parameters;
#include "Functions.def"
#undef FUNCTION

} // namespace sim::nccl::type

#endif
