//===- CompareRuns.cpp - Two programs over a prime field, compared --------===//

#include "FieldMachine.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {

/// Rows of the smallest table that `value` indexes, through ops that keep ids.
int64_t getIdBound(Value value, const FieldContext &context) {
  int64_t bound = INT64_MAX;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<EmbeddingOp>(user) && use.getOperandNumber() == 1)
      bound = std::min(bound, context.getWholeShape(user->getOperand(0).getType())[0]);
    else if (auto gather = dyn_cast<GatherNDOp>(user); gather && use.getOperandNumber() == 1)
      bound =
          std::min(bound, context.getWholeShape(gather.getData().getType())[gather.getBatchDims()]);
    else if (isa<ReshapeOp, CastOp, TransposeOp>(user))
      bound = std::min(bound, getIdBound(user->getResult(0), context));
  }
  return bound;
}

/// Ids of rows, the last ones negative; masks with rows that hide everything; positions; anything.
Tensor makeInput(BlockArgument argument, DictionaryAttr attrs, const FieldContext &context) {
  Tensor tensor(context.getWholeShape(argument.getType()));
  Type element = cast<RankedTensorType>(argument.getType()).getElementType();
  StringRef kind;
  if (auto text = attrs ? attrs.getAs<StringAttr>(TpcDialect::kDefaultAttr) : StringAttr())
    kind = text.getValue();
  int64_t last = tensor.shape.empty() ? 1 : std::max<int64_t>(1, tensor.shape.back());
  int64_t bound = getIdBound(argument, context);
  bound = bound == INT64_MAX || bound == 0 ? 7 : bound;
  uint64_t key = hashText("input") + argument.getArgNumber();
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    Element x = hash(key, i);
    int64_t row = i / last, column = i % last;
    if (kind == "ones")
      tensor.data[i] = row % 3 == 2 ? 0 : column >= row % last;
    else if (kind == "positions")
      tensor.data[i] = column;
    else if (element.isInteger(1))
      tensor.data[i] = x % 4 != 0;
    else if (isa<IntegerType>(element))
      tensor.data[i] = fromInteger(int64_t(x % (2 * bound)) - bound);
    else
      tensor.data[i] = x;
  }
  return tensor;
}

} // namespace

/// The program's grid with few replicas and micro-batches, as ranks along those axes do the same,
/// and at most `largest` ranks along the others; stages are as many as there are.
static GridAttr makeSampleGrid(ModuleOp program, int64_t largest) {
  MLIRContext *context = program.getContext();
  GridAttr grid = GridAttr::lookup(program);
  // Before there are stages, ranks do the same along pp as well.
  bool staged = !program.getOps<PipelineOp>().empty();
  if (!grid)
    return GridAttr::get(context, {}, {}, 1);
  SmallVector<int64_t> sizes;
  for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes()))
    sizes.push_back(axis.getValue() == "pp"   ? (staged ? size : 1)
                    : axis.getValue() == "dp" ? std::min<int64_t>(size, 2)
                                              : std::min(size, largest));
  return GridAttr::get(context, grid.getOrder(), sizes,
                       std::min<int64_t>(grid.getMicroBatches(), 2));
}

/// Multiplications that a function takes on all ranks which run it, about.
static double estimate(func::FuncOp function, const FieldContext &context, double ranks,
                       DenseMap<Operation *, double> &known) {
  auto [it, first] = known.try_emplace(function, 0);
  if (!first || function.isExternal())
    return it->second;
  double sum = 0;
  // Of the fullest rank. Sizes may still be too large for lists of indices.
  auto countDim = [&](const Layout &dim) {
    double elements = 1;
    auto split = [&](ArrayRef<StringAttr> axes) {
      for (StringAttr axis : axes)
        elements = context.local ? std::ceil(elements / context.grid.getAxisSize(axis.getValue()))
                                 : elements;
    };
    for (const Layout::Atom &atom : dim.atoms) {
      elements *= double(context.sizes.evaluate(atom.size));
      split(atom.axes);
    }
    split(dim.product);
    return elements;
  };
  auto count = [&](Value value) {
    double elements = 1;
    for (const Layout &dim : context.getRelation(value.getType()).dims)
      elements *= countDim(dim);
    return elements;
  };
  function.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = ModuleOp(context.module).lookupSymbol<func::FuncOp>(call.getCallee());
      sum += callee ? estimate(callee, context, ranks, known) : 0;
      return;
    }
    double each = ranks * 4;
    if (auto matmul = dyn_cast<MatmulOp>(op))
      each = ranks * countDim(context.getRelation(matmul.getLhs().getType()).dims.back());
    else if (auto attention = dyn_cast<AttentionOp>(op))
      each = ranks * 2 * countDim(context.getRelation(attention.getK().getType()).dims[1]);
    for (Value result : op->getResults())
      if (isa<RankedTensorType>(result.getType()))
        sum += each * count(result);
  });
  return known[function] = sum;
}

