//===- FieldMachine.cpp - A program on all ranks, over a prime field ------===//

#include "FieldMachine.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

//===----------------------------------------------------------------------===//
// Which part of a value a rank has
//===----------------------------------------------------------------------===//

const Relation &FieldContext::getRelation(Type type) const {
  auto [it, first] = relations.try_emplace(type);
  if (first)
    it->second = std::make_unique<Relation>(readRelation(type, grid));
  return *it->second;
}

Indices FieldContext::getIndices(Type type, const Coordinates &at) const {
  auto evaluate = [&](const ::tpc::SymExpr &size) { return sizes.evaluate(size); };
  Indices indices;
  for (const Layout &dim : getRelation(type).dims)
    indices.push_back((local ? dim : dim.getWhole()).getIndices(grid, at, evaluate));
  return indices;
}

Shape FieldContext::getShape(Type type, const Coordinates &at) const {
  Shape shape;
  for (const std::vector<int64_t> &list : getIndices(type, at))
    shape.push_back(list.size());
  return shape;
}

Shape FieldContext::getWholeShape(Type type) const {
  Shape shape;
  for (const Layout &dim : getRelation(type).dims) {
    int64_t size = 1;
    for (const Layout::Atom &atom : dim.atoms)
      size *= sizes.evaluate(atom.size);
    shape.push_back(size);
  }
  return shape;
}

void Machine::makeRanks(int64_t count) {
  for (int64_t rank = 0; rank < count; ++rank) {
    Coordinates at;
    int64_t rest = rank;
    for (auto [axis, size] : llvm::zip(context.grid.getOrder(), context.grid.getSizes())) {
      at[axis.getValue().str()] = rest % size;
      rest /= size;
    }
    ranks.push_back(at);
  }
}

std::string Machine::describe(int rank) const {
  std::string text;
  for (auto &[axis, c] : ranks[rank])
    if (context.grid.getAxisSize(axis) > 1)
      text += (text.empty() ? "" : ", ") + axis + "=" + std::to_string(c);
  return text.empty() ? "the only rank" : "the rank at " + text;
}

/// The part `to` of a tensor that has the indices `from`.
FailureOr<Tensor> Machine::extract(Operation *op, const Tensor &tensor, const Indices &from,
                                   const Indices &to, int rank) {
  Shape shape, own;
  SmallVector<std::map<int64_t, int64_t>, 4> places(from.size());
  for (unsigned d = 0; d < from.size(); ++d) {
    shape.push_back(to[d].size());
    own.push_back(from[d].size());
    for (auto [i, index] : llvm::enumerate(from[d]))
      places[d][index] = i;
    for (int64_t index : to[d])
      if (!places[d].count(index))
        return fail(op) << describe(rank) << " lacks element " << index << " of dimension " << d;
  }
  if (tensor.shape != own)
    return fail(op) << describe(rank) << " has another shape than its type says";
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t at = 0;
    for (unsigned d = 0; d < index.size(); ++d)
      at = at * own[d] + places[d][to[d][index[d]]];
    out.data[next++] = tensor.data[at];
  });
  return out;
}

FailureOr<Tensor> Machine::communicate(Operation *op, const std::vector<Tensor> &operand, int rank,
                                       ArrayRef<int> active) {
  Type in = op->getOperand(0).getType(), out = op->getResult(0).getType();
  Indices to = context.getIndices(out, ranks[rank]);
  if (isa<LocalSliceOp>(op))
    return extract(op, operand[rank], context.getIndices(in, ranks[rank]), to, rank);

  SmallVector<int> group;
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  for (int other = 0; other < int(ranks.size()); ++other) {
    bool member = true;
    for (StringAttr axis : context.grid.getOrder())
      if (!llvm::is_contained(axes, axis))
        member &= ranks[other].at(axis.getValue().str()) == ranks[rank].at(axis.getValue().str());
    if (!member)
      continue;
    if (!llvm::is_contained(active, other))
      return fail(op) << describe(rank) << " would wait for " << describe(other)
                      << ", which does not take part";
    group.push_back(other);
  }
  if (isa<AllReduceOp, ReduceScatterOp>(op)) {
    ReductionKind kind = context.getRelation(in).kind;
    Tensor sum = operand[group.front()];
    for (int other : ArrayRef(group).drop_front()) {
      if (operand[other].shape != sum.shape)
        return fail(op) << describe(other) << " and " << describe(rank)
                        << " add values of different shapes";
      for (auto [x, y] : llvm::zip(sum.data, operand[other].data))
        x = kind == ReductionKind::Sum   ? addMod(x, y)
            : kind == ReductionKind::Max ? (toInteger(x) < toInteger(y) ? y : x)
                                         : (toInteger(y) < toInteger(x) ? y : x);
    }
    return extract(op, sum, context.getIndices(in, ranks[rank]), to, rank);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    if (broadcast.getRoot() >= group.size())
      return fail(op) << "its root " << broadcast.getRoot() << " is in no group of "
                      << group.size();
    return operand[group[broadcast.getRoot()]];
  }

  Whole whole(context.getWholeShape(in));
  for (int other : group) {
    Indices from = context.getIndices(in, ranks[other]);
    size_t next = 0;
    forEachIndex(operand[other].shape, [&](ArrayRef<int64_t> index) {
      int64_t at = 0;
      for (auto [d, i] : llvm::enumerate(index))
        at = at * whole.tensor.shape[d] + from[d][i];
      whole.tensor.data[at] = operand[other].data[next++];
      whole.known[at] = true;
    });
  }
  Shape shape;
  for (const std::vector<int64_t> &list : to)
    shape.push_back(list.size());
  Tensor result(shape);
  size_t next = 0;
  bool missing = false;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t at = 0;
    for (auto [d, i] : llvm::enumerate(index))
      at = at * whole.tensor.shape[d] + to[d][i];
    missing |= !whole.known[at];
    result.data[next++] = whole.tensor.data[at];
  });
  if (missing)
    return fail(op) << "no rank has what " << describe(rank) << " needs";
  return result;
}

