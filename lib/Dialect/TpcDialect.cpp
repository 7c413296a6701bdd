//===- TpcDialect.cpp - The tpc dialect -----------------------------------===//

#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::tpc;

#include "tpc/Dialect/TpcDialect.cpp.inc"
#include "tpc/Dialect/TpcEnums.cpp.inc"

void TpcDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tpc/Dialect/TpcOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Dialect/AnnotationOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Dialect/StateOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Dialect/QuantizedOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Dialect/ExpertOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Dialect/AsyncOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Dialect/AccumulateOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "tpc/Dialect/TrainingOps.cpp.inc"
      >();
  registerAttributes();
}

Operation *TpcDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                           Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || !isa<RankedTensorType>(type))
    return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}