static double estimate(const FieldContext &context) {
  DenseMap<Operation *, double> known;
  double ranks = 1, sum = 0;
  if (context.local)
    for (auto [axis, size] : llvm::zip(context.grid.getOrder(), context.grid.getSizes()))
      ranks *= axis.getValue() == "pp" ? 1 : double(size);
  // Stages are called once each; layers count where they are called.
  for (auto function : ModuleOp(context.module).getOps<func::FuncOp>())
    if (!function->hasAttr(TpcDialect::kLayerAttr))
      sum += estimate(function, context, ranks, known);
  return sum;
}

LogicalResult equivalence::comparePrograms(ModuleOp model, ModuleOp program) {
  // About a second. A grid of fewer ranks allows for smaller sizes.
  constexpr double budget = 2e8;
  bool local = false;
  program.walk([&](Operation *op) {
    local |= isa<PipelineOp>(op);
    for (Type type : op->getResultTypes())
      local |= isa<RankedTensorType>(type) && getDist(type).getLocal();
  });
  auto main = model.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(model.getLoc()) << "there is no @main to compare with";
  GridAttr grid;
  std::optional<SizeReduction> reduction;
  constexpr std::pair<int64_t, int64_t> attempts[] = {{64, 3}, {64, 2}, {3, 2}, {2, 2}, {2, 1}};
  for (auto [largest, base] : attempts) {
    grid = makeSampleGrid(program, largest);
    reduction.emplace(model, program, GridAttr::lookup(program), grid, base);
    double cost = estimate(FieldContext(model, grid, *reduction, false)) +
                  estimate(FieldContext(program, grid, *reduction, local));
    if (cost <= budget)
      break;
    if (base == 1)
      return success(); // sizes that cannot be made small
  }
  SizeReduction &sizes = *reduction;
  FieldContext whole(model, grid, sizes, false), parts(program, grid, sizes, local);
  // Not all sizes are possible: a table may be shorter, one size the sum of others. The model says.
  std::vector<Tensor> inputs;
  std::optional<Machine> expected;
  for (int sample = 0; sample < SizeReduction::samples && !expected; ++sample) {
    sizes.setSample(sample);
    inputs.clear();
    for (BlockArgument argument : main.getArguments())
      inputs.push_back(makeInput(argument, main.getArgAttrDict(argument.getArgNumber()), whole));
    expected.emplace(model, whole, inputs);
    ScopedDiagnosticHandler quiet(model.getContext(), [](Diagnostic &) { return success(); });
    if (failed(expected->run()))
      expected.reset();
  }
  if (!expected)
    return success(); // nothing to compare with
  Machine actual(program, parts, inputs);
  if (failed(actual.run()))
    return failure();
  if (expected->outputs.size() != actual.outputs.size())
    return emitError(program.getLoc()) << "the program has " << actual.outputs.size()
                                       << " outputs, the model " << expected->outputs.size();
  for (auto [i, a, b] : llvm::enumerate(actual.outputs, expected->outputs)) {
    auto fail = [&]() {
      Operation *op = actual.delivered[i];
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << "): run at small sizes, ";
    };
    if (a.tensor.shape != b.tensor.shape)
      return fail() << "output " << i << " has another shape than the model's";
    LogicalResult result = success();
    size_t next = 0;
    forEachIndex(a.tensor.shape, [&](ArrayRef<int64_t> index) {
      size_t at = next++;
      if (failed(result) || (a.known[at] && a.tensor.data[at] == b.tensor.data[at]))
        return;
      InFlightDiagnostic diag = fail() << "element [";
      llvm::interleaveComma(index, diag);
      diag << "] of output " << i
           << (a.known[at] ? " is not what the model computes" : " is delivered by nobody");
      result = diag;
    });
    if (failed(result))
      return failure();
  }
  return success();
}
