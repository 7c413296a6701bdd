//===- Evaluate.cpp - Runs a program on paper, on all ranks ---------------===//

#include "tpc/Analysis/Passes.h"

#include "Evaluator.h"

#include <cmath>
#include <deque>

namespace mlir::tpc {
#define GEN_PASS_DEF_EVALUATE
#include "tpc/Analysis/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::evaluator;

//===----------------------------------------------------------------------===//
// Which part of a value a rank has
//===----------------------------------------------------------------------===//

int64_t Environment::evaluate(StringRef text) const {
  auto e = ::tpc::SymExpr::parse(std::string_view(text.data(), text.size()));
  return e ? evaluate(*e) : 0;
}

Indices Environment::getIndices(Type type, const Coordinates &at) const {
  DistAttr dist = getDist(type);
  // The balanced split of a list, over one axis after the other.
  auto split = [&](std::vector<int64_t> list, ArrayRef<StringAttr> axes) {
    for (StringAttr axis : axes) {
      auto it = at.find(axis.getValue().str());
      int64_t parts = grid.getAxisSize(axis.getValue()), c = it == at.end() ? 0 : it->second;
      int64_t n = list.size(), begin = 0;
      for (int64_t before = 0; before < c; ++before)
        begin += n / parts + (before < n % parts);
      int64_t size = n / parts + (c < n % parts);
      list = std::vector<int64_t>(list.begin() + begin, list.begin() + begin + size);
    }
    return list;
  };
  Indices indices;
  for (DimAttr dim : dist.getDims()) {
    std::vector<int64_t> list = {0};
    for (FactorAttr factor : dim.getFactors()) {
      int64_t size = evaluate(factor.getExpr());
      std::vector<int64_t> own(size);
      std::iota(own.begin(), own.end(), 0);
      if (dist.getLocal())
        own = split(own, factor.getAxes());
      std::vector<int64_t> next;
      for (int64_t major : list)
        for (int64_t minor : own)
          next.push_back(major * size + minor);
      list = next;
    }
    indices.push_back(dist.getLocal() ? split(list, dim.getAxes()) : list);
  }
  return indices;
}

Shape Environment::getShape(Type type, const Coordinates &at) const {
  Shape shape;
  for (const auto &list : getIndices(type, at))
    shape.push_back(list.size());
  return shape;
}

Shape Environment::getGlobalShape(Type type) const {
  Shape shape;
  for (const ::tpc::SymExpr &size : getSizes(type))
    shape.push_back(evaluate(size));
  return shape;
}

Tensor evaluator::extract(const Tensor &tensor, const Indices &from, const Indices &to) {
  Shape shape;
  std::vector<std::map<int64_t, int64_t>> places(from.size());
  for (unsigned d = 0; d < from.size(); ++d) {
    shape.push_back(to[d].size());
    for (auto [i, index] : llvm::enumerate(from[d]))
      places[d][index] = i;
  }
  Tensor out(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    int64_t at = 0;
    bool has = true;
    for (unsigned d = 0; d < index.size(); ++d) {
      auto it = places[d].find(to[d][index[d]]);
      has &= it != places[d].end();
      at = at * from[d].size() + (has ? it->second : 0);
    }
    out.data[next++] = has ? tensor.data[at] : NAN;
  });
  return out;
}

namespace {

//===----------------------------------------------------------------------===//
// The machine
//===----------------------------------------------------------------------===//

class Machine {
public:
  Machine(ModuleOp module, const Symbols &symbols, ArrayRef<Tensor> inputs)
      : env{module, GridAttr::lookup(module), symbols}, inputs(inputs) {
    if (!env.grid)
      env.grid = GridAttr::get(module.getContext(), {}, {}, 1);
  }
  LogicalResult run();
  std::vector<Tensor> outputs;

private:
  using Values = DenseMap<Value, std::vector<Tensor>>; // by rank

