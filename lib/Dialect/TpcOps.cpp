//===- TpcOps.cpp - Generated op code, in a file of its own ---------------===//
//
// Apart from the hand-written parts, so that touching those stays cheap.
//
//===----------------------------------------------------------------------===//

#include "Elementwise.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::elementwise;

#define GET_OP_CLASSES
#include "tpc/Dialect/TpcOps.cpp.inc"
