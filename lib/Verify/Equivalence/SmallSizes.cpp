//===- SmallSizes.cpp - Grid and sizes of a cheap test run ----------------===//

#include "SmallSizes.h"

#include "../Interpret/InterpretOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using namespace mlir::tpc::interpret;
using ::tpc::SymExpr;

/// Returns the program's grid with few replicas and micro-batches, because ranks along these axes
/// run the same program. Other axes have at most `largest` ranks. The number of stages is
/// unchanged.
static MeshAttr makeSampleMesh(ModuleOp program, int64_t largest) {
  MLIRContext *context = program.getContext();
  MeshAttr grid = MeshAttr::lookup(program);
  // Before tpc-split-stages, ranks along pp run the same program as well.
  bool staged = !program.getOps<PipelineOp>().empty();
  if (!grid)
    return MeshAttr::get(context, {}, {}, 1);
  SmallVector<int64_t> sizes;
  for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes()))
    sizes.push_back(axis.getValue() == kPipelineAxis    ? (staged ? size : 1)
                    : grid.isInView(axis, kReplicaView) ? std::min<int64_t>(size, 2)
                                                        : std::min(size, largest));
  return MeshAttr::get(context, grid.getOrder(), sizes, grid.getViews(),
                       std::min<int64_t>(grid.getMicroBatches(), 2), /*gpusPerNode=*/0,
                       /*chunksPerRank=*/1);
}

namespace {
/// Estimates the number of multiplications of a program on all ranks. An op is counted once for all
/// ranks with equal slices of its values. Does not enumerate indices, because sizes may be too
/// large.
class Estimate {
public:
  /// `eachRank`: counts replicated computation on each rank.
  Estimate(ModuleOp module, MeshAttr grid, const Sizes &sizes, bool eachRank)
      : module(module), grid(grid), sizes(sizes), local(isLocalProgram(module)),
        eachRank(eachRank) {}
  double count() {
    for (auto pipeline : module.getOps<PipelineOp>())
      return count(pipeline);
    auto main = module.lookupSymbol<func::FuncOp>("main");
    return main ? count(main) : 0;
  }

private:
  double countDim(DimAttr dim) const {
    double elements = 1;
    auto split = [&](ArrayRef<StringAttr> axes) {
      for (StringAttr axis : axes)
        elements =
            local ? std::ceil(elements / double(grid.getAxisSize(axis.getValue()))) : elements;
    };
    for (FactorAttr factor : dim.getFactors()) {
      elements *= double(sizes.evaluate(factor.getExpr()));
      split(factor.getAxes());
    }
    split(dim.getAxes());
    return elements;
  }
  /// Returns the number of elements of the largest shard.
  double countElements(Type type) {
    auto [it, first] = known.try_emplace(type, 1);
    if (first)
      for (DimAttr dim : getDist(type).getDims())
        it->second *= countDim(dim);
    return it->second;
  }
  /// Returns the number of ranks with distinct slices of an op's values.
  double countRanks(Operation *op) {
    if (local && eachRank)
      return double(grid.getWorldSize() * grid.getMicroBatches());
    std::set<StringRef> axes;
    auto visit = [&](Type type) {
      if (!local || !isa<RankedTensorType>(type))
        return;
      DistAttr dist = getDist(type);
      for (DimAttr dim : dist.getDims())
        for (StringAttr axis : dim.getAllAxes())
          axes.insert(axis.getValue());
      for (StringAttr axis : dist.getPartialAxes())
        axes.insert(axis.getValue());
    };
    llvm::for_each(op->getOperandTypes(), visit);
    llvm::for_each(op->getResultTypes(), visit);
    double ranks = 1;
    for (StringRef axis : axes)
      ranks *= double(grid.getAxisSize(axis)); // "mb": number of micro-batches
    return ranks;
  }
  double count(Operation *function) {
    auto [it, first] = functions.try_emplace(function, 0);
    if (!first)
      return it->second;
    double sum = 0;
    function->walk([&](Operation *op) {
      if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
        sum += callee ? count(callee) : 0;
        return;
      }
      auto computes = dyn_cast<interpret::EvaluatedOpInterface>(op);
      double each = computes ? computes.countWork([&](DimAttr dim) { return countDim(dim); }) : 4;
      for (Type type : op->getResultTypes())
        if (isa<RankedTensorType>(type))
          sum += countRanks(op) * each * countElements(type);
    });
    return functions[function] = sum;
  }

