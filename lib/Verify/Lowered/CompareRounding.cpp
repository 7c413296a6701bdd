//===- CompareRounding.cpp - Where and how much a kernel rounds -----------===//

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

/// How far constants of the program's types, which are doubles on tensors, take a number.
static double getTolerance(double x) { return 1e-6 * (std::fabs(x) + 1); }

LogicalResult lowered::compareNarrowings(kernel::FuncOp function, const Narrowings &narrowings,
                                         const TensorRun &exact) {
  DenseMap<Type, std::vector<std::vector<double>>> known; // sorted, by value on tensors
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
                             << llvm::formatv(" what is {0:e9} at small sizes, among others, and "
                                              "its function of tensors has no such value of ",
                                              lost)
                                    .str()
                             << type;
  }
  return success();
}

LogicalResult lowered::compareCasts(kernel::FuncOp function, func::FuncOp tensors,
                                    ArrayRef<Place> results, const TensorRun &rounded) {
  for (auto [result, place] : llvm::enumerate(results)) {
    const Data &want = rounded.getResult(result);
    unsigned others = 0;
    std::pair<double, double> numbers;
    for (auto [i, expected] : llvm::enumerate(want.data)) {
      Scalar value = place.load(i);
      double x = place.type.isFloat() ? value.f : double(value.i);
      if (x == expected || !std::isfinite(expected) || std::fabs(x - expected) <= getTolerance(x))
        continue;
      ++others;
      numbers = {x, expected};
    }
    // What is nearly in the middle of two numbers of 16 bits may be rounded either way.
    if (others <= 1 + want.data.size() / 16)
      continue;
    return reportResult(function, tensors, result)
           << llvm::formatv("rounds at other places than its function of tensors: {0} of {1} "
                            "elements of result {2} differ, one is {3:e9} instead of {4:e9}",
                            others, want.data.size(), result, numbers.first, numbers.second)
                  .str();
  }
  return success();
}

LogicalResult lowered::compareArithmetic(kernel::FuncOp function, func::FuncOp tensors,
                                         ArrayRef<Place> results, const TensorRun &exact,
                                         ArrayRef<Data> sensitivity) {
  for (auto [result, place] : llvm::enumerate(results)) {
    if (!place.type.isFloat())
      continue;
    const Data &want = exact.getResult(result);
    double largest = 0;
    for (double x : want.data)
      largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
    for (auto [i, expected] : llvm::enumerate(want.data)) {
      double off = sensitivity[result].data[i];
      if (!std::isfinite(expected) || !std::isfinite(off))
        continue;
      double tolerance = 8 * (off + std::ldexp(largest, -23)) + std::ldexp(1.0, -126),
             x = place.load(i).f;
      if (std::fabs(x - expected) <= tolerance)
        continue;
      return reportResult(function, tensors, result)
             << llvm::formatv(
                    "loses precision: it stores {0:e9} as element {1} of result {2} where "
                    "{3:e9} is exact, and rounding on tensors changes it by {4:e3}",
                    x, i, result, expected, off)
                    .str();
    }
  }
  return success();
}