  void makeRanks(int64_t count);
  LogicalResult runBlock(Block &block, Values &values, ArrayRef<int> active,
                         SmallVectorImpl<Value> *returned);
  LogicalResult runOp(Operation *op, Values &values, ArrayRef<int> active);
  LogicalResult runCall(func::CallOp call, Values &values, ArrayRef<int> active);
  FailureOr<Tensor> communicate(Operation *op, const std::vector<Tensor> &operand, int rank,
                                ArrayRef<int> active);
  LogicalResult runPipeline(PipelineOp pipeline);
  LogicalResult runMain(func::FuncOp main);
  void makeOutputs(TypeRange types);
  LogicalResult deliver(Operation *op, unsigned index, Type type, const Tensor &value, int rank);
  LogicalResult checkComplete(Operation *op);

  Environment env;
  ArrayRef<Tensor> inputs;
  std::vector<Coordinates> ranks;
  std::map<std::pair<int, int64_t>, std::deque<Tensor>> messages; // to rank, from stage
};

void Machine::makeRanks(int64_t count) {
  for (int64_t rank = 0; rank < count; ++rank) {
    Coordinates at;
    int64_t rest = rank;
    for (auto [axis, size] : llvm::zip(env.grid.getOrder(), env.grid.getSizes())) {
      at[axis.getValue().str()] = rest % size;
      rest /= size;
    }
    ranks.push_back(at);
  }
}

FailureOr<Tensor> Machine::communicate(Operation *op, const std::vector<Tensor> &operand, int rank,
                                       ArrayRef<int> active) {
  Type in = op->getOperand(0).getType(), out = op->getResult(0).getType();
  Indices to = env.getIndices(out, ranks[rank]);
  if (isa<LocalSliceOp>(op))
    return extract(operand[rank], env.getIndices(in, ranks[rank]), to);

  SmallVector<int> group;
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  for (int other = 0; other < int(ranks.size()); ++other) {
    bool member = true;
    for (StringAttr axis : env.grid.getOrder())
      if (!llvm::is_contained(axes, axis))
        member &= ranks[other].at(axis.getValue().str()) == ranks[rank].at(axis.getValue().str());
    if (!member)
      continue;
    if (!llvm::is_contained(active, other))
      return op->emitError() << "rank " << rank << " would wait for rank " << other
                             << ", which does not take part";
    group.push_back(other);
  }

  if (isa<AllReduceOp, ReduceScatterOp>(op)) {
    ReductionKind kind = getDist(in).getPartial().getKind();
    Tensor sum = operand[group.front()];
    for (int other : ArrayRef(group).drop_front())
      for (auto [x, y] : llvm::zip_equal(sum.data, operand[other].data))
        x = kind == ReductionKind::Sum   ? x + y
            : kind == ReductionKind::Max ? std::max(x, y)
                                         : std::min(x, y);
    return extract(sum, env.getIndices(in, ranks[rank]), to);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return operand[group[broadcast.getRoot()]];

  // All parts in their places; what nobody has stays NaN.
  Tensor whole(env.getGlobalShape(in), NAN);
  for (int other : group) {
    Indices from = env.getIndices(in, ranks[other]);
    size_t next = 0;
    forEachIndex(operand[other].shape, [&](ArrayRef<int64_t> index) {
      Shape at;
      for (auto [d, i] : llvm::enumerate(index))
        at.push_back(from[d][i]);
      whole.data[linearize(at, whole.shape)] = operand[other].data[next++];
    });
  }
  Indices all;
  for (int64_t size : whole.shape) {
    all.emplace_back(size);
    std::iota(all.back().begin(), all.back().end(), 0);
  }
  return extract(whole, all, to);
}

LogicalResult Machine::runCall(func::CallOp call, Values &values, ArrayRef<int> active) {
  auto callee = env.module.lookupSymbol<func::FuncOp>(call.getCallee());
  Values inner;
  for (auto [argument, operand] : llvm::zip(callee.getArguments(), call.getOperands()))
    inner[argument] = values[operand];
  SmallVector<Value> returned;
  if (failed(runBlock(callee.front(), inner, active, &returned)))
    return failure();
  for (auto [result, value] : llvm::zip(call.getResults(), returned))
    values[result] = inner[value];
  return success();
}

LogicalResult Machine::runOp(Operation *op, Values &values, ArrayRef<int> active) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return runCall(call, values, active);
  if (auto send = dyn_cast<SendOp>(op)) {
    for (int rank : active) {
      Coordinates to = ranks[rank];
      to["pp"] = send.getTo();
      for (int other = 0; other < int(ranks.size()); ++other)
        if (llvm::all_of(env.grid.getOrder(), [&](StringAttr axis) {
              return ranks[other].at(axis.getValue().str()) == to.at(axis.getValue().str());
            }))
          messages[{other, ranks[rank].at("pp")}].push_back(values[send.getValue()][rank]);
    }
    return success();
  }
  if (auto output = dyn_cast<OutputOp>(op)) {
    for (int rank : active)
      if (failed(deliver(op, output.getIndex(), output.getValue().getType(),
                         values[output.getValue()][rank], rank)))
        return failure();
    return success();
  }

  std::vector<std::vector<Tensor>> results(op->getNumResults(), std::vector<Tensor>(ranks.size()));
  for (int rank : active) {
    if (auto recv = dyn_cast<RecvOp>(op)) {
      auto &queue = messages[{rank, int64_t(recv.getFrom())}];
      if (queue.empty())
        return op->emitError() << "rank " << rank << " waits for a message that nobody sent";
      results[0][rank] = queue.front();
      queue.pop_front();
    } else if (isa<LocalSliceOp, AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp,
                   BroadcastOp>(op)) {
      FailureOr<Tensor> moved = communicate(op, values[op->getOperand(0)], rank, active);
      if (failed(moved))
        return failure();
      results[0][rank] = *moved;
    } else {
      SmallVector<const Tensor *> operands;
      for (Value operand : op->getOperands())
        operands.push_back(&values.find(operand)->second[rank]);
      auto computed = evaluateOp(op, operands, env, ranks[rank]);
      if (failed(computed))
        return failure();
      for (auto [i, tensor] : llvm::enumerate(*computed))
        results[i][rank] = tensor;
    }
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (results[i][rank].shape != env.getShape(result.getType(), ranks[rank]))
        return op->emitError() << "rank " << rank << " computed another shape than "
                               << result.getType();
  }
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    values[result] = std::move(results[i]);
  return success();
}

LogicalResult Machine::runBlock(Block &block, Values &values, ArrayRef<int> active,
                                SmallVectorImpl<Value> *returned) {
  for (Operation &op : block) {
    if (isa<func::ReturnOp>(op)) {
      returned->assign(op.operand_begin(), op.operand_end());
      return success();
    }
    if (failed(runOp(&op, values, active)))
      return failure();
  }
  return success();
}

void Machine::makeOutputs(TypeRange types) {
  for (Type type : types)
    outputs.emplace_back(env.getGlobalShape(type), NAN);
}

/// Puts a part of an output in its place; parts that overlap must agree.
LogicalResult Machine::deliver(Operation *op, unsigned index, Type type, const Tensor &value,
                               int rank) {
  Indices places = env.getIndices(type, ranks[rank]);
  Tensor &output = outputs[index];
  bool agrees = true;
  size_t next = 0;
  forEachIndex(value.shape, [&](ArrayRef<int64_t> position) {
    Shape at;
    for (auto [d, i] : llvm::enumerate(position))
      at.push_back(places[d][i]);
    double &old = output.data[linearize(at, output.shape)];
    double x = value.data[next++];
    agrees &= std::isnan(old) || std::fabs(old - x) <= 1e-9 * std::max(1.0, std::fabs(x));
    old = x;
  });
  if (!agrees)
    return op->emitError() << "rank " << rank << " has other values of output " << index
                           << " than a rank before it";
  return success();
}

LogicalResult Machine::checkComplete(Operation *op) {
  for (auto &[key, queue] : messages)
    if (!queue.empty())
      return op->emitError() << "a message from stage " << key.second << " to rank " << key.first
                             << " is never received";
  return success();
}

LogicalResult Machine::runPipeline(PipelineOp pipeline) {
  makeRanks(env.grid.getWorldSize());
  SmallVector<Type> types;
  for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>())
    types.push_back(output.getAs<TypeAttr>("type").getValue());
  makeOutputs(types);
  for (auto stage : pipeline.getBody().front().getOps<StageOp>())
    for (auto loop : stage.getBody().front().getOps<MicroBatchesOp>()) {
      DimAttr batch = loop.getBatchAttr();
      for (int64_t mb = 0; mb < (batch ? env.grid.getMicroBatches() : 1); ++mb) {
        SmallVector<int> active;
        for (int rank = 0; rank < int(ranks.size()); ++rank) {
          ranks[rank]["mb"] = mb;
          bool empty = batch && batch.getLocalSize(env.grid, ranks[rank], env.symbols) == 0;
          if (ranks[rank].at("pp") == int64_t(stage.getIndex()) && !empty)
            active.push_back(rank);
        }
        Values values;
        for (auto [argument, input] : llvm::zip(pipeline.getBody().front().getArguments(), inputs))
          values[argument].assign(ranks.size(), input);
        if (failed(runBlock(loop.getBody().front(), values, active, nullptr)))
          return failure();
      }
    }
  return checkComplete(pipeline);
}

