//===- Inputs.cpp - Inputs of test runs -----------------------------------===//

#include "Inputs.h"

#include "Domains.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

/// Returns the range of a type's integers in a domain. Unbounded domains are restricted to small
/// numbers.
static std::pair<int64_t, int64_t> getRange(Domain domain, Type element) {
  double lowest = domain.lowest, highest = domain.highest;
  if (domain.isAll())
    std::tie(lowest, highest) = std::pair(-7, 6);
  else if (!std::isfinite(lowest))
    lowest = highest - 13;
  else if (!std::isfinite(highest))
    highest = lowest + 13;
  if (auto type = dyn_cast<IntegerType>(element)) {
    Domain fits = Domain{lowest, highest}.intersect(Domain::ofType(type));
    if (fits.lowest <= fits.highest)
      std::tie(lowest, highest) = std::pair(fits.lowest, fits.highest);
  }
  constexpr double limit = 4e18; // so that the range fits 64 bits
  int64_t first = std::clamp(std::ceil(lowest), -limit, limit);
  return {first, std::max<int64_t>(first, std::clamp(std::floor(highest), -limit, limit))};
}

/// Draws a random floating-point number from a domain.
template <typename A> static typename A::Element drawNumber(Domain domain, uint64_t key, size_t i) {
  typename A::Element x = A::random(key, i);
  if constexpr (std::is_same_v<A, Doubles>) {
    // Over the field, ops that depend on signs are hashes.
    if (std::isfinite(domain.lowest))
      return domain.lowest + std::fabs(x);
    if (std::isfinite(domain.highest))
      return domain.highest - std::fabs(x);
  }
  return x;
}

template <typename A>
static Tensor<typename A::Element> makeInput(BlockArgument argument, DictionaryAttr attrs,
                                             Domain domain, World &world, int draw) {
  Tensor<typename A::Element> tensor(world.getWholeShape(argument.getType()));
  Type element = getElementTypeOrSelf(argument.getType());
  InputDefaultAttr left = InputDefaultAttr::lookup(attrs);
  int64_t last = tensor.shape.empty() ? 1 : std::max<int64_t>(1, tensor.shape.back());
  auto [lowest, highest] = getRange(domain, element);
  uint64_t key = hashText("input") + argument.getArgNumber() + 0x10000 * uint64_t(draw);
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    uint64_t x = hash(key, i);
    int64_t row = i / last, column = i % last;
    auto set = [&](int64_t number) {
      // A restricted domain may require fewer rows; for example, there may be more positions than
      // rows.
      if (!domain.isAll())
        number = std::clamp(number, lowest, highest);
      tensor.data[i] = A::fromInteger(number);
    };
    if (left && left.getKind() == InputDefaultKind::Ones)
      set(A::masksHideRows && row % 3 == 2 ? 0 : column >= row % last);
    else if (left)
      set(column);
    else if (element.isInteger(1))
      set(x % 4 != 0);
    else if (isa<IntegerType>(element) || domain.isFinite())
      set(lowest + int64_t(x % uint64_t(highest - lowest + 1)));
    else
      tensor.data[i] = drawNumber<A>(domain, key, i);
  }
  return tensor;
}

template <typename A>
FailureOr<std::vector<Tensor<typename A::Element>>> interpret::makeInputs(func::FuncOp main,
                                                                          World &world, int draw) {
  Domains domains(world);
  if (failed(domains.run(main)))
    return failure();
  std::vector<Tensor<typename A::Element>> inputs;
  for (BlockArgument argument : main.getArguments())
    inputs.push_back(makeInput<A>(argument, main.getArgAttrDict(argument.getArgNumber()),
                                  domains.get(argument), world, draw));
  return inputs;
}

FailureOr<std::vector<int64_t>> interpret::findTables(func::FuncOp main, World &world) {
  Domains domains(world);
  if (failed(domains.run(main)))
    return failure();
  std::vector<int64_t> tables;
  for (BlockArgument argument : main.getArguments()) {
    Domain domain = domains.get(argument);
    // A narrow integer type may have no number that is out of bounds.
    bool isIndex = domain.isFinite() && domain.lowest == -(domain.highest + 1) &&
                   getElementTypeOrSelf(argument.getType()).getIntOrFloatBitWidth() >= 32;
    tables.push_back(isIndex ? int64_t(domain.highest) + 1 : 0);
  }
  return tables;
}

template FailureOr<std::vector<Tensor<double>>> interpret::makeInputs<Doubles>(func::FuncOp,
                                                                               World &, int);
template FailureOr<std::vector<Tensor<uint64_t>>> interpret::makeInputs<Field>(func::FuncOp,
                                                                               World &, int);
