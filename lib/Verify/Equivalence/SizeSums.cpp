//===- SizeSums.cpp - Reduced sizes with consistent sums ------------------===//

#include "SizeReduction.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

void SizeReduction::addUp(Operation *op, int64_t total, ArrayRef<int64_t> parts) {
  Equation equation{op, total, {}};
  for (int64_t part : parts)
    if (part > 0)
      equation.parts.push_back(part);
  sizes.insert(total);
  sizes.insert(parts.begin(), parts.end());
  equations.push_back(std::move(equation));
}

/// Returns whether `n` is composed of `other`.
bool SizeReduction::dependsOn(int64_t n, int64_t other) const {
  if (n == other)
    return true;
  auto on = [&](int64_t part) { return dependsOn(part, other); };
  if (auto it = definitions.find(n); it != definitions.end())
    return llvm::any_of(it->second, on);
  auto it = sums.find(n);
  return it != sums.end() &&
         (llvm::any_of(it->second.plus, on) || llvm::any_of(it->second.minus, on));
}

/// Given that `left` and `right` have equal sums, defines one of the sizes by others, and removes
/// the terms of the definition. Returns false if no size can be defined.
bool SizeReduction::defineOne(Factors &left, Factors &right) {
  // The sizes of longer sums are frozen.
  constexpr size_t maxSums = 256, maxParts = 64;
  auto canBe = [&](int64_t n, ArrayRef<int64_t> plus, ArrayRef<int64_t> minus) {
    return !definitions.count(n) && !sums.count(n) && !frozen.count(n) && sums.size() < maxSums &&
           llvm::none_of(
               llvm::concat<const int64_t>(plus, minus),
               [&](int64_t part) { return dependsOn(part, n); });
  };
  auto without = [](Factors side, int64_t n) {
    side.erase(llvm::find(side, n));
    return side;
  };
  if (*llvm::max_element(left) < *llvm::max_element(right))
    std::swap(left, right);
  int64_t a = *llvm::max_element(left), b = *llvm::max_element(right);
  // Define the largest size a as b + (a - b), where b is the largest size of the other side.
  if (left.size() > 1 && left.size() + right.size() < maxParts && canBe(a, {b, a - b}, {})) {
    sums[a] = {{b, a - b}, {}};
    sizes.insert(a - b);
    left = without(left, a);
    left.push_back(a - b);
    right = without(right, b);
    return true;
  }
  // Define the largest possible size as the other side minus the rest of its own side.
  for (auto [side, other] : {std::pair(&left, &right), std::pair(&right, &left)}) {
    Factors candidates = *side;
    llvm::sort(candidates, std::greater<>());
    for (int64_t n : candidates)
      if (Factors rest = without(*side, n); canBe(n, *other, rest)) {
        sums[n] = {*other, rest};
        left.clear();
        right.clear();
        return true;
      }
  }
  return false;
}

void SizeReduction::define(Operation *op, Factors left, Factors right) {
  // Replaces defined sizes by their definitions, and moves subtracted terms to the other side.
  // Terminates, because definitions are acyclic.
  auto replaceOne = [&](Factors &side, Factors &other) {
    for (int64_t &n : side)
      if (auto sum = sums.find(n); sum != sums.end()) {
        side.erase(&n);
        llvm::append_range(side, sum->second.plus);
        llvm::append_range(other, sum->second.minus);
        return true;
      }
    return false;
  };
  constexpr size_t maxParts = 256;
  // Terminates: each iteration defines a size.
  while (!left.empty() && !right.empty()) {
    while (left.size() + right.size() < maxParts &&
           (replaceOne(left, right) || replaceOne(right, left)))
      ;
    removeCommon(left, right);
    if (left.empty() || right.empty() || defineOne(left, right))
      continue;
    for (int64_t n : llvm::concat<int64_t>(left, right))
      freeze(n, op);
    return;
  }
}
