//===- Report.cpp - Communication and memory of a staged program ----------===//

#include "tpc/Analysis/Report.h"

#include "tpc/Analysis/Cost.h"
#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

using Coordinates = std::map<std::string, int64_t>;

class Counter {
public:
  Counter(ModuleOp module, const Symbols &symbols, int64_t maxRanks)
      : module(module), grid(MeshAttr::lookup(module)), symbols(symbols), maxRanks(maxRanks) {}
  FailureOr<Report> run();

private:
  std::optional<int64_t> getBytes(Type type);
  int64_t getCacheBytes(int64_t stage);
  ParameterRow describe(ParameterOp parameter);
  LogicalResult countStage(StageOp stage, StageRow &row);
  LogicalResult countBlock(Block &block, int64_t times);
  LogicalResult countOp(Operation *op, int64_t times);
  LogicalResult countSteps(Operation *op, ArrayAttr axes, int64_t times);
  void add(StringRef axis, StringRef kind, int64_t count, int64_t bytes);
  std::string getLabel(ArrayAttr axes);
  void collectParameters(Block &block, llvm::SetVector<Operation *> &out);
  void countWeights();

  ModuleOp module;
  MeshAttr grid;
  const Symbols &symbols;
  int64_t maxRanks;
  Coordinates coordinates;
  Report report;
  int64_t stage = 0;                                // current stage
  SmallVector<SmallVector<ParameterOp>> parameters; // by stage
  SmallVector<SmallVector<Type>> caches;            // by stage
};

std::optional<int64_t> Counter::getBytes(Type type) {
  return getLocalBytes(type, grid, coordinates, symbols);
}

/// Returns the bytes of the stage's caches for all micro-batches.
int64_t Counter::getCacheBytes(int64_t stage) {
  int64_t bytes = 0;
  for (Type type : caches[stage]) {
    int64_t microBatches = getDist(type).usesAxis(kMicroBatchAxis) ? grid.getMicroBatches() : 1;
    for (int64_t microBatch = 0; microBatch < microBatches; ++microBatch) {
      coordinates[kMicroBatchAxis.str()] = microBatch;
      bytes += getBytes(type).value_or(0);
    }
    coordinates.erase(kMicroBatchAxis.str());
  }
  return bytes;
}

/// Whether a value is a slice of a cache argument.
static bool isSliceOfCache(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<LocalSliceOp, ExpandOp, ReshapeOp, GatherOp>(op))
      return false;
    value = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(value);
  auto pipeline = dyn_cast<PipelineOp>(argument.getOwner()->getParentOp());
  return pipeline &&
         getCache(cast<DictionaryAttr>(pipeline.getInputAttrs()[argument.getArgNumber()]));
}

void Counter::add(StringRef axis, StringRef kind, int64_t count, int64_t bytes) {
  if (bytes == 0)
    return;
  auto row = llvm::find_if(report.collectives, [&](const CollectiveRow &r) {
    return r.stage == stage && r.axis == axis && r.kind == kind;
  });
  if (row == report.collectives.end())
    row = report.collectives.insert(row, {stage, axis.str(), kind.str(), 0, 0});
  row->count += count;
  row->bytes += count * bytes;
}

/// Returns the axes joined by "-", in the grid's order.
std::string Counter::getLabel(ArrayAttr axes) {
  std::string label;
  for (StringAttr axis : grid.getOrder())
    if (llvm::is_contained(axes, axis))
      label += (label.empty() ? "" : "-") + axis.getValue().str();
  return label;
}

/// If the innermost axis of `dim` is in `axes`, moves it from `axes` to `taken` and returns `dim`
/// without it; else returns null.
static DimAttr takeInnermost(DimAttr dim, SmallVectorImpl<StringAttr> &axes, StringAttr &taken) {
  auto take = [&](ArrayRef<StringAttr> all) {
    if (all.empty() || !llvm::is_contained(axes, all.back()))
      return false;
    taken = all.back();
    llvm::erase(axes, taken);
    return true;
  };
  if (!dim.getAxes().empty())
    return take(dim.getAxes())
               ? DimAttr::get(dim.getContext(), dim.getFactors(), dim.getAxes().drop_back())
               : DimAttr();
  SmallVector<FactorAttr> factors(dim.getFactors());
  for (FactorAttr &factor : factors)
    if (take(factor.getAxes())) {
      factor = FactorAttr::get(dim.getContext(), factor.getSize(), factor.getAxes().drop_back());
      return DimAttr::get(dim.getContext(), factors);
    }
  return {};
}

