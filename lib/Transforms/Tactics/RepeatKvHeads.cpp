//===- RepeatKvHeads.cpp - Repetition of kv heads -------------------------===//
//
// Grouped attention has the classes [kv, group]: `kv` heads of keys, each used by `group` query
// heads. If tp has more ranks than kv heads, splitting kv leaves ranks without work, and splitting
// the group requires all kv heads on each rank. Megatron replicates kv heads: each group is divided
// into `r` subgroups, and the kv head is repeated for each subgroup. This pass rewrites the program
// accordingly:
//
//     q [b, s, 8, d]   k, v [b, s, 2, d]      kv = 2, group = 4
//     q [b, s, 8, d]   k, v [b, s, 4, d]      kv = 4, group = 2: heads 0, 0, 1, 1
//
// Then tp4 splits kv evenly. The repetition has one of two forms:
//
// * In weights: the views of the weights have a factor r with stride 0 after the kv heads, as in
//   `[64 x 16, 2 x 8, 2 x 0, 8 x 1]`. A rank loads and computes only the kv heads that its query
//   heads use.
// * After weights: all ranks compute all kv heads, and each rank selects the heads that its query
//   heads use. In a step with in-place caches, heads are selected from the new keys and values
//   before they are appended, so caches contain only the selected heads and are not copied.
//
// Caches that are inputs are replicated, and each rank selects its heads. For caches that are
// outputs, the first copy of each head is delivered (HeadReplication.h). A norm over all heads of
// keys becomes a norm over the repeated heads: each head occurs r times, so means do not change.
// Neither form needs communication.
//
// Maximum per rank. A matrix is the part of a projection (q, k, v or output) for one head:
//
//                              query heads                       matrices
//     r copies, in weights     ceil(kv * r / tp) * group / r     2 * (ceil(kv * r / tp) + queries)
//     r copies, after weights  ceil(kv * r / tp) * group / r     2 * (kv + queries)
//     no copies, group split   kv * ceil(group / tp)             2 * (kv + queries)
//     no copies, kv split      as r = 1 in weights
//
// These counts determine the time of a rank's matmuls and attention. The pass selects the split
// with the minimum time (in a tie: with the fewest stored matrices, then the fewest repetitions).
// Here r divides the group. For example, tp3 splits 8 query heads of 2 kv heads into 3, 3 and 2
// (after weights); with 32 query heads of 8 kv heads, tp6 repeats each kv head twice.
//
//===----------------------------------------------------------------------===//

#include "AnnotatedHeads.h"
#include "BuiltinTactics.h"
#include "tpc/Analysis/Nominal.h"
#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"
#include "tpc/Transforms/Tactics/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_REPEATKVHEADS
#include "tpc/Transforms/Tactics/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// A way of splitting grouped heads.
struct HeadSplit {
  enum Kind { Unrepeated, InWeights, AfterWeights } kind;
  int64_t repeats;
  int64_t queries, matrices; // maximum per rank: query heads, matrices of one head
  double time = 0;

  std::string str() const {
    return std::to_string(queries) + (queries == 1 ? " query head and " : " query heads and ") +
           std::to_string(matrices) + " matrices of a head";
  }
};

/// Returns all splits, best first. `attention`: time of attention for one query head, divided by
/// the time of a matmul with a matrix of one head.
SmallVector<HeadSplit> getSplits(int64_t kv, int64_t group, int64_t parts, double attention) {
  auto maxPerRank = [parts](int64_t n) { return (n + parts - 1) / parts; };
  auto inWeights = [&](HeadSplit::Kind kind, int64_t r) {
    int64_t heads = maxPerRank(kv * r);
    return HeadSplit{kind, r, heads * group / r, heads * (2 + 2 * group / r)};
  };
  // Without repetition, the class with the smaller maximum per rank is split.
  HeadSplit groups = {HeadSplit::Unrepeated, 1, kv * maxPerRank(group),
                      2 * kv + 2 * kv * maxPerRank(group)};
  HeadSplit heads = inWeights(HeadSplit::Unrepeated, 1);
  SmallVector<HeadSplit> splits = {groups.matrices < heads.matrices ? groups : heads};
  for (int64_t r = 2; r <= group; ++r)
    if (group % r == 0) {
      splits.push_back(inWeights(HeadSplit::InWeights, r));
      int64_t queries = splits.back().queries;
      splits.push_back({HeadSplit::AfterWeights, r, queries, 2 * kv + 2 * queries});
    }
  for (HeadSplit &split : splits)
    split.time = double(split.matrices) + attention * double(split.queries);
  llvm::stable_sort(splits, [](const HeadSplit &a, const HeadSplit &b) {
    return std::tuple(a.time, a.matrices, a.kind, a.repeats) <
           std::tuple(b.time, b.matrices, b.kind, b.repeats);
  });
  return splits;
}

