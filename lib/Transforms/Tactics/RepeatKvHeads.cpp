//===- RepeatKvHeads.cpp - Grouped heads that do not divide ---------------===//
//
// Grouped attention has the classes [kv, group]: `kv` heads of keys, each used by `group`
// query heads. Where tp has more ranks than there are kv heads, splitting kv leaves ranks without
// work, and splitting the groups makes every rank compute all kv heads. What Megatron does instead
// is to give several ranks the same kv head: the group is divided into `r` parts, and the kv head
// is there once for each. That is a change of the program, not of the rules:
//
//     q [b, s, 8, d]   k, v [b, s, 2, d]      kv = 2, group = 4
//     q [b, s, 8, d]   k, v [b, s, 4, d]      kv = 4, group = 2: heads 0, 0, 1, 1
//
// after which tp4 splits kv evenly. There are two ways of it. The weights may have each head
// several times: their views have a factor r with stride 0 behind the kv heads, as in
//
//     [64 x 16, 2 x 8, 2 x 0, 8 x 1]
//
// so a rank loads and multiplies the kv head that its query heads need. Caches that are inputs are
// whole on every rank, which then takes the heads that it needs; of caches that are outputs the
// first copy of each head is delivered (Copies.h). A norm over all heads of keys is one over the
// repeated heads: each is there r times, so the mean over r·n elements is the mean over n. Or all
// ranks compute all kv heads, and a rank takes of them what its query heads need: of a step that
// appends to caches, of the new keys and values, so that its caches hold that and no step goes over
// what is in them. Nothing is sent in either.
//
// On the fullest rank there are, in units of one head's matrix,
//
//                              query heads                       matrices
//     r parts, in weights      ceil(kv * r / tp) * group / r     2 * (ceil(kv * r / tp) + queries)
//     r parts, behind them     ceil(kv * r / tp) * group / r     2 * (kv + queries)
//     the groups split         kv * ceil(group / tp)             2 * (kv + queries)
//
// and that is the time of its products and of its attention. The split with the least time is
// taken; of equals the one that holds least, and of these the one that repeats least. r divides
// the group; it may stay 1. With 8 query heads for 2 kv heads, tp3 splits 3, 3, 2 behind the
// weights; with 32 for 8, tp6 has each kv head twice.
//
//===----------------------------------------------------------------------===//

#include "AnnotatedHeads.h"
#include "Plan.h"
#include "tpc/Analysis/Nominal.h"
#include "tpc/Analysis/PlanFacts.h"
#include "tpc/Dialect/Copies.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Dialect/State.h"
#include "tpc/Transforms/Tactics/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_REPEATKVHEADS
#include "tpc/Transforms/Tactics/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// One way of splitting grouped heads.
struct Split {
  enum Kind { AsTheyAre, InWeights, BehindWeights } kind;
  int64_t repeats;
  int64_t queries, matrices; // heads of queries, matrices of one head: on the fullest rank
  double time = 0;

  std::string str() const {
    return std::to_string(queries) + (queries == 1 ? " query head and " : " query heads and ") +
           std::to_string(matrices) + " matrices of a head";
  }
};

/// All of them, the best first. A query head's attention over all keys takes `attention` times as
/// long as a product with a matrix of one head.
SmallVector<Split> getSplits(int64_t kv, int64_t group, int64_t parts, double attention) {
  auto fullest = [parts](int64_t n) { return (n + parts - 1) / parts; };
  auto inWeights = [&](Split::Kind kind, int64_t r) {
    int64_t heads = fullest(kv * r);
    return Split{kind, r, heads * group / r, heads * (2 + 2 * group / r)};
  };
  // Of the heads as they are, the class is split that takes most from the fullest rank.
  Split groups = {Split::AsTheyAre, 1, kv * fullest(group), 2 * kv + 2 * kv * fullest(group)};
  Split heads = inWeights(Split::AsTheyAre, 1);
  SmallVector<Split> splits = {groups.matrices < heads.matrices ? groups : heads};
  for (int64_t r = 2; r <= group; ++r)
    if (group % r == 0) {
      splits.push_back(inWeights(Split::InWeights, r));
      int64_t queries = splits.back().queries;
      splits.push_back({Split::BehindWeights, r, queries, 2 * kv + 2 * queries});
    }
  for (Split &split : splits)
    split.time = double(split.matrices) + attention * double(split.queries);
  llvm::stable_sort(splits, [](const Split &a, const Split &b) {
    return std::tuple(a.time, a.matrices, a.kind, a.repeats) <
           std::tuple(b.time, b.matrices, b.kind, b.repeats);
  });
  return splits;
}