LogicalResult Machine::runMain(func::FuncOp main) {
  bool local = false;
  main.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      local |= isa<RankedTensorType>(type) && getDist(type).getLocal();
  });
  for (Type type : main.getArgumentTypes())
    local |= getDist(type).getLocal();
  makeRanks(local ? env.grid.getWorldSize() : 1);
  makeOutputs(main.getResultTypes());
  SmallVector<int> active(llvm::to_vector(llvm::seq<int>(0, ranks.size())));
  for (int64_t mb = 0; mb < (local ? env.grid.getMicroBatches() : 1); ++mb) {
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
        if (failed(deliver(main, i, value.getType(), values[value][rank], rank)))
          return failure();
  }
  return success();
}

LogicalResult Machine::run() {
  for (auto pipeline : env.module.getOps<PipelineOp>())
    return runPipeline(pipeline);
  auto main = env.module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(env.module.getLoc()) << "there is no function @main to evaluate";
  return runMain(main);
}

//===----------------------------------------------------------------------===//
// Inputs and comparison
//===----------------------------------------------------------------------===//

/// Rows of the smallest table that `value` indexes, through ops that keep ids.
int64_t getIdBound(Value value) {
  int64_t bound = INT64_MAX;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<EmbeddingOp>(user) && use.getOperandNumber() == 1)
      bound = std::min(bound, getSizes(user->getOperand(0))[0].asConstant().value_or(INT64_MAX));
    else if (isa<ReshapeOp, CastOp, TransposeOp, ReshardOp, LocalSliceOp>(user))
      bound = std::min(bound, getIdBound(user->getResult(0)));
  }
  return bound;
}