/// Repeats heads of keys and values of attention ops. Traces keys and values back to weights, or to
/// values that are appended to caches.
class HeadRepeater {
public:
  HeadRepeater(ModuleOp module, FactorClasses &classes, int cls, bool fromAppends = false)
      : module(module), classes(classes), cls(cls), fromAppends(fromAppends) {}

  /// Returns true if keys and values are computed from repeatable weights (or input caches) only by
  /// ops that treat each head alike, and outputs are the only other users.
  bool collect(ArrayRef<AttentionOp> ops) {
    return llvm::all_of(ops,
                        [&](AttentionOp op) { return collect(op.getK()) && collect(op.getV()); }) &&
           hasNoOtherUsers(ops);
  }
  /// Repeats the heads. Returns the additional bytes of weights.
  int64_t apply(int64_t repeats);

private:
  bool collect(Value value);
  bool hasNoOtherUsers(ArrayRef<AttentionOp> ops);
  bool hasKvHeads(Value value);
  std::optional<unsigned> getDim(Value value);
  ViewAttr separateClasses(ParameterOp parameter);
  bool collectArgument(BlockArgument argument);
  bool isDelivered(OpOperand &use);

  ModuleOp module;
  FactorClasses &classes;
  int cls;
  bool fromAppends;
  SmallVector<AppendOp> appends;
  llvm::SetVector<Value> values, caches, delivered;
  SmallVector<std::pair<unsigned, unsigned>>
      outputs; // outputs of @main, and their kv head dimension
  llvm::SetVector<Operation *> users;
  SmallVector<ParameterOp> parameters;
};

/// Returns the parameter's view with one dimension per class; null if it cannot be expressed.
ViewAttr HeadRepeater::separateClasses(ParameterOp parameter) {
  SmallVector<int64_t> shape;
  for (unsigned dim = 0; dim < getSizes(parameter.getResult()).size(); ++dim)
    for (int leaf : classes.getClasses(parameter.getResult(), dim))
      shape.push_back(*classes.getSize(leaf).asConstant());
  return parameter.getViewOrDense().reshape(shape);
}

bool HeadRepeater::hasKvHeads(Value value) {
  for (unsigned dim = 0; dim < getSizes(value).size(); ++dim)
    if (llvm::is_contained(classes.getClasses(value, dim), cls))
      return true;
  return false;
}

/// Returns the dimension that consists only of kv heads.
std::optional<unsigned> HeadRepeater::getDim(Value value) {
  for (unsigned dim = 0; dim < getSizes(value).size(); ++dim)
    if (ArrayRef<int>(classes.getClasses(value, dim)) == ArrayRef<int>(cls))
      return dim;
  return std::nullopt;
}

/// Returns the calls of a function; none for @main.
SmallVector<func::CallOp> getCalls(ModuleOp module, func::FuncOp function) {
  SmallVector<func::CallOp> calls;
  module.walk([&](func::CallOp call) {
    if (function && call.getCallee() == function.getName())
      calls.push_back(call);
  });
  return calls;
}

/// Returns true if a value is an input or a movement of an input, and therefore replicated.
bool isInput(ModuleOp module, Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (function && function.getName() == "main")
      return true;
    SmallVector<func::CallOp> calls = getCalls(module, function);
    return !calls.empty() && llvm::all_of(calls, [&](func::CallOp call) {
      return isInput(module, call.getOperand(argument.getArgNumber()));
    });
  }
  Operation *op = value.getDefiningOp();
  return isa<TransposeOp, ReshapeOp, SliceOp, CastOp>(op) && isInput(module, op->getOperand(0));
}