  ModuleOp module;
  MeshAttr grid;
  const Sizes &sizes;
  bool local, eachRank;
  DenseMap<Type, double> known;
  DenseMap<Operation *, double> functions;
};
} // namespace

double SmallSizes::estimate() const {
  return Estimate(model, grid, *sizes, false).count() +
         Estimate(program, grid, *sizes, eachRank).count();
}

LogicalResult SmallSizes::choose(ModuleOp model, ModuleOp program, double budget, double limit,
                                 bool eachRank, std::string &skipped) {
  this->model = model;
  this->program = program;
  this->eachRank = eachRank;
  constexpr int64_t rows = 12; // minimum number of rows of tables of positions
  constexpr std::pair<int64_t, int64_t> attempts[] = {{64, 3}, {64, 2}, {3, 2}, {2, 2}, {2, 1}};
  for (auto [largest, base] : attempts) {
    grid = makeSampleMesh(program, largest);
    sizes.emplace(model, program, MeshAttr::lookup(program), grid, base, rows);
    if (Operation *op = sizes->getUnknown())
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << ") cannot be run at small sizes: the verifier has no size "
                                "constraints for this op";
    double cost = estimate();
    if (cost <= (base == 1 ? limit : budget))
      return success();
    if (base == 1) {
      std::string why = sizes->explain();
      llvm::raw_string_ostream(skipped) << llvm::formatv(
          "its sizes cannot be made small: {0:e0} multiplications, more than {1:e0}{2}{3}", cost,
          limit, why.empty() ? "" : "; ", why);
    }
  }
  return success();
}

int64_t equivalence::findConstant(Value value, int depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 6)
    return 0;
  DenseIntElementsAttr constant;
  int64_t largest = 0;
  if (matchPattern(value, m_Constant(&constant)) && !constant.getElementType().isInteger(1))
    for (const APInt &x : constant.getValues<APInt>())
      largest = std::max(largest, x.getSignificantBits() <= 32 ? std::abs(x.getSExtValue()) : 0);
  for (Value operand : op->getOperands())
    largest = std::max(largest, findConstant(operand, depth + 1));
  return largest;
}

bool SmallSizes::reachConstants(const Coverage &coverage, double limit) {
  constexpr int64_t largest = 128;
  int64_t constant = 0;
  SmallVector<SymExpr> dims;
  coverage.forEach([&](Operation *op, Facts missing, const Magnitudes &) {
    if (!missing.contains(Fact::True) && !missing.contains(Fact::False))
      return;
    int64_t ofOp = 0;
    for (Value operand : op->getOperands())
      if (isa<IntegerType>(getElementTypeOrSelf(operand)))
        ofOp = std::max(ofOp, findConstant(operand));
    if (ofOp < 2 || ofOp > largest)
      return;
    constant = std::max(constant, ofOp);
    // Only the dimensions of queries and keys are enlarged, not the batch.
    SmallVector<SymExpr> all = getSizes(op->getResult(0));
    llvm::append_range(dims, ArrayRef(all).take_back(2));
  });
  if (dims.empty())
    return false;
  sizes->widen(dims, constant + 2);
  if (estimate() <= limit)
    return true;
  sizes->restoreSample();
  return false;
}

bool SmallSizes::fitTables(const Coverage &coverage) {
  std::map<int64_t, int64_t> rows;
  coverage.forEach([&](Operation *op, Facts, const Magnitudes &magnitudes) {
    if (auto lookup = dyn_cast<EmbeddingOp>(op))
      if (std::optional<int64_t> n = getSizes(lookup.getTable())[0].asConstant())
        rows[*n] = std::max(rows[*n], magnitudes.rows);
  });
  bool changed = false;
  for (auto [n, used] : rows)
    changed |= used > 0 && sizes->setRows(n, used);
  fitted = changed ? rows : std::map<int64_t, int64_t>();
  return changed;
}

void SmallSizes::restoreTables() {
  for (auto [n, used] : fitted)
    sizes->setRows(n, 0);
}

double equivalence::estimateWork(ModuleOp module, MeshAttr grid, const interpret::Sizes &sizes) {
  return Estimate(module, grid, sizes, false).count();
}
