//===- Schedule.cpp - Communication schedule of a staged program ----------===//

#include "tpc/Verify/Schedule.h"

#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/State.h"
#include "tpc/fnv1a.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tpc;
namespace json = llvm::json;

bool mlir::tpc::isCollective(Operation *op) { return isa<CollectiveOpInterface>(op); }

ArrayAttr mlir::tpc::getGroupAxes(Operation *op) { return op->getAttrOfType<ArrayAttr>("axes"); }

//===----------------------------------------------------------------------===//
// Projection
//===----------------------------------------------------------------------===//

AxisMask Schedule::getMask(StringRef axis) const {
  for (auto [i, name] : llvm::enumerate(grid.getOrder()))
    if (name.getValue() == axis && grid.getSizes()[i] > 1)
      return AxisMask(1) << i;
  return 0;
}

AxisMask Schedule::getMask(ArrayRef<StringAttr> axes) const {
  AxisMask mask = 0;
  for (StringAttr axis : axes)
    mask |= getMask(axis.getValue());
  return mask;
}

AxisMask Schedule::getMask(ArrayAttr axes) const {
  return getMask(llvm::to_vector(axes.getAsRange<StringAttr>()));
}

SmallVector<StringRef> Schedule::getNames(AxisMask axes) const {
  SmallVector<StringRef> names;
  for (auto [i, name] : llvm::enumerate(grid.getOrder()))
    if (axes >> i & 1)
      names.push_back(name.getValue());
  return names;
}

/// Returns whether the op has no effects that are visible to other ranks.
static bool isRankLocal(Operation *op) {
  if (isa<AccumulateOp, AccumulatedOp>(op)) // their sums are never sent
    return true;
  if (op->hasTrait<OpTrait::IsTerminator>() && op->getNumSuccessors() == 0)
    return true;
  return isMemoryEffectFree(op);
}

static bool containsCommunication(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return isCollective(inner) || isa<SendOp, RecvOp, OutputOp, func::CallOp>(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult Schedule::projectCall(func::CallOp call, Items &items) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal())
    return call.emitError() << "calls @" << call.getCallee()
                            << ", which has no body: its communication is unknown";
  if (llvm::is_contained(callPath, callee.getOperation()))
    return call.emitError() << "@" << call.getCallee()
                            << " calls itself: its communication would not terminate";
  auto [known, isNew] = communicates.try_emplace(callee, false);
  if (isNew && callPath.size() >= maxDepth)
    return call.emitError() << "calls @" << call.getCallee() << ": more than " << maxDepth
                            << " calls are nested here";
  if (isNew) {
    Items body;
    callPath.push_back(callee);
    LogicalResult result = success();
    if (!callee.getBody().hasOneBlock())
      result = callee.emitError() << "@" << callee.getName() << " branches between blocks: the "
                                  << "order of its communication is unknown";
    else
      result = projectBlock(callee.front(), body);
    callPath.pop_back();
    if (failed(result))
      return failure();
    communicates[callee] = !body.empty();
    if (!body.empty())
      functions.insert({callee, std::move(body)});
  }
  if (communicates.lookup(callee))
    items.push_back({Item::Kind::Call, call, callee, {}, {}});
  return success();
}

LogicalResult Schedule::projectBlock(Block &block, Items &items) {
  for (Operation &op : block) {
    if (isa<SendOp, RecvOp, OutputOp>(op) && !op.getParentOfType<StageOp>())
      return op.emitError() << "a transfer must be in a stage, not in a function that several "
                               "stages may call";
    if (isCollective(&op) || isa<SendOp, RecvOp>(op)) {
      items.push_back({Item::Kind::Comm, &op, {}, {}, {}});
      continue;
    }
    if (isa<OutputOp>(op)) {
      items.push_back({Item::Kind::Output, &op, {}, {}, {}});
      continue;
    }
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (failed(projectCall(call, items)))
        return failure();
      continue;
    }
    if (auto loop = dyn_cast<MicroBatchesOp>(op)) {
      if (op.getParentOfType<MicroBatchesOp>())
        return op.emitError() << "micro-batch loops must not be nested";
      Item item{Item::Kind::Loop, &op, {}, {}, {}};
      if (failed(projectBlock(loop.getBody().front(), item.body)))
        return failure();
      items.push_back(std::move(item));
      continue;
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Item item{Item::Kind::Branch, &op, {}, {}, {}};
      if (failed(projectBlock(branch.getThenRegion().front(), item.body)) ||
          (!branch.getElseRegion().empty() &&
           failed(projectBlock(branch.getElseRegion().front(), item.other))))
        return failure();
      if (!item.body.empty() || !item.other.empty())
        items.push_back(std::move(item));
      continue;
    }
    if (op.getNumRegions() > 0 && containsCommunication(&op))
      return op.emitError()
             << "'" << op.getName()
             << "' contains communication, but its trip count on each rank is "
                "unknown; only tpc.micro_batches and scf.if may contain communication";
    if (!isRankLocal(&op))
      return op.emitError() << "'" << op.getName()
                            << "' may write memory, possibly that of a message in flight; a staged "
                               "program has only values";
  }
  return success();
}