bool HeadRepeater::collectArgument(BlockArgument argument) {
  if (isInput(module, argument)) {
    caches.insert(argument);
    return getDim(argument).has_value();
  }
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  SmallVector<func::CallOp> calls = getCalls(module, function);
  for (func::CallOp call : calls) {
    auto parameter = call.getOperand(argument.getArgNumber()).getDefiningOp<ParameterOp>();
    if (!parameter || !parameter->hasOneUse())
      return false;
    parameters.push_back(parameter);
    users.insert(call);
    values.insert(parameter.getResult());
  }
  return !calls.empty() && !fromAppends;
}

bool HeadRepeater::collect(Value value) {
  if (caches.contains(value) || !values.insert(value))
    return true;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    bool ok = collectArgument(argument);
    if (caches.contains(value))
      values.remove(value);
    return ok;
  }
  Operation *op = value.getDefiningOp();
  if (auto parameter = dyn_cast<ParameterOp>(op)) {
    parameters.push_back(parameter);
    return !fromAppends;
  }
  if (auto append = dyn_cast<AppendOp>(op); append && fromAppends) {
    appends.push_back(append);
    users.insert(op);
    return collect(append.getCache()) && caches.contains(append.getCache()) &&
           getDim(append.getFresh());
  }
  if (!isa<ShardingRuleOpInterface>(op) || op->getNumResults() != 1)
    return false;
  // A norm over equally repeated heads equals the norm over the heads.
  const ShardingRule &rule = classes.getRule(op);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (!isa<NormOpInterface>(op) &&
        llvm::is_contained(classes.getFactorClasses(op, factor), cls) &&
        rule.factors[factor].kind != FactorKind::Parallel)
      return false;
  users.insert(op);
  bool any = isa<ExpandOp>(op); // an expand broadcasts to the repeated heads
  for (Value operand : op->getOperands())
    if (hasKvHeads(operand)) {
      any = true;
      if (!collect(operand))
        return false;
    }
  return any;
}

/// Returns true if a use returns the value as an output of the program, possibly through layer
/// functions.
bool HeadRepeater::isDelivered(OpOperand &use) {
  std::optional<unsigned> dim = getDim(use.get());
  if (!isa<func::ReturnOp>(use.getOwner()) || !dim)
    return false;
  auto function = cast<func::FuncOp>(use.getOwner()->getParentOp());
  unsigned index = use.getOperandNumber();
  if (function.getName() == "main") {
    outputs.push_back({index, *dim});
    return true;
  }
  return llvm::all_of(getCalls(module, function), [&](func::CallOp call) {
    Value result = call.getResult(index);
    delivered.insert(result);
    return llvm::all_of(result.getUses(), [&](OpOperand &use) { return isDelivered(use); });
  });
}

bool HeadRepeater::hasNoOtherUsers(ArrayRef<AttentionOp> ops) {
  return llvm::all_of(parameters, [&](ParameterOp op) { return bool(separateClasses(op)); }) &&
         llvm::all_of(values, [&](Value value) {
           return llvm::all_of(value.getUses(), [&](OpOperand &use) {
             auto attention = dyn_cast<AttentionOp>(use.getOwner());
             bool reads =
                 attention && llvm::is_contained(ops, attention) && use.getOperandNumber() > 0;
             return reads || users.contains(use.getOwner()) || isDelivered(use);
           });
         });
}

/// Creates a gather of index i / times for each i, which repeats each index `times` times.
Value makeRepetition(OpBuilder &builder, Location loc, Value value, unsigned dim, int64_t n,
                     int64_t times) {
  SmallVector<int64_t> indices;
  for (int64_t i = 0; i < n * times; ++i)
    indices.push_back(i / times);
  auto type = RankedTensorType::get({n * times}, builder.getI64Type());
  Value index = ConstantOp::create(builder, loc, type,
                                   DenseElementsAttr::get(type, ArrayRef<int64_t>(indices)));
  return GatherOp::create(builder, loc, value, index, dim);
}