/// Counts a gather or scatter over several axes as one collective per axis, each with its own whole
/// buffer.
LogicalResult Counter::countSteps(Operation *op, ArrayAttr axesAttr, int64_t times) {
  bool gathers = isa<AllGatherOp>(op);
  auto split = cast<RankedTensorType>((gathers ? op->getOperand(0) : op->getResult(0)).getType());
  int64_t at = op->getAttrOfType<IntegerAttr>("dim").getInt();
  SmallVector<StringAttr> axes = llvm::to_vector(axesAttr.getAsRange<StringAttr>());
  DistAttr dist = getDist(split);
  while (!axes.empty()) {
    SmallVector<DimAttr> dims(dist.getDims());
    StringAttr axis;
    dims[at] = takeInnermost(dims[at], axes, axis);
    assert(dims[at] && "the verifier has checked that the axes are innermost");
    dist = dist.withDims(dims);
    auto bytes = getBytes(makeTensorType(split.getElementType(), dist, grid));
    if (!bytes)
      return op->emitError() << "the size of " << split << " is not known, or is too large";
    if (grid.getAxisSize(axis.getValue()) > 1)
      add(axis.getValue(), op->getName().stripDialect(), times, *bytes);
  }
  return success();
}

LogicalResult Counter::countOp(Operation *op, int64_t times) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    return countBlock(callee.front(), times);
  }
  if (isa<AllGatherOp, ReduceScatterOp>(op))
    return countSteps(op, op->getAttrOfType<ArrayAttr>("axes"), times);
  if (!isa<CollectiveOpInterface, SendOp>(op))
    return success();
  Value buffer = op->getOperand(0);
  auto bytes = getBytes(buffer.getType());
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (collective && collective.sendsOnlyMissing())
    bytes = collective.getMaxMemberBytes(grid, coordinates, symbols);
  if (!bytes)
    return op->emitError() << "the size of " << buffer.getType()
                           << " is not known, or is too large";
  StringRef kind = op->getName().stripDialect();
  if (isa<SendOp>(op)) {
    add(kPipelineAxis.str(), kind, times, *bytes);
    return success();
  }
  ArrayAttr axes = collective.getAxesAttr();
  int64_t members = 1;
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    members *= grid.getAxisSize(axis.getValue());
  if (members == 1)
    return success();
  auto start = dyn_cast<AllReduceStartOp>(op);
  if (!start) {
    add(getLabel(axes), kind, times, *bytes);
    return success();
  }
  // Each chunk that is not empty is one all-reduce.
  ArrayRef<DimAttr> dims = getDist(buffer).getDims();
  std::optional<int64_t> width = 1;
  if (!dims.empty())
    width = dims.back().getLocalSize(grid, coordinates, symbols);
  int64_t rowBytes = width.value_or(0) * getElementBytes(getElementTypeOrSelf(buffer));
  if (rowBytes)
    for (int64_t rows : start.getChunkRows(*bytes / rowBytes))
      add(getLabel(axes), "all_reduce", times, rows * rowBytes);
  return success();
}

LogicalResult Counter::countBlock(Block &block, int64_t times) {
  for (Operation &op : block)
    if (failed(countOp(&op, times)))
      return failure();
  return success();
}

