//===- LocalIndex.cpp - Conversion between global and local indices -------===//

#include "tpc/Dialect/LocalIndex.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

SmallVector<IndexRun, 2> mlir::tpc::getIndexRuns(DimAttr dim, MeshAttr grid) {
  SmallVector<IndexRun, 2> runs;
  for (FactorAttr factor : dim.getFactors()) {
    bool split = !factor.getAxes().empty();
    SymExpr size = toNamedSize(factor.getExpr());
    if (split || runs.empty()) {
      runs.push_back({getBegin(factor, grid), getLocalSize(factor, grid), size, split});
      continue;
    }
    IndexRun &run = runs.back();
    for (SymExpr *value : {&run.begin, &run.local, &run.global})
      *value = *value * size;
  }
  return runs;
}

bool mlir::tpc::isRange(DimAttr dim) {
  return llvm::none_of(dim.getFactors().drop_front(),
                       [](FactorAttr factor) { return !factor.getAxes().empty(); });
}
