//===- LocalIndex.cpp - Indices of a dimension and of a rank's part -------===//

#include "LocalIndex.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// A factor that is split with all behind it that are not: the rank's part of them is in a row.
struct Run {
  Value begin;         // of this rank's part
  Value local, global; // elements
  bool split;
};
} // namespace

static SmallVector<Run, 2> getRuns(SizeEmitter &s, DimAttr dim) {
  SmallVector<Run, 2> runs;
  for (FactorAttr factor : dim.getFactors()) {
    bool split = !factor.getAxes().empty();
    Value size = s.expr(factor.getExpr());
    if (split || runs.empty()) {
      runs.push_back({s.begin(factor), s.localSize(factor), size, split});
      continue;
    }
    Run &run = runs.back();
    for (Value *value : {&run.begin, &run.local, &run.global})
      *value = s.mul(*value, size);
  }
  return runs;
}

/// Index in each run. Divisors are sizes: where one is 0, nobody has the element.
static SmallVector<Value, 2> divide(IndexArithmetic &at, SizeEmitter &s, Value index,
                                    ArrayRef<Run> runs, Value Run::*size) {
  SmallVector<Value, 2> parts(runs.size());
  for (size_t i = runs.size() - 1; i > 0; --i) {
    Value divisor = s.max(runs[i].*size, s.constant(1));
    parts[i] = at.remainder(index, divisor);
    index = at.quotient(index, divisor);
  }
  parts[0] = index;
  return parts;
}

static Value join(IndexArithmetic &at, ArrayRef<Value> parts, ArrayRef<Run> runs,
                  Value Run::*size) {
  Value index = parts[0];
  for (auto [part, run] : llvm::drop_begin(llvm::zip_equal(parts, runs)))
    index = at.add(at.mul(index, run.*size), part);
  return index;
}

Value mlir::tpc::getGlobalIndex(IndexArithmetic &at, SizeEmitter &sizes, DimAttr dim, Value local) {
  if (!dim.isSharded())
    return local;
  SmallVector<Run, 2> runs = getRuns(sizes, dim);
  auto parts = divide(at, sizes, at.add(local, sizes.productBegin(dim)), runs, &Run::local);
  for (auto [part, run] : llvm::zip_equal(parts, runs))
    part = at.add(part, run.begin);
  return join(at, parts, runs, &Run::global);
}

LocalIndex mlir::tpc::getLocalIndex(IndexArithmetic &at, SizeEmitter &sizes, DimAttr dim,
                                    Value global) {
  if (!dim.isSharded())
    return {global, {}};
  LocalIndex result;
  SmallVector<Run, 2> runs = getRuns(sizes, dim);
  auto parts = divide(at, sizes, global, runs, &Run::global);
  for (auto [part, run] : llvm::zip_equal(parts, runs)) {
    part = at.sub(part, run.begin);
    if (run.split)
      result.inside.push_back({part, run.local});
  }
  result.index = join(at, parts, runs, &Run::local);
  if (!dim.getAxes().empty()) {
    result.index = at.sub(result.index, sizes.productBegin(dim));
    result.inside.push_back({result.index, sizes.localSize(dim)});
  }
  return result;
}

bool mlir::tpc::isRange(DimAttr dim) {
  return llvm::none_of(dim.getFactors().drop_front(),
                       [](FactorAttr factor) { return !factor.getAxes().empty(); });
}