LogicalResult Counter::countStage(StageOp stage, StageRow &row) {
  // The prologue runs once per step. Its values that micro-batch iterations read are live until the
  // last iteration.
  for (Operation &op : stage.getBody().front()) {
    if (isa<MicroBatchesOp>(op))
      continue;
    if (failed(countOp(&op, 1)))
      return failure();
    for (Value result : op.getResults()) {
      if (isa<ParameterOp, ConstantOp>(op) || result.use_empty() || isSliceOfCache(result))
        continue;
      auto bytes = getBytes(result.getType());
      if (!bytes)
        return op.emitError() << "the size of " << result.getType()
                              << " is not known, or is too large";
      row.prologueBytes += *bytes;
    }
  }
  for (auto loop : stage.getBody().front().getOps<MicroBatchesOp>()) {
    bool isUpdate = !loop.getBody().getOps<AccumulatedOp>().empty(); // runs once, after a chunk
    if (!isUpdate)
      row.chunks.push_back({getChunks(stage)[row.chunks.size()], countLayers(loop)});
    int64_t iterations = 0;
    Block &body = loop.getBody().front();
    // Micro-batches of equal size are counted together. Their sizes are in descending order, so
    // groups of equal sizes are found by bisection.
    DimAttr batch = loop.getBatchAttr();
    int64_t total = batch ? grid.getMicroBatches() : 1;
    auto getSize = [&](int64_t index) -> std::optional<int64_t> {
      Coordinates at = coordinates;
      at[kMicroBatchAxis.str()] = index;
      return batch ? batch.getLocalSize(grid, at, symbols) : std::optional<int64_t>(1);
    };
    // A loop that runs every micro-batch also runs those without samples.
    auto samples = module->getAttrOfType<DimAttr>(kBatchAttr);
    auto getSamples = [&](int64_t index) -> int64_t {
      Coordinates at = coordinates;
      at[kMicroBatchAxis.str()] = index;
      return samples ? samples.getLocalSize(grid, at, symbols).value_or(0) : 0;
    };
    for (int64_t begin = 0; begin < total;) {
      auto size = getSize(begin);
      if (!size)
        return loop.emitError() << "the size of the batch is not known";
      if (*size == 0)
        break;
      int64_t last = begin, end = total;
      while (end - last > 1) {
        int64_t middle = last + (end - last) / 2;
        bool isSame = getSize(middle) == size && getSamples(middle) == getSamples(begin);
        (isSame ? last : end) = middle;
      }
      coordinates[kMicroBatchAxis.str()] = begin;
      if (failed(countBlock(body, end - begin)))
        return failure();
      iterations += end - begin;
      begin = end;
    }
    coordinates.erase(kMicroBatchAxis.str());
    if (!isUpdate)
      row.microBatches = iterations;
    // Each output is gathered once, with its global size; caches stay on their ranks.
    for (auto output : body.getOps<OutputOp>()) {
      auto pipeline = output->getParentOfType<PipelineOp>();
      if (getCache(cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()]))) {
        caches.back().push_back(output.getValue().getType());
        continue;
      }
      if (Update::get(cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()])))
        continue;
      if (iterations == 0)
        continue;
      auto local = getBytes(output.getValue().getType());
      auto global =
          getBytes(getCopies(pipeline, output.getIndex())
                       .getDeliveredType(makeTensorType(
                           cast<RankedTensorType>(output.getValue().getType()).getElementType(),
                           getDist(output.getValue()).getGlobal())));
      if (!local || !global)
        return output.emitError() << "the size of the output is not known";
      if (*local > 0)
        add("output", "gather", 1, *global);
    }
  }
  return success();
}

void Counter::collectParameters(Block &block, llvm::SetVector<Operation *> &out) {
  for (Operation &op : block) {
    if (isa<ParameterOp>(op))
      out.insert(&op);
    else if (auto call = dyn_cast<func::CallOp>(op))
      collectParameters(module.lookupSymbol<func::FuncOp>(call.getCallee()).front(), out);
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        collectParameters(inner, out);
  }
}

ParameterRow Counter::describe(ParameterOp parameter) {
  ParameterRow row{
      parameter.getWeight().str(), {}, {}, getBytes(parameter.getType()).value_or(0), {}};
  for (DimAttr dim : getDist(parameter.getType()).getDims()) {
    row.shape.push_back(evaluateOr1(dim.getExpr(), symbols));
    row.localShape.push_back(dim.getLocalSize(grid, coordinates, symbols).value_or(0));
    std::string &axes = row.axes.emplace_back();
    for (StringAttr axis : grid.getOrder())
      if (dim.usesAxis(axis.getValue()))
        axes += (axes.empty() ? "" : "-") + axis.getValue().str();
  }
  return row;
}

