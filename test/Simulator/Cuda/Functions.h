//===- Functions.h - Types of the driver's entry points -------------------===//
//
// type::cuInit is the type of cuInit. Programs and tests that load the library find functions by
// name; the library declares and defines them in Api.h.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_FUNCTIONS_H
#define TPC_TEST_SIMULATOR_CUDA_FUNCTIONS_H

#include "Types.h"

namespace sim::type {

#define FUNCTION(name, parameters) using name = Result parameters;
#include "Functions.def"
#undef FUNCTION

} // namespace sim::type

#endif