int64_t HeadRepeater::apply(int64_t repeats) {
  // Compute all types before the first change, because classes become invalid.
  SmallVector<std::pair<Value, Type>> types;
  for (Value value : llvm::concat<const Value>(values, delivered)) {
    SmallVector<SymExpr> sizes = getSizes(value);
    for (auto [dim, size] : llvm::enumerate(sizes))
      if (llvm::is_contained(classes.getClasses(value, dim), cls))
        size = size * SymExpr(repeats);
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    types.push_back({value, makeTensorType(element, sizes)});
  }
  int64_t bytes = 0;
  for (ParameterOp parameter : parameters) {
    Value value = parameter.getResult();
    ViewAttr view = separateClasses(parameter);
    SmallVector<ArrayAttr> dims;
    unsigned next = 0;
    for (unsigned dim = 0; dim < getSizes(value).size(); ++dim) {
      SmallVector<Attribute> factors;
      for (int leaf : classes.getClasses(value, dim)) {
        llvm::append_range(factors, view.getDims()[next++]);
        if (leaf == cls)
          factors.push_back(StridedFactorAttr::get(module.getContext(), repeats, 0));
      }
      if (factors.empty())
        factors.push_back(StridedFactorAttr::get(module.getContext(), 1, 1));
      dims.push_back(ArrayAttr::get(module.getContext(), factors));
    }
    auto type = cast<RankedTensorType>(value.getType());
    bytes += type.getNumElements() * getElementBytes(type) * (repeats - 1);
    parameter.setViewAttr(ViewAttr::get(module.getContext(), view.getOffset(), dims));
  }
  for (Value cache : caches) {
    unsigned dim = *getDim(cache);
    OpBuilder builder(module.getContext());
    builder.setInsertionPointAfterValue(cache);
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : cache.getUses())
      if (users.contains(use.getOwner()) || isa<AttentionOp>(use.getOwner()))
        uses.push_back(&use);
    Value repeated = makeRepetition(builder, cache.getLoc(), cache, dim,
                                    *classes.getSize(cls).asConstant(), repeats);
    for (OpOperand *use : uses)
      use->set(repeated);
  }
  for (AppendOp append : appends) {
    OpBuilder builder(append);
    append.getFreshMutable().assign(makeRepetition(builder, append.getLoc(), append.getFresh(),
                                                   *getDim(append.getFresh()),
                                                   *classes.getSize(cls).asConstant(), repeats));
  }
  for (auto [value, type] : types)
    value.setType(type);
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      function.setType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                         function.front().getTerminator()->getOperandTypes()));
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (auto [output, dim] : outputs)
    main.setResultAttr(output, kCopiesAttr,
                       DenseI64ArrayAttr::get(module.getContext(), {int64_t(dim), repeats}));
  return bytes;
}

/// Returns true if an op other than a norm needs all kv heads. Norms over all heads are decomposed
/// if tp splits the heads (DecomposeNorms.cpp).
bool mustBeWhole(const FactorClasses &classes, int cls) {
  return llvm::any_of(classes.getPreventingOps(cls),
                      [](Operation *op) { return !isa<NormOpInterface>(op); });
}

