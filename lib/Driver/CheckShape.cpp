//===- CheckShape.cpp - Check of --shape against the model ----------------===//

#include "CheckShape.h"

#include "tpc/Analysis/Report.h"
#include "tpc/Dialect/MakeError.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/windows.h"

#include <set>

using namespace tpc;
using llvm::Error;

using mlir::tpc::makeError;

/// Checks the sizes against the model's constraints.
static Error checkConstraints(mlir::ModuleOp module, const ShapeBinding &shape) {
  auto constraints = module->getAttrOfType<mlir::ArrayAttr>(mlir::tpc::kConstraintsAttr);
  if (!constraints)
    return Error::success();
  for (auto constraint : constraints.getAsRange<mlir::DictionaryAttr>()) {
    const SymExpr &expr = constraint.getAs<mlir::tpc::SymExprAttr>("expr").getExpr();
    std::optional<int64_t> value = expr.evaluate(shape);
    if (!value)
      continue;
    auto why = constraint.getAs<mlir::StringAttr>("why");
    auto refuse = [&](llvm::StringRef limit, int64_t bound) {
      std::string size = expr.str();
      if (!shape.contains(size)) // not a single symbol
        size += " = " + std::to_string(*value);
      else
        size += "=" + std::to_string(*value);
      return makeError("--shape: " + size + " does not fit the model: at " + limit + " " +
                       llvm::Twine(bound) + (why ? " (" + why.getValue().str() + ")" : ""));
    };
    if (auto min = constraint.getAs<mlir::IntegerAttr>("min"); min && *value < min.getInt())
      return refuse("least", min.getInt());
    if (auto max = constraint.getAs<mlir::IntegerAttr>("max"); max && *value > max.getInt())
      return refuse("most", max.getInt());
  }
  return Error::success();
}

void tpc::bindCapacities(mlir::ModuleOp module, ShapeBinding &shape) {
  auto step = mlir::tpc::PreallocatedStep::lookup(module);
  if (!step || !step->windowed || shape.count(step->windowed->capacity) ||
      !shape.count(step->capacity) || !shape.count(step->tokens))
    return;
  shape[step->windowed->capacity] =
      windowCapacity(step->windowed->window, shape[step->capacity],
                     std::max<int64_t>(kPrefillChunk, shape[step->tokens]));
}

/// Returns the sizes that --shape may bind.
static std::set<std::string> getSizes(mlir::ModuleOp module) {
  std::set<std::string> symbols = mlir::tpc::getInputSymbols(module);
  if (auto step = mlir::tpc::PreallocatedStep::lookup(module))
    symbols.insert(step->capacity);
  return symbols;
}

bool tpc::hasUnboundSizes(mlir::ModuleOp module, const ShapeBinding &shape) {
  return llvm::any_of(getSizes(module),
                      [&](const std::string &symbol) { return !shape.count(symbol); });
}

Error tpc::checkShape(mlir::ModuleOp module, const ShapeBinding &shape, llvm::StringRef flag) {
  std::set<std::string> symbols = getSizes(module);
  auto join = [](auto &&names) { return llvm::join(names.begin(), names.end(), ", "); };
  for (const auto &[name, size] : shape)
    if (!symbols.contains(name))
      return makeError("--shape: the model has no size '" + name + "'; it has " +
                       (symbols.empty() ? "none" : join(symbols)));
  if (flag.empty())
    return Error::success();
  std::vector<std::string> unbound;
  for (const std::string &symbol : symbols)
    if (!shape.contains(symbol))
      unbound.push_back(symbol);
  if (!unbound.empty())
    return makeError(flag + ": the model has sizes that --shape must bind: " + join(unbound) +
                     "; for example --shape " + unbound[0] + "=1" +
                     (unbound.size() > 1 ? "," + unbound[1] + "=128" : ""));
  return checkConstraints(module, shape);
}