LogicalResult Machine::runOp(Operation *op, Values &values, ArrayRef<int> active) {
  for (Value operand : op->getOperands())
    if (!values.contains(operand))
      return fail(op) << "it takes a value that is not computed before";
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal() || depth > 64)
      return fail(op) << "@" << call.getCallee() << " cannot be called";
    Values inner;
    for (auto [argument, operand] : llvm::zip(callee.getArguments(), call.getOperands()))
      inner[argument] = values[operand];
    SmallVector<Value> returned;
    ++depth;
    if (failed(runBlock(callee.front(), inner, active, &returned)))
      return failure();
    --depth;
    for (auto [result, value] : llvm::zip(call.getResults(), returned))
      values[result] = inner[value];
    return success();
  }
  if (auto send = dyn_cast<SendOp>(op)) {
    for (int rank : active) {
      Coordinates to = ranks[rank];
      to["pp"] = send.getTo();
      for (int other = 0; other < int(ranks.size()); ++other)
        if (llvm::all_of(context.grid.getOrder(), [&](StringAttr axis) {
              return ranks[other].at(axis.getValue().str()) == to.at(axis.getValue().str());
            }))
          messages[{other, ranks[rank].at("pp")}].push_back(values[send.getValue()][rank]);
    }
    return success();
  }
  if (auto output = dyn_cast<OutputOp>(op)) {
    for (int rank : active)
      if (failed(deliver(op, output.getIndex(), output.getValue(), values[output.getValue()][rank],
                         rank)))
        return failure();
    return success();
  }
  if (op->getNumResults() != 1 || op->getNumRegions() > 0 ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return fail(op) << "the verifier does not know what it computes";

  std::vector<Tensor> results(ranks.size());
  for (int rank : active) {
    if (auto recv = dyn_cast<RecvOp>(op)) {
      auto &queue = messages[{rank, int64_t(recv.getFrom())}];
      if (queue.empty())
        return fail(op) << describe(rank) << " waits for a message that nobody sent";
      results[rank] = std::move(queue.front());
      queue.pop_front();
    } else if (isa<LocalSliceOp, AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp,
                   BroadcastOp>(op)) {
      FailureOr<Tensor> moved = communicate(op, values[op->getOperand(0)], rank, active);
      if (failed(moved))
        return failure();
      results[rank] = std::move(*moved);
    } else {
      SmallVector<const Tensor *> operands;
      for (Value operand : op->getOperands())
        operands.push_back(&values[operand][rank]);
      auto computed = evaluateInField(op, operands, context, ranks[rank]);
      if (failed(computed))
        return failure();
      results[rank] = std::move(*computed);
    }
    if (results[rank].shape != context.getShape(op->getResult(0).getType(), ranks[rank]))
      return fail(op) << describe(rank) << " computes another shape than its type "
                      << op->getResult(0).getType() << " says";
  }
  values[op->getResult(0)] = std::move(results);
  return success();
}

LogicalResult Machine::runBlock(Block &block, Values &values, ArrayRef<int> active,
                                SmallVectorImpl<Value> *returned) {
  for (Operation &op : block) {
    if (isa<func::ReturnOp>(op)) {
      for (Value operand : op.getOperands())
        if (!values.contains(operand))
          return fail(&op) << "it takes a value that is not computed before";
      returned->assign(op.operand_begin(), op.operand_end());
      return success();
    }
    if (failed(runOp(&op, values, active)))
      return failure();
  }
  return success();
}

