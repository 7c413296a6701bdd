//===- WeightGains.cpp - Magnitudes of random weights ---------------------===//

#include "WeightGains.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Quantized.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

namespace {
/// Collects the weights to which a value is proportional.
class Sources {
public:
  explicit Sources(ModuleOp module) {
    module.walk([&](func::CallOp call) {
      if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
        calls[callee].push_back(call);
    });
  }

  std::set<std::string> find(Value value) {
    std::set<std::string> names;
    seen.clear();
    visit(value, names);
    return names;
  }

  /// Adds the ops that unpack a value which is a quantized weight, in all callers.
  void findNumbers(Value value, SmallVectorImpl<DequantizeOp> &found) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      for (func::CallOp call : calls.lookup(argument.getOwner()->getParentOp()))
        findNumbers(call.getOperand(argument.getArgNumber()), found);
      return;
    }
    Operation *op = value.getDefiningOp();
    if (auto numbers = dyn_cast<DequantizeOp>(op))
      found.push_back(numbers);
    else if (isa<CastOp>(op) || isa<MovementOpInterface>(op))
      findNumbers(op->getOperand(0), found);
  }

private:
  void visit(Value value, std::set<std::string> &names) {
    if (!seen.insert(value).second)
      return;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      for (func::CallOp call : calls.lookup(argument.getOwner()->getParentOp()))
        visit(call.getOperand(argument.getArgNumber()), names);
      return;
    }
    Operation *op = value.getDefiningOp();
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      names.insert(parameter.getWeight().str());
      return;
    }
    // A matmul is proportional to its weight, norms and quantized weights only to their scale.
    bool isProduct = isa<MatmulOp, LayerNormOp, RmsNormOp, DequantizeOp>(op);
    if (isProduct && op->getNumOperands() > 1)
      return visit(op->getOperand(1), names);
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = call->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(call.getCallee());
      if (callee && !callee.isExternal())
        visit(callee.front().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()),
              names);
      return;
    }
    for (Value operand : op->getOperands())
      visit(operand, names);
  }

  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
  DenseSet<Value> seen;
};
} // namespace

void lowered::setQuantizedGains(ModuleOp program, llvm::StringMap<double> &gains) {
  Sources sources(program);
  program.walk([&](MatmulOp matmul) {
    SmallVector<::tpc::SymExpr> sizes = getSizes(matmul.getRhs());
    double rows = double(sizes[sizes.size() - 2].asConstant().value_or(1));
    SmallVector<DequantizeOp> found;
    sources.findNumbers(matmul.getRhs(), found);
    for (DequantizeOp numbers : found)
      for (const std::string &name : sources.find(numbers.getScale()))
        gains[name] =
            std::ldexp(1 / std::sqrt(std::max(1.0, rows)), int(1 - int64_t(numbers.getBits())));
  });
}

bool lowered::raiseGains(ModuleOp program, const Coverage &coverage,
                         llvm::StringMap<double> &gains) {
  // Numbers that would have to grow by more than this factor are not enlarged.
  constexpr double largest = 1e4;
  std::optional<Sources> sources;
  bool changed = false;
  coverage.forEach([&](Operation *op, Facts missing, const Magnitudes &magnitudes) {
    double factor = 1;
    auto raise = [&](double is, double wanted) {
      if (is > 0)
        factor = std::max(factor, wanted / is);
    };
    if (missing.contains(Fact::Capped))
      raise(magnitudes.ofCap, 0.8);
    if (missing.contains(Fact::NotFlat))
      raise(magnitudes.spread, 1);
    if (missing.contains(Fact::FirstOperand) || missing.contains(Fact::SecondOperand))
      raise(magnitudes.ofCap, 1.5);
    if (factor == 1 || factor > largest)
      return;
    if (!sources)
      sources.emplace(program);
    SmallVector<std::set<std::string>> found;
    // Scores are products of two values.
    unsigned factors = isa<AttentionOp>(op) ? 2 : op->getNumOperands();
    for (Value operand : op->getOperands().take_front(factors))
      if (std::set<std::string> names = sources->find(operand); !names.empty())
        found.push_back(std::move(names));
    std::set<std::string> all;
    for (const std::set<std::string> &names : found)
      all.insert(names.begin(), names.end());
    double each = isa<AttentionOp>(op) && found.size() == 2 ? std::sqrt(factor) : factor;
    for (const std::string &name : all) {
      double &gain = gains.try_emplace(name, 1).first->second;
      if (gain * each > largest)
        continue;
      gain *= each;
      changed = true;
    }
  });
  return changed;
}