/// Computes the parameter bytes of each rank.
void Counter::countWeights() {
  int64_t world = grid.getWorldSize();
  for (StageRow &row : report.stages) {
    coordinates.clear();
    for (ParameterOp parameter : parameters[row.stage]) {
      row.parameters.push_back(describe(parameter));
      row.weightBytes += row.parameters.back().bytes;
    }
    row.cacheBytes = getCacheBytes(row.stage);
  }
  if (world > maxRanks)
    return;
  for (int64_t rank = 0; rank < world; ++rank) {
    coordinates.clear();
    int64_t rest = rank;
    for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes())) {
      coordinates[axis.getValue().str()] = rest % size;
      rest /= size;
    }
    RankRow row{rank, coordinates[kPipelineAxis.str()]};
    row.cacheBytes = getCacheBytes(row.stage);
    for (ParameterOp parameter : parameters[row.stage])
      row.weightBytes += getBytes(parameter.getType()).value_or(0);
    report.ranks.push_back(row);
  }
}

FailureOr<Report> Counter::run() {
  PipelineOp pipeline;
  for (auto op : module.getOps<PipelineOp>())
    pipeline = op;
  if (!pipeline || !grid)
    return emitError(module.getLoc()) << "a report needs a staged program: run the passes up to "
                                         "tpc-schedule-pipeline";
  std::string missing;
  for (const std::string &name : getInputSymbols(module))
    if (!symbols.count(name))
      missing += (missing.empty() ? "" : ", ") + name;
  if (!missing.empty())
    return emitError(module.getLoc()) << "no size is given for: " << missing;

  report.symbols = symbols;
  for (auto stage : pipeline.getBody().front().getOps<StageOp>()) {
    coordinates.clear();
    StageRow row;
    row.stage = this->stage = stage.getIndex();
    auto getSeconds = [&](StringRef name) {
      auto seconds = stage->getAttrOfType<FloatAttr>(name);
      return seconds ? seconds.getValueAsDouble() : 0;
    };
    row.layers = countLayers(stage);
    row.seconds = getSeconds(kSecondsAttr);
    row.layerSeconds = getSeconds(kLayerSecondsAttr);
    row.recomputedSeconds = getSeconds(kRecomputedSecondsAttr);
    row.transferSeconds = getSeconds(kTransferSecondsAttr);
    caches.emplace_back();
    if (failed(countStage(stage, row)))
      return failure();

    llvm::SetVector<Operation *> ops;
    collectParameters(stage.getBody().front(), ops);
    parameters.push_back(getDistinctParameters(ops.getArrayRef()));
    report.stages.push_back(row);
  }
  countWeights();
  report.schedule =
      ScheduleRow::count(pipeline, report.stages.empty() ? 0 : report.stages.front().microBatches);

  if (auto tactics = module->getAttrOfType<ArrayAttr>(kTacticsAttr))
    for (auto tactic : tactics.getAsRange<DictionaryAttr>())
      for (auto split : tactic.getAs<ArrayAttr>("splits").getAsRange<StringAttr>())
        report.splits.push_back(tactic.getAs<StringAttr>("name").getValue().str() + ": " +
                                split.getValue().str());
  if (auto warnings = module->getAttrOfType<ArrayAttr>(kWarningsAttr))
    for (auto warning : warnings.getAsRange<StringAttr>())
      report.warnings.push_back(warning.getValue().str());
  return std::move(report);
}

} // namespace

std::set<std::string> mlir::tpc::getInputSymbols(ModuleOp module) {
  std::set<std::string> names;
  auto collect = [&](TypeRange types) {
    for (Type type : types)
      if (isa<RankedTensorType>(type))
        for (const ::tpc::SymExpr &size : getSizes(type))
          size.collectSymbols(names);
  };
  for (auto pipeline : module.getOps<PipelineOp>())
    collect(TypeRange(pipeline.getBody().front().getArgumentTypes()));
  if (auto main = module.lookupSymbol<func::FuncOp>("main"))
    collect(main.getArgumentTypes());
  return names;
}

FailureOr<Report> mlir::tpc::computeReport(ModuleOp module, const Symbols &symbols,
                                           int64_t maxRanks) {
  return Counter(module, symbols, maxRanks).run();
}