/// Ids inside of their table (some negative), left-padded masks, positions, numbers in [-1, 1).
Tensor makeInput(BlockArgument argument, DictionaryAttr attrs, const Environment &env) {
  Tensor tensor(env.getGlobalShape(argument.getType()));
  Type element = cast<RankedTensorType>(argument.getType()).getElementType();
  StringRef kind;
  if (auto text = attrs ? attrs.getAs<StringAttr>(TpcDialect::kDefaultAttr) : StringAttr())
    kind = text.getValue();
  int64_t last = tensor.shape.empty() ? 1 : tensor.shape.back();
  int64_t bound = getIdBound(argument);
  bound = bound == INT64_MAX ? 16 : bound;
  std::string name = "input " + std::to_string(argument.getArgNumber());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double x = getWeightElement(name, i, 2, 3);
    x = std::fmod(std::fabs(x) * 1000, 1.0); // [0, 1)
    int64_t row = i / last, column = i % last;
    if (kind == "ones")
      tensor.data[i] = column >= row % last;
    else if (kind == "positions")
      tensor.data[i] = double(column);
    else if (element.isInteger(1))
      tensor.data[i] = x < 0.7;
    else if (isa<IntegerType>(element))
      tensor.data[i] = std::floor(x * double(bound)) - (i % 5 == 4 ? double(bound) : 0);
    else
      tensor.data[i] = 2 * x - 1;
  }
  return tensor;
}