/// Puts a part of an output in its place; ranks that have the same part must agree on it.
LogicalResult Machine::deliver(Operation *op, unsigned index, Value value, const Tensor &tensor,
                               int rank) {
  Indices places = context.getIndices(value.getType(), ranks[rank]);
  if (index >= outputs.size() || outputs[index].tensor.shape.size() != places.size())
    return fail(op) << "there is no output " << index << " of this shape";
  Whole &output = outputs[index];
  delivered[index] = op;
  std::string wrong;
  size_t next = 0;
  forEachIndex(tensor.shape, [&](ArrayRef<int64_t> position) {
    int64_t at = 0;
    std::string coordinates;
    bool outside = false;
    for (auto [d, i] : llvm::enumerate(position)) {
      outside |= places[d][i] >= output.tensor.shape[d];
      at = at * output.tensor.shape[d] + places[d][i];
      coordinates += (coordinates.empty() ? "" : ", ") + std::to_string(places[d][i]);
    }
    Element x = tensor.data[next++];
    if (wrong.empty() && (outside || (output.known[at] && output.tensor.data[at] != x)))
      wrong = coordinates;
    if (outside)
      return;
    output.tensor.data[at] = x;
    output.known[at] = true;
  });
  if (!wrong.empty())
    return fail(op) << describe(rank) << " has another element [" << wrong << "] of output "
                    << index << " than a rank before it";
  return success();
}

LogicalResult Machine::runPipeline(PipelineOp pipeline) {
  makeRanks(context.grid.getWorldSize());
  for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>())
    outputs.emplace_back(context.getWholeShape(output.getAs<TypeAttr>("type").getValue()));
  delivered.assign(outputs.size(), pipeline);
  auto evaluate = [&](const ::tpc::SymExpr &size) { return context.sizes.evaluate(size); };
  for (auto stage : pipeline.getBody().front().getOps<StageOp>())
    for (auto loop : stage.getBody().front().getOps<MicroBatchesOp>()) {
      Layout batch;
      if (DimAttr dim = loop.getBatchAttr()) {
        for (FactorAttr factor : dim.getFactors())
          batch.atoms.push_back({factor.getExpr(), Axes(factor.getAxes())});
        batch.product.assign(dim.getAxes().begin(), dim.getAxes().end());
      }
      int64_t rounds = loop.getBatchAttr() ? context.grid.getMicroBatches() : 1;
      for (int64_t mb = 0; mb < rounds; ++mb) {
        SmallVector<int> active;
        for (int rank = 0; rank < int(ranks.size()); ++rank) {
          ranks[rank]["mb"] = mb;
          bool empty =
              loop.getBatchAttr() && batch.getIndices(context.grid, ranks[rank], evaluate).empty();
          auto pp = ranks[rank].find("pp");
          if ((pp == ranks[rank].end() ? 0 : pp->second) == int64_t(stage.getIndex()) && !empty)
            active.push_back(rank);
        }
        Values values;
        for (auto [argument, input] : llvm::zip(pipeline.getBody().front().getArguments(), inputs))
          values[argument].assign(ranks.size(), input);
        if (failed(runBlock(loop.getBody().front(), values, active, nullptr)))
          return failure();
      }
    }
  for (auto &[key, queue] : messages)
    if (!queue.empty())
      return fail(pipeline) << "a message from stage " << key.second << " to "
                            << describe(key.first) << " is never received";
  return success();
}

LogicalResult Machine::runMain(func::FuncOp main) {
  makeRanks(context.local ? context.grid.getWorldSize() : 1);
  for (Type type : main.getResultTypes())
    outputs.emplace_back(context.getWholeShape(type));
  delivered.assign(outputs.size(), main);
  SmallVector<int> active(llvm::to_vector(llvm::seq<int>(0, ranks.size())));
  for (int64_t mb = 0; mb < (context.local ? context.grid.getMicroBatches() : 1); ++mb) {
    Values values;
    for (Coordinates &at : ranks)
      at["mb"] = mb;
    for (auto [argument, input] : llvm::zip(main.getArguments(), inputs))
      values[argument].assign(ranks.size(), input);
    SmallVector<Value> returned;
    if (failed(runBlock(main.front(), values, active, &returned)))
      return failure();
    for (auto [i, value] : llvm::enumerate(returned))
      for (int rank : active)
        if (failed(deliver(value.getDefiningOp() ? value.getDefiningOp() : main, i, value,
                           values[value][rank], rank)))
          return failure();
  }
  return success();
}

LogicalResult Machine::run() {
  for (auto pipeline : module.getOps<PipelineOp>())
    return runPipeline(pipeline);
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(module.getLoc()) << "there is no @main to run";
  return runMain(main);
}