FailureOr<Schedule> Schedule::project(ModuleOp module) {
  MeshAttr grid = MeshAttr::lookup(module);
  auto pipelines = llvm::to_vector(module.getOps<PipelineOp>());
  if (!grid) // one rank
    grid = MeshAttr::get(module.getContext(), {}, {}, 1);
  if (pipelines.size() != 1)
    return emitError(module.getLoc())
           << "needs a staged program, with one tpc.pipeline: run tpc-split-stages and "
              "tpc-schedule-pipeline first";
  Schedule schedule(module, grid, pipelines[0]);
  int64_t next = 0;
  for (Operation &op : pipelines[0].getBody().front()) {
    auto stage = dyn_cast<StageOp>(op);
    if (!stage || int64_t(stage.getIndex()) != next++)
      return op.emitError() << "a pipeline must contain only its stages, in order";
    Items items;
    if (failed(schedule.projectBlock(stage.getBody().front(), items)))
      return failure();
    if (ScheduleAttr attr = pipelines[0].getScheduleAttr();
        attr && failed(schedule.projectEvents(stage, attr, items)))
      return failure();
    schedule.stages.push_back({stage, std::move(items)});
  }
  if (next != grid.getAxisSize(kPipelineAxis))
    return pipelines[0].emitError() << "has " << next << " stages for "
                                    << grid.getAxisSize(kPipelineAxis) << " coordinates of pp";
  return schedule;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static std::string typeName(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

static json::Array namesOf(ArrayRef<StringAttr> axes) {
  json::Array names;
  for (StringAttr axis : axes)
    names.push_back(axis.getValue().str());
  return names;
}

/// Returns an unsplit size as text. For a split size, returns its factors with the axes that split
/// them, and the axes that split the product of the factors.
static json::Value describeDim(DimAttr dim) {
  if (!dim.isSharded())
    return dim.getExpr().str();
  json::Array factors;
  for (FactorAttr factor : dim.getFactors())
    factors.push_back(
        json::Object{{"size", factor.getExpr().str()}, {"axes", namesOf(factor.getAxes())}});
  return json::Object{{"factors", std::move(factors)}, {"axes", namesOf(dim.getAxes())}};
}

static json::Array describeDims(ArrayRef<DimAttr> dims) {
  json::Array list;
  for (DimAttr dim : dims)
    list.push_back(describeDim(dim));
  return list;
}

DimAttr mlir::tpc::removeAxes(DimAttr dim, ArrayRef<StringAttr> group) {
  auto without = [&](ArrayRef<StringAttr> axes) {
    SmallVector<StringAttr> rest;
    llvm::copy_if(axes, std::back_inserter(rest),
                  [&](StringAttr axis) { return !llvm::is_contained(group, axis); });
    return rest;
  };
  SmallVector<FactorAttr> factors;
  for (FactorAttr factor : dim.getFactors())
    factors.push_back(
        FactorAttr::get(dim.getContext(), factor.getExpr(), without(factor.getAxes())));
  return DimAttr::get(dim.getContext(), factors, without(dim.getAxes()));
}

json::Object mlir::tpc::describeCommunication(Operation *op) {
  json::Object object{{"op", op->getName().stripDialect().str()}};
  auto number = [&](StringRef name, StringRef key) {
    if (auto value = op->getAttrOfType<IntegerAttr>(name))
      object[key] = value.getInt();
  };
  if (isa<SendOp, RecvOp>(op)) {
    Type type = isa<SendOp>(op) ? op->getOperand(0).getType() : op->getResult(0).getType();
    number("to", "to");
    number("from", "from");
    object["type"] = typeName(getElementTypeOrSelf(type));
    object["dims"] = describeDims(getDist(type).getDims());
    return object;
  }
  Type from = op->getOperand(0).getType();
  auto group = llvm::to_vector(getGroupAxes(op).getAsRange<StringAttr>());
  object["over"] = namesOf(group);
  object["type"] = typeName(getElementTypeOrSelf(from));
  if (auto partial = getDist(from).getPartial();
      partial && isa<AllReduceOp, ReduceScatterOp, AllReduceStartOp, CombineOp>(op))
    object["reduction"] = stringifyReductionKind(partial.getKind()).str();
  if (auto start = dyn_cast<AllReduceStartOp>(op)) {
    object["chunks"] = int64_t(start.getChunks());
    object["grain"] = int64_t(start.getGrain());
  }
  for (StringRef name : {"dim", "from_dim", "to_dim", "root", "column"})
    number(name, name);
  if (auto experts = op->getAttrOfType<DimAttr>("experts"))
    object["experts"] = describeDim(experts);
  // Dimensions of the union of the group's shards, or of the global value. They determine the slice
  // of each member.
  SmallVector<DimAttr> dims(getDist(from).getDims());
  auto collective = cast<CollectiveOpInterface>(op);
  if (collective.getOperandSplitDim() || collective.mayChangeAnySplit())
    for (DimAttr &dim : dims)
      dim = removeAxes(dim, group);
  if (auto permute = dyn_cast<CollectivePermuteOp>(op)) {
    object["before"] = describeDim(getDist(from).getDims()[permute.getDim()]);
    object["after"] = describeDim(getDist(permute.getResult()).getDims()[permute.getDim()]);
    if (permute.getFrom()) {
      object["from"] = permute.getFrom()->str();
      object["every"] = permute.getEvery()->str();
    }
  }
  if (collective.mayChangeAnySplit()) {
    object["before"] = describeDims(getDist(from).getDims());
    object["after"] = describeDims(getDist(op->getResult(0)).getDims());
  }
  object["dims"] = describeDims(dims);
  return object;
}

static json::Array describeItems(const Schedule::Items &items);

static json::Object describeItem(const Schedule::Item &item) {
  using Kind = Schedule::Item::Kind;
  switch (item.kind) {
  case Kind::Comm:
    return describeCommunication(item.op);
  case Kind::Call:
    return json::Object{{"call", func::FuncOp(item.callee).getName().str()}, {"times", 1}};
  case Kind::Output: {
    auto output = cast<OutputOp>(item.op);
    return json::Object{{"op", "output"},
                        {"index", int64_t(output.getIndex())},
                        {"type", typeName(getElementTypeOrSelf(output.getValue().getType()))},
                        {"dims", describeDims(getDist(output.getValue()).getDims())}};
  }
  case Kind::Loop: {
    DimAttr batch = cast<MicroBatchesOp>(item.op).getBatchAttr();
    json::Object loop{{"loop", batch ? describeDim(batch) : json::Value(nullptr)},
                      {"body", describeItems(item.body)}};
    if (item.at >= 0)
      loop["at"] = item.at;
    return loop;
  }
  case Kind::Branch:
    return json::Object{{"then", describeItems(item.body)}, {"else", describeItems(item.other)}};
  }
  llvm_unreachable("all kinds are listed");
}

static json::Array describeItems(const Schedule::Items &items) {
  json::Array list;
  for (const Schedule::Item &item : items) {
    json::Object object = describeItem(item);
    // Consecutive calls of a function become one entry.
    if (item.kind == Schedule::Item::Kind::Call && !list.empty()) {
      json::Object &last = *list.back().getAsObject();
      if (last.get("call") && *last.get("call") == *object.get("call")) {
        last["times"] = *last.getInteger("times") + 1;
        continue;
      }
    }
    list.push_back(std::move(object));
  }
  return list;
}

json::Object Schedule::toJSON() const {
  json::Array order, list;
  json::Object sizes, bodies;
  for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes())) {
    order.push_back(axis.getValue().str());
    sizes[axis.getValue()] = size;
  }
  for (const auto &[function, items] : functions)
    bodies[cast<func::FuncOp>(function).getName()] = describeItems(items);
  for (const auto &stage : stages)
    list.push_back(describeItems(stage.second));
  json::Object object{{"grid", json::Object{{"order", std::move(order)},
                                            {"sizes", std::move(sizes)},
                                            {"micro_batches", grid.getMicroBatches()}}},
                      {"functions", std::move(bodies)},
                      {"stages", std::move(list)}};
  if (int64_t inFlight = getNumStepsInFlight()) {
    int64_t last = getStages().size() - 1;
    json::Array earlier;
    for (int64_t stage = 0; stage < last; ++stage)
      earlier.push_back(stage);
    object["tokens"] =
        json::Object{{"from", last}, {"to", std::move(earlier)}, {"in_flight", inFlight}};
  }
  return object;
}

int64_t Schedule::getNumStepsInFlight() const {
  return stages.size() > 1 && PreallocatedStep::lookup(module)
             ? PreallocatedStep::getNumStepsInFlight(grid)
             : 0;
}

std::string mlir::tpc::hashText(StringRef text) {
  return ::tpc::toHexDigits(::tpc::spreadBits(::tpc::fnv1a(text)));
}

std::string Schedule::getHash() const {
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(toJSON());
  return hashText(text);
}