Attribute toAttribute(ArrayRef<Tensor> tensors, MLIRContext *context) {
  SmallVector<Attribute> list;
  for (const Tensor &tensor : tensors)
    list.push_back(DenseElementsAttr::get(
        RankedTensorType::get(tensor.shape, Float64Type::get(context)), ArrayRef(tensor.data)));
  return ArrayAttr::get(context, list);
}

std::vector<Tensor> fromAttribute(ArrayAttr list) {
  std::vector<Tensor> tensors;
  for (auto dense : list.getAsRange<DenseElementsAttr>()) {
    Tensor tensor(dense.getType().getShape());
    if (tensor.size() > 0)
      llvm::copy(dense.getValues<double>(), tensor.data.begin());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

struct Evaluate : public mlir::tpc::impl::EvaluateBase<Evaluate> {
  using EvaluateBase::EvaluateBase;

  LogicalResult compare(ArrayRef<Tensor> expected, ArrayRef<Tensor> actual) {
    Location loc = getOperation().getLoc();
    if (expected.size() != actual.size())
      return emitError(loc) << "there were " << expected.size() << " outputs, now there are "
                            << actual.size();
    for (auto [i, pair] : llvm::enumerate(llvm::zip(expected, actual))) {
      auto &[a, b] = pair;
      double largest = 0, difference = 0;
      bool complete = a.shape == b.shape;
      for (auto [x, y] : llvm::zip(a.data, b.data)) {
        complete &= std::isnan(x) == std::isnan(y);
        if (std::isnan(x) || x == y)
          continue;
        largest = std::max(largest, std::fabs(x));
        difference = std::max(difference, std::fabs(x - y));
      }
      if (!complete)
        return emitError(loc) << "output " << i << " is not the same: parts are missing";
      if (!(difference <= tolerance * std::max(largest, 1e-30)))
        return emitError(loc) << "output " << i << " is not the same: of values up to " << largest
                              << " some differ by " << difference;
      llvm::outs() << "output " << i << " is the same\n";
    }
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    MLIRContext *context = &getContext();
    Symbols symbols;
    for (const std::string &item : shape) {
      auto [name, size] = StringRef(item).split('=');
      if (name.empty() || size.getAsInteger(10, symbols[name.str()])) {
        emitError(module.getLoc()) << "shape: '" << item << "' is not name=size";
        return signalPassFailure();
      }
    }
    auto expected = module->getAttrOfType<ArrayAttr>("tpc.expected");
    std::vector<Tensor> inputs;
    if (expected) {
      inputs = fromAttribute(module->getAttrOfType<ArrayAttr>("tpc.inputs"));
    } else if (auto main = module.lookupSymbol<func::FuncOp>("main")) {
      Environment env{module, GridAttr::lookup(module), symbols};
      for (BlockArgument argument : main.getArguments())
        inputs.push_back(makeInput(argument, main.getArgAttrDict(argument.getArgNumber()), env));
    }
    Machine machine(module, symbols, inputs);
    if (failed(machine.run()))
      return signalPassFailure();
    if (!expected) {
      module->setAttr("tpc.inputs", toAttribute(inputs, context));
      module->setAttr("tpc.expected", toAttribute(machine.outputs, context));
    } else if (failed(compare(fromAttribute(expected), machine.outputs))) {
      return signalPassFailure();
    }
  }
};

} // namespace