/// Repeats the kv heads of grouped attention, separately for each class of kv heads. `tensorAxes`:
/// atoms of tp, which have `parts` ranks.
void repeatKvHeads(ModuleOp module, int64_t parts, ArrayRef<StringAttr> tensorAxes) {
  bool grouped = false;
  module.walk([&](AttentionOp op) {
    auto kv = getSizes(op.getK())[2].asConstant();
    grouped |= kv && *kv > 1 && *kv % parts && getSizes(op.getQ())[2] != getSizes(op.getK())[2];
  });
  // Repeated heads would have their gradients on several ranks. So in training, heads are not
  // repeated.
  WalkResult trained = module.walk([](AttentionGradOp) { return WalkResult::interrupt(); });
  if (!grouped || trained.wasInterrupted())
    return;
  separateUses(module);
  separateBiases(module);
  FactorClasses classes(module);
  llvm::MapVector<int, SmallVector<AttentionOp>> byClass;
  module.walk([&](AttentionOp op) {
    FactorClasses::Classes heads = classes.getClasses(op.getK(), 2);
    // A single kv head has no class: all ranks need the head, and the group is split.
    if (heads.size() == 1 && classes.getClasses(op.getQ(), 2).size() == 2)
      byClass[heads.front()].push_back(op);
  });
  Symbols symbols = getNominalSymbols(module);
  for (auto &[cls, ops] : byClass) {
    auto kv = classes.getSize(cls).asConstant();
    auto heads = getSizes(ops.front().getQ())[2].asConstant();
    bool same = llvm::all_of(ops, [&](AttentionOp op) {
      return getSizes(op.getQ())[2] == getSizes(ops.front().getQ())[2];
    });
    if (!kv || !heads || *kv % parts == 0 || !same || mustBeWhole(classes, cls))
      continue;
    // Cost of computing scores and of their matmul with values, relative to a matrix with one row
    // per channel.
    int64_t width = *heads * getSizes(ops.front().getQ())[3].asConstant().value_or(1);
    int64_t keys = evaluateOr1(getSizes(ops.front().getK())[1], symbols);
    if (std::optional<SymExpr> window = ops.front().getWindow(); window && ops.front().getCausal())
      keys = std::clamp<int64_t>(evaluateOr1(*window, symbols), 0, keys);
    double attention = 2.0 * double(keys) / double(std::max<int64_t>(1, width));
    SmallVector<HeadSplit> splits = getSplits(*kv, *heads / *kv, parts, attention);
    if (splits.front().kind == HeadSplit::Unrepeated)
      continue;
    HeadRepeater repeater(module, classes, cls);
    bool isTraceable = repeater.collect(ops);
    AnnotatedHeads annotated = getAnnotatedHeads(
        module, classes, cls, classes.getClasses(ops.front().getQ(), 2)[1], tensorAxes);
    auto isAllowed = [&](const HeadSplit &s) {
      return s.kind == HeadSplit::Unrepeated ||
             (!annotated.other &&
              !(s.kind == HeadSplit::InWeights ? annotated.whole : annotated.split) &&
              annotated.repeats.value_or(s.repeats) == s.repeats);
    };
    const HeadSplit &plain =
        *llvm::find_if(splits, [](const HeadSplit &s) { return s.kind == HeadSplit::Unrepeated; });
    // If keys are not computed from weights, a repetition must not increase memory.
    auto isPossible = [&](const HeadSplit &s) {
      return isTraceable || s.kind == HeadSplit::Unrepeated ||
             (s.kind == HeadSplit::AfterWeights && s.matrices < plain.matrices);
    };
    const HeadSplit *split =
        llvm::find_if(splits, [&](const HeadSplit &s) { return isAllowed(s) && isPossible(s); });
    const HeadSplit *wanted =
        llvm::find_if(splits, [&](const HeadSplit &s) { return isPossible(s); });
    std::string text = std::to_string(*kv) + " kv heads, ";
    if (wanted->time < split->time)
      warnAboutPlan(module, "tp" + std::to_string(parts) + ": " + annotated.by + " leaves " +
                                split->str() + " on the worst-case rank; with kv heads repeated " +
                                std::to_string(wanted->repeats) + " times it would have " +
                                wanted->str());
    if (split->kind == HeadSplit::Unrepeated)
      continue;
    if (split->kind == HeadSplit::InWeights) {
      int64_t bytes = repeater.apply(split->repeats);
      text += "each repeated " + std::to_string(split->repeats) +
              " times: " + std::to_string(bytes) + " more bytes of weights";
    } else {
      HeadRepeater repeaterOfAppends(module, classes, cls, /*fromAppends=*/true);
      if (repeaterOfAppends.collect(ops))
        repeaterOfAppends.apply(split->repeats);
      else
        for (AttentionOp op : ops) {
          OpBuilder builder(op);
          for (OpOperand *operand : {&op.getKMutable(), &op.getVMutable()})
            operand->set(
                makeRepetition(builder, op.getLoc(), operand->get(), 2, *kv, split->repeats));
        }
      text += "all on every rank, each used " + std::to_string(split->repeats) + " times";
    }
    text += "; at most " + split->str() + " per rank, without repetition " + plain.str();
    for (AttentionOp op : ops)
      op->setAttr(kRepeatedHeadsAttr, StringAttr::get(module.getContext(), text));
  }
}

struct RepeatKvHeads : public mlir::tpc::impl::RepeatKvHeadsBase<RepeatKvHeads> {
  using RepeatKvHeadsBase::RepeatKvHeadsBase;
  void runOnOperation() override {
    int64_t parts = shard.grid.size("tp");
    if (parts > 1 && !shard.isTensor2D()) // RowsTactic may split groups over one axis
      repeatKvHeads(getOperation(), parts, makeMeshAttr(&getContext(), shard).getView("tp"));
  }
};

} // namespace
