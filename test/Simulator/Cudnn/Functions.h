//===- Functions.h - Types of the cuDNN entry points ----------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDNN_FUNCTIONS_H
#define TPC_TEST_SIMULATOR_CUDNN_FUNCTIONS_H

#include "Types.h"

namespace sim::dnn::type {

#define FUNCTION(result, name, parameters) using name = result parameters;
#include "Functions.def"
#undef FUNCTION

} // namespace sim::dnn::type

#endif