/// Keys and values of some attention ops, from the weights on, or from what is appended to caches.
class Repeater {
public:
  Repeater(ModuleOp module, FactorClasses &classes, int cls, bool fromAppends = false)
      : module(module), classes(classes), cls(cls), fromAppends(fromAppends) {}

  /// Whether keys and values come from weights (and caches that are inputs) that can be repeated,
  /// through ops that do the same to each head, and nobody else uses them, but outputs.
  bool collect(ArrayRef<AttentionOp> ops) {
    return llvm::all_of(ops,
                        [&](AttentionOp op) { return collect(op.getK()) && collect(op.getV()); }) &&
           isClosed(ops);
  }
  /// Changes all of it. Bytes that are held more than once.
  int64_t apply(int64_t repeats);

private:
  bool collect(Value value);
  bool isClosed(ArrayRef<AttentionOp> ops);
  bool has(Value value);
  std::optional<unsigned> getDim(Value value);
  ViewAttr open(ParameterOp parameter);
  bool collectArgument(BlockArgument argument);
  bool isDelivered(OpOperand &use);

  ModuleOp module;
  FactorClasses &classes;
  int cls;
  bool fromAppends;
  SmallVector<AppendOp> appends;
  llvm::SetVector<Value> values, caches, delivered;
  SmallVector<std::pair<unsigned, unsigned>> outputs; // of @main, and their dimension of kv heads
  llvm::SetVector<Operation *> users;
  SmallVector<ParameterOp> parameters;
};

/// The view with each class a dimension of its own; null where it has no such form.
ViewAttr Repeater::open(ParameterOp parameter) {
  SmallVector<int64_t> shape;
  for (unsigned dim = 0; dim < getSizes(parameter.getResult()).size(); ++dim)
    for (int leaf : classes.getClasses(parameter.getResult(), dim))
      shape.push_back(*classes.getSize(leaf).asConstant());
  return parameter.getViewOrDense().reshape(shape);
}

bool Repeater::has(Value value) {
  for (unsigned dim = 0; dim < getSizes(value).size(); ++dim)
    if (llvm::is_contained(classes.getClasses(value, dim), cls))
      return true;
  return false;
}

/// The dimension that consists of kv heads and nothing else.
std::optional<unsigned> Repeater::getDim(Value value) {
  for (unsigned dim = 0; dim < getSizes(value).size(); ++dim)
    if (ArrayRef<int>(classes.getClasses(value, dim)) == ArrayRef<int>(cls))
      return dim;
  return std::nullopt;
}

/// Calls of a function; none of @main.
SmallVector<func::CallOp> getCalls(ModuleOp module, func::FuncOp function) {
  SmallVector<func::CallOp> calls;
  module.walk([&](func::CallOp call) {
    if (function && call.getCallee() == function.getName())
      calls.push_back(call);
  });
  return calls;
}

/// Whether a value is an input, or one that has been moved about: whole on every rank.
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

