//===- Functions.h - Types of the cuBLASLt entry points -------------------===//

#ifndef TPC_TEST_SIMULATOR_CUBLASLT_FUNCTIONS_H
#define TPC_TEST_SIMULATOR_CUBLASLT_FUNCTIONS_H

#include "Types.h"

namespace sim::lt::type {

#define FUNCTION(result, name, parameters) using name = result parameters;
#include "Functions.def"
#undef FUNCTION

} // namespace sim::lt::type

#endif
