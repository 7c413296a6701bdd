//===- MachineSums.cpp - Interpretation of sums over micro-batches --------===//

#include "Machine.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A>
LogicalResult Machine<A>::accumulate(Operation *op, int64_t index, Value value, Frame<A> &frame) {
  ArrayRef<Ref> values = frame.values[value];
  for (int rank : frame.active) {
    Ref &sum = sums[{index, rank}];
    if (!sum) {
      sum = values[rank];
      continue;
    }
    if (sum->shape != values[rank]->shape)
      return fail(op) << describe(rank) << " adds values of different shapes";
    auto next = std::make_shared<Data>(*sum);
    for (auto [x, y] : llvm::zip(next->data, values[rank]->data))
      x = A::add(x, y);
    sum = next;
  }
  return success();
}

template <typename A>
LogicalResult Machine<A>::readSum(Operation *op, int64_t index, Frame<A> &frame) {
  std::vector<Ref> results(ranks.size());
  for (int rank : frame.active) {
    auto sum = sums.find({index, rank});
    if (sum == sums.end())
      return fail(op) << describe(rank) << " has added no value to sum " << index;
    results[rank] = sum->second;
  }
  return finish(op, std::move(results), frame);
}

template LogicalResult Machine<Doubles>::accumulate(Operation *, int64_t, Value, Frame<Doubles> &);
template LogicalResult Machine<Field>::accumulate(Operation *, int64_t, Value, Frame<Field> &);
template LogicalResult Machine<Doubles>::readSum(Operation *, int64_t, Frame<Doubles> &);
template LogicalResult Machine<Field>::readSum(Operation *, int64_t, Frame<Field> &);
