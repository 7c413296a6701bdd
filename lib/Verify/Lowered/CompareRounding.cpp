//===- CompareRounding.cpp - Comparison of rounding errors ----------------===//

#include "CompareRounding.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

InFlightDiagnostic lowered::reportResult(kernel::FuncOp function, func::FuncOp tensors,
                                         unsigned result) {
  Operation *op = tensors.front().getTerminator()->getOperand(result).getDefiningOp();
  Operation *from = op ? op : tensors.getOperation();
  return from->emitError() << "'" << getSourceName(from->getLoc()) << "' (" << from->getName()
                           << "): kernel @" << function.getSymName()
                           << ", run alone at small sizes, ";
}

/// Tolerance for constants, which are rounded to the program's types in kernels and are doubles in
/// tensor functions.
static double getTolerance(double x) { return 1e-6 * (std::fabs(x) + 1); }

LogicalResult lowered::compareNarrowings(kernel::FuncOp function, const Narrowings &narrowings,
                                         const TensorRun &exact) {
  DenseMap<Type, std::vector<std::vector<double>>> known; // sorted; one list for each tensor value
  for (auto &[op, numbers] : narrowings) {
    Type type = op->getResult(0).getType();
    auto [it, isNew] = known.try_emplace(type);
    if (isNew)
      for (const Data *data : exact.getValues(type)) {
        std::vector<double> &sorted = it->second.emplace_back();
        llvm::copy_if(data->data, std::back_inserter(sorted),
                      [](double x) { return std::isfinite(x); });
        llvm::sort(sorted);
      }
    double lost = 0;
    bool found = numbers.empty() || llvm::any_of(it->second, [&](ArrayRef<double> sorted) {
                   return llvm::all_of(numbers, [&](double x) {
                     auto next = llvm::lower_bound(sorted, x - getTolerance(x));
                     bool isThere = !std::isfinite(x) ||
                                    (next != sorted.end() && *next <= x + getTolerance(x));
                     lost = isThere ? lost : x;
                     return isThere;
                   });
                 });
    if (!found)
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << ") in kernel @" << function.getSymName() << ": narrows to " << type
                             << llvm::formatv(" a number such as {0:e9} at small sizes, but its "
                                              "tensor function has no such value of type ",
                                              lost)
                                    .str()
                             << type;
  }
  return success();
}

LogicalResult lowered::compareCasts(kernel::FuncOp function, func::FuncOp tensors,
                                    ArrayRef<MemoryView> results, const TensorRun &rounded) {
  for (auto [result, view] : llvm::enumerate(results)) {
    const Data &want = rounded.getResult(result);
    unsigned others = 0;
    std::pair<double, double> numbers;
    for (auto [i, expected] : llvm::enumerate(want.data)) {
      Scalar value = view.load(i);
      if (value.isUnspecified())
        continue;
      double x = view.type.isFloat() ? value.f : double(value.i);
      if (x == expected || !std::isfinite(expected) || std::fabs(x - expected) <= getTolerance(x))
        continue;
      ++others;
      numbers = {x, expected};
    }
    // A number close to the middle of two adjacent 16-bit numbers may be rounded up or down.
    if (others <= 1 + want.data.size() / 16)
      continue;
    return reportResult(function, tensors, result)
           << llvm::formatv("rounds other values than its tensor function: {0} of {1} "
                            "elements of result {2} differ, one is {3:e9} instead of {4:e9}",
                            others, want.data.size(), result, numbers.first, numbers.second)
                  .str();
  }
  return success();
}

LogicalResult lowered::compareArithmetic(kernel::FuncOp function, func::FuncOp tensors,
                                         ArrayRef<MemoryView> results, const TensorRun &exact,
                                         ArrayRef<Data> sensitivity) {
  for (auto [result, view] : llvm::enumerate(results)) {
    if (!view.type.isFloat())
      continue;
    const Data &want = exact.getResult(result);
    double largest = 0;
    for (double x : want.data)
      largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
    for (auto [i, expected] : llvm::enumerate(want.data)) {
      double off = sensitivity[result].data[i];
      Scalar value = view.load(i);
      if (!std::isfinite(expected) || !std::isfinite(off) || value.isUnspecified())
        continue;
      double tolerance = 8 * (off + std::ldexp(largest, -23)) + std::ldexp(1.0, -126), x = value.f;
      if (std::fabs(x - expected) <= tolerance)
        continue;
      return reportResult(function, tensors, result)
             << llvm::formatv(
                    "loses precision: it stores {0:e9} as element {1} of result {2} where "
                    "{3:e9} is exact, and rounding in the tensor function changes it by {4:e3}",
                    x, i, result, expected, off)
                    .str();
    }
  }
  return success();
}
