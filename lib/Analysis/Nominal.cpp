//===- Nominal.cpp - Nominal sizes for estimates --------------------------===//

#include "tpc/Analysis/ParseSymbols.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/ProgramAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

int64_t mlir::tpc::evaluateOr1(const SymExpr &size, const Symbols &symbols) {
  return size.evaluate(symbols).value_or(1);
}

std::optional<int64_t> mlir::tpc::getLocalBytes(Type tensor, MeshAttr grid,
                                                const std::map<std::string, int64_t> &coordinates,
                                                const Symbols &symbols) {
  int64_t bytes = getElementBytes(tensor);
  for (DimAttr dim : getDist(tensor).getDims()) {
    auto size = dim.getLocalSize(grid, coordinates, symbols);
    if (!size || __builtin_mul_overflow(bytes, *size, &bytes))
      return std::nullopt;
  }
  return bytes;
}

double mlir::tpc::estimateLocalBytes(Type tensor, MeshAttr grid,
                                     const std::map<std::string, int64_t> &coordinates,
                                     const Symbols &symbols) {
  double bytes = double(getElementBytes(tensor));
  for (DimAttr dim : getDist(tensor).getDims())
    bytes *= double(dim.getLocalSize(grid, coordinates, symbols).value_or(1));
  return bytes;
}

double mlir::tpc::estimateBytes(Type tensor, const Symbols &symbols) {
  double bytes = double(getElementBytes(tensor));
  for (const SymExpr &size : getSizes(tensor))
    bytes *= double(evaluateOr1(size, symbols));
  return bytes;
}

FailureOr<Symbols> mlir::tpc::parseSymbols(ArrayRef<std::string> items, Location loc) {
  Symbols symbols;
  for (const std::string &item : items) {
    auto [name, size] = StringRef(item).split('=');
    int64_t value = 0;
    if (name.empty() || size.getAsInteger(10, value) || value < 0)
      return emitError(loc) << "shape: '" << item << "' is not name=size";
    symbols[name.str()] = value;
  }
  return symbols;
}

Symbols mlir::tpc::getNominalSymbols(ModuleOp module) {
  std::set<std::string> names;
  std::set<std::string> batch;
  auto collect = [&](Type type) {
    if (isa<RankedTensorType>(type))
      for (const SymExpr &size : getSizes(type))
        size.collectSymbols(names);
  };
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      collect(type);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments()) {
          collect(argument.getType());
          // The first dimension of an input is the batch.
          if (auto type = dyn_cast<RankedTensorType>(argument.getType());
              type && type.getRank() > 1 &&
              (isa<PipelineOp>(op) || (isa_and_nonnull<SymbolOpInterface>(op) &&
                                       SymbolTable::getSymbolName(op) == "main")))
            getSizes(type)[0].collectSymbols(batch);
        }
  });

  MeshAttr grid = module->getAttrOfType<MeshAttr>(kMeshAttr);
  int64_t samples = grid ? grid.getViewSize(kReplicaView) * grid.getMicroBatches() : 1;
  Symbols symbols;
  for (const std::string &name : names)
    symbols[name] = batch.count(name) ? samples : 128;
  if (auto constraints = module->getAttrOfType<ArrayAttr>(kConstraintsAttr))
    for (auto constraint : constraints.getAsRange<DictionaryAttr>()) {
      auto expr = constraint.getAs<SymExprAttr>("expr");
      auto max = constraint.getAs<IntegerAttr>("max");
      if (!max)
        continue;
      auto it = symbols.find(expr.getExpr().str());
      if (it != symbols.end() && it->second > max.getInt())
        it->second = std::max<int64_t>(1, max.getInt());
    }
  return symbols;
}
