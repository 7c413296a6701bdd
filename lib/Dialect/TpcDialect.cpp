//===- TpcDialect.cpp - The tpc dialect -----------------------------------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/LinkModel.h"
#include "tpc/Dialect/Sharding.h"

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

/// Is this a list of {expr = "a size", ...}?
static bool areConstraints(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  return list && llvm::all_of(list, [](Attribute entry) {
           auto constraint = dyn_cast<DictionaryAttr>(entry);
           auto expr = constraint ? constraint.getAs<StringAttr>("expr") : StringAttr();
           return expr && ::tpc::SymExpr::parse(expr.getValue());
         });
}

LogicalResult TpcDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kGridAttr && !isa<GridAttr>(attribute.getValue()))
    return op->emitError() << "'" << kGridAttr << "' must be a #tpc.grid, not "
                           << attribute.getValue();
  if (attribute.getName() == kConstraintsAttr && !areConstraints(attribute.getValue()))
    return op->emitError() << "'" << kConstraintsAttr
                           << "' must be a list of {expr = \"a size\", ...}, not "
                           << attribute.getValue();
  if (attribute.getName() == kLinksAttr)
    return verifyLinks(attribute.getValue(), [&] { return op->emitError(); });
  if (attribute.getName() == kShardingAttr) {
    auto emitError = [&] { return op->emitError() << "'" << kShardingAttr << "' "; };
    Type type;
    if (auto weight = dyn_cast<WeightOp>(op))
      type = weight.getType();
    else if (op->getNumResults() == 1)
      type = op->getResult(0).getType();
    auto tensor = dyn_cast_or_null<RankedTensorType>(type);
    if (!tensor || !(tensor.hasStaticShape() || isa_and_nonnull<DistAttr>(tensor.getEncoding())))
      return emitError() << "belongs on a tpc.weight, an argument of @main, or an op with one "
                            "result, a tensor";
    return verifySharding(attribute.getValue(), getSizes(type), GridAttr::lookup(op), emitError);
  }
  return success();
}