bool Repeater::collectArgument(BlockArgument argument) {
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

bool Repeater::collect(Value value) {
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
  // A norm over equally repeated heads is the norm over the heads.
  const ShardingRule &rule = classes.getRule(op);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (!isa<NormOpInterface>(op) &&
        llvm::is_contained(classes.getFactorClasses(op, factor), cls) &&
        rule.factors[factor].kind != FactorKind::Parallel)
      return false;
  users.insert(op);
  bool any = isa<ExpandOp>(op); // repeats what is there once
  for (Value operand : op->getOperands())
    if (has(operand)) {
      any = true;
      if (!collect(operand))
        return false;
    }
  return any;
}

/// Whether a use hands a value out of the program, through the layers that it is in.
bool Repeater::isDelivered(OpOperand &use) {
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

bool Repeater::isClosed(ArrayRef<AttentionOp> ops) {
  return llvm::all_of(parameters, [&](ParameterOp op) { return bool(open(op)); }) &&
         llvm::all_of(values, [&](Value value) {
           return llvm::all_of(value.getUses(), [&](OpOperand &use) {
             auto attention = dyn_cast<AttentionOp>(use.getOwner());
             bool reads =
                 attention && llvm::is_contained(ops, attention) && use.getOperandNumber() > 0;
             return reads || users.contains(use.getOwner()) || isDelivered(use);
           });
         });
}

/// Index i / times for each i: each index several times in a row.
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

int64_t Repeater::apply(int64_t repeats) {
  // Types first: they are read off the classes as they were.
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
    ViewAttr view = open(parameter);
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

/// Whether an op other than a norm needs all kv heads. Norms over all heads are decomposed where tp
/// splits the heads (WriteNormsOut.cpp).
bool mustBeWhole(const FactorClasses &classes, int cls) {
  return llvm::any_of(classes.getWholeOps(cls),
                      [](Operation *op) { return !isa<NormOpInterface>(op); });
}

/// Attention ops with grouped heads, by the class of their kv heads.
void repeatKvHeads(ModuleOp module, int64_t parts) {
  bool grouped = false;
  module.walk([&](AttentionOp op) {
    auto kv = getSizes(op.getK())[2].asConstant();
    grouped |= kv && *kv > 1 && *kv % parts && getSizes(op.getQ())[2] != getSizes(op.getK())[2];
  });
  if (!grouped)
    return;
  separateUses(module);
  takeBiasesOut(module);
  FactorClasses classes(module);
  llvm::MapVector<int, SmallVector<AttentionOp>> byClass;
  module.walk([&](AttentionOp op) {
    FactorClasses::Classes heads = classes.getClasses(op.getK(), 2);
    // One kv head has no class: all ranks need it, and groups are split.
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
    // Scores and their product with values, against a matrix with a row for each channel.
    int64_t width = *heads * getSizes(ops.front().getQ())[3].asConstant().value_or(1);
    int64_t keys = evaluateOr1(getSizes(ops.front().getK())[1], symbols);
    if (std::optional<SymExpr> window = ops.front().getWindow(); window && ops.front().getCausal())
      keys = std::clamp<int64_t>(evaluateOr1(*window, symbols), 0, keys);
    double attention = 2.0 * double(keys) / double(std::max<int64_t>(1, width));
    SmallVector<Split> splits = getSplits(*kv, *heads / *kv, parts, attention);
    if (splits.front().kind == Split::AsTheyAre)
      continue;
    Repeater repeater(module, classes, cls);
    bool found = repeater.collect(ops);
    AnnotatedHeads asked =
        getAnnotatedHeads(module, classes, cls, classes.getClasses(ops.front().getQ(), 2)[1]);
    auto isAllowed = [&](const Split &s) {
      return s.kind == Split::AsTheyAre ||
             (!asked.other && !(s.kind == Split::InWeights ? asked.whole : asked.split) &&
              asked.repeats.value_or(s.repeats) == s.repeats);
    };
    const Split &plain =
        *llvm::find_if(splits, [](const Split &s) { return s.kind == Split::AsTheyAre; });
    // Where keys come from elsewhere, time is not paid for with memory.
    auto isPossible = [&](const Split &s) {
      return found || s.kind == Split::AsTheyAre ||
             (s.kind == Split::BehindWeights && s.matrices < plain.matrices);
    };
    const Split *split =
        llvm::find_if(splits, [&](const Split &s) { return isAllowed(s) && isPossible(s); });
    const Split *wanted = llvm::find_if(splits, [&](const Split &s) { return isPossible(s); });
    std::string text = std::to_string(*kv) + " kv heads, ";
    if (wanted->time < split->time)
      warnOfPlan(module, "tp" + std::to_string(parts) + ": " + asked.by + " leaves " +
                             split->str() + " to the fullest rank; with kv heads that are there " +
                             std::to_string(wanted->repeats) + " times it would have " +
                             wanted->str());
    if (split->kind == Split::AsTheyAre)
      continue;
    if (split->kind == Split::InWeights) {
      int64_t bytes = repeater.apply(split->repeats);
      text += "each there " + std::to_string(split->repeats) + " times: " + std::to_string(bytes) +
              " bytes of weights more";
    } else {
      Repeater behind(module, classes, cls, /*fromAppends=*/true);
      if (behind.collect(ops))
        behind.apply(split->repeats);
      else
        for (AttentionOp op : ops) {
          OpBuilder builder(op);
          for (OpOperand *operand : {&op.getKMutable(), &op.getVMutable()})
            operand->set(
                makeRepetition(builder, op.getLoc(), operand->get(), 2, *kv, split->repeats));
        }
      text += "all on every rank, each used " + std::to_string(split->repeats) + " times";
    }
    text += "; at most " + split->str() + " on a rank, as they are " + plain.str();
    for (AttentionOp op : ops)
      op->setAttr(kRepeatedHeadsAttr, StringAttr::get(module.getContext(), text));
  }
}

struct RepeatKvHeads : public mlir::tpc::impl::RepeatKvHeadsBase<RepeatKvHeads> {
  using RepeatKvHeadsBase::RepeatKvHeadsBase;
  void runOnOperation() override {
    std::string error;
    auto spec = ::tpc::ShardSpec::parse(shard.getValue(), error);
    if (!spec) {
      emitError(getOperation().getLoc()) << "shard: " << error;
      return signalPassFailure();
    }
    int64_t parts = spec->grid.size(::tpc::Axis::TP);
    if (parts > 1 && !spec->isTensor2D()) // there tpx takes heads of groups
      repeatKvHeads(getOperation(), parts);
  }
};

} // namespace
