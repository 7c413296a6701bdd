//===- TrainingOps.cpp - Ops of backward programs -------------------------===//

#include "OpHelpers.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;

using Dims = ShardingRule::Dims;

#define GET_OP_CLASSES
#include "tpc/Dialect/TrainingOps.cpp.inc"

ShardingRule ScatterAddOp::getShardingRule() {
  ShardingRule rule;
  Sizes out = getSizes(getResult());
  int v = rule.addFactor(out[0]), h = rule.addFactor(out[1]);
  Dims ids = addDims(rule, getSizes(getIds()));
  for (const ShardingRule::Dim &dim : ids)
    rule.factors[dim[0]].kind = FactorKind::ReductionSum;
  Dims updates = ids;
  updates.push_back({h});
  rule.operands = {updates, ids};
  rule.results = {{{v}, {h}}};
  rule.linear = {{{0}, false}};
  return rule;
}

LogicalResult ScatterAddOp::verify() {
  Sizes updates = getSizes(getUpdates()), ids = getSizes(getIds()), out = getSizes(getResult());
  if (out.size() != 2)
    return emitOpError() << "has a result " << describe(out) << "; expected [rows, width]";
  ids.push_back(out[1]);
  if (updates != ids)
    return emitOpError() << "has updates " << describe(updates) << "; expected " << describe(ids)
                         << ", one row of the result for each id";
  if (elementTypeOf(getUpdates()) != elementTypeOf(getResult()))
    return emitOpError("must not change the element type");
  return success();
}
