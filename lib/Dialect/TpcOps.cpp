//===- TpcOps.cpp - Generated op code -------------------------------------===//
//
// Separate from hand-written code, which therefore recompiles faster.
//
//===----------------------------------------------------------------------===//

#include "Elementwise.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::elementwise;

#define GET_OP_CLASSES
#include "tpc/Dialect/TpcOps.cpp.inc"
