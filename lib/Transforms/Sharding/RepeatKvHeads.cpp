//===- RepeatKvHeads.cpp - Fewer kv heads than ranks ----------------------===//
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
// after which tp4 splits kv evenly. The weights are the same: their views have a factor r with
// stride 0 behind the kv heads ([64 x 16, 2 x 8, 2 x 0, 8 x 1]), so a rank loads and multiplies the
// kv head that its query heads need, and nothing is sent. In units of one head's matrix the fullest
// rank holds
//
//     r parts                    ceil(kv * r / tp) * (2 + 2 * group / r)
//     the groups split           2 * kv + 2 * kv * ceil(group / tp)
//
// and the least is taken (of equals the one with fewer query heads on the fullest rank, and of
// these the one that repeats least). r divides the group; where tp and the heads do not divide,
// r may stay 1.
//
// Keys that come from somewhere else (a cache that is an input), or go somewhere else (an
// output), are not repeated: then kv or the groups are split as they are.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"
#include "tpc/Analysis/Verify.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Sharding/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_REPEATKVHEADS
#include "tpc/Transforms/Sharding/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// How many times each kv head should be there.
int64_t chooseRepeats(int64_t kv, int64_t group, int64_t parts) {
  auto fullest = [parts](int64_t n) { return (n + parts - 1) / parts; };
  // What it costs, then query heads on the fullest rank.
  auto whole = std::make_pair(2 * kv + 2 * kv * fullest(group), kv * fullest(group));
  auto repeated = [&](int64_t r) {
    int64_t heads = fullest(kv * r);
    return std::make_pair(heads * (2 + 2 * group / r), heads * group / r);
  };
  auto best = std::min(whole, repeated(1));
  int64_t result = 1;
  for (int64_t r = 2; r <= group; ++r)
    if (group % r == 0 && repeated(r) < best) {
      best = repeated(r);
      result = r;
    }
  return result;
}

/// Keys and values of some attention ops, from the weights on.
class Repeater {
public:
  Repeater(ModuleOp module, FactorClasses &classes, int cls, int64_t repeats)
      : module(module), classes(classes), cls(cls), repeats(repeats) {}

  /// Whether `value`, used by attention as keys or values, comes from weights that can be
  /// repeated, through ops that do the same to each head.
  bool collect(Value value);
  /// Whether nobody else uses what was collected.
  bool isClosed(ArrayRef<AttentionOp> ops);
  /// Changes all of it. Bytes that are held more than once.
  int64_t apply();

private:
  bool has(Value value);
  ViewAttr open(ParameterOp parameter);
  bool collectCalls(BlockArgument argument);

  ModuleOp module;
  FactorClasses &classes;
  int cls;
  int64_t repeats;
  llvm::SetVector<Value> values;
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

bool Repeater::collectCalls(BlockArgument argument) {
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function || function.getName() == "main")
    return false;
  bool ok = true;
  module.walk([&](func::CallOp call) {
    if (call.getCallee() != function.getName())
      return;
    auto parameter = call.getOperand(argument.getArgNumber()).getDefiningOp<ParameterOp>();
    ok &= parameter && parameter->hasOneUse();
    if (ok) {
      parameters.push_back(parameter);
      users.insert(call);
      values.insert(parameter.getResult());
    }
  });
  return ok;
}

bool Repeater::collect(Value value) {
  if (!values.insert(value))
    return true;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return collectCalls(argument);
  Operation *op = value.getDefiningOp();
  if (auto parameter = dyn_cast<ParameterOp>(op)) {
    parameters.push_back(parameter);
    return true;
  }
  if (!isa<ShardingRuleOpInterface>(op) || op->getNumResults() != 1)
    return false;
  const ShardingRule &rule = classes.getRule(op);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (llvm::is_contained(classes.getFactorClasses(op, factor), cls) &&
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

bool Repeater::isClosed(ArrayRef<AttentionOp> ops) {
  // Who says how they are to be split means the heads as they are.
  auto isAnnotated = [](Operation *op) { return op && op->hasAttr(kShardingAttr); };
  if (llvm::any_of(users, isAnnotated) || llvm::any_of(parameters, [&](ParameterOp op) {
        return isAnnotated(op) || isAnnotated(op.getWeightOp());
      }))
    return false;
  return llvm::all_of(parameters, [&](ParameterOp op) { return bool(open(op)); }) &&
         llvm::all_of(values, [&](Value value) {
           return llvm::all_of(value.getUses(), [&](OpOperand &use) {
             auto attention = dyn_cast<AttentionOp>(use.getOwner());
             bool reads =
                 attention && llvm::is_contained(ops, attention) && use.getOperandNumber() > 0;
             return reads || users.contains(use.getOwner());
           });
         });
}

int64_t Repeater::apply() {
  // Types first: they are read off the classes as they were.
  SmallVector<std::pair<Value, Type>> types;
  for (Value value : values) {
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
    bytes += type.getNumElements() * (type.getElementTypeBitWidth() / 8) * (repeats - 1);
    parameter.setViewAttr(ViewAttr::get(module.getContext(), view.getOffset(), dims));
  }
  for (auto [value, type] : types)
    value.setType(type);
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      function.setType(FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                         function.getResultTypes()));
  return bytes;
}

/// Attention ops with fewer kv heads than `parts`, by the class of these heads.
void repeatKvHeads(ModuleOp module, int64_t parts) {
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
  for (auto &[cls, ops] : byClass) {
    auto kv = classes.getSize(cls).asConstant();
    auto heads = getSizes(ops.front().getQ())[2].asConstant();
    bool same = llvm::all_of(ops, [&](AttentionOp op) {
      return getSizes(op.getQ())[2] == getSizes(ops.front().getQ())[2];
    });
    if (!kv || !heads || *kv >= parts || !same || classes.getWholeOp(cls))
      continue;
    int64_t repeats = chooseRepeats(*kv, *heads / *kv, parts);
    if (repeats == 1)
      continue;
    Repeater repeater(module, classes, cls, repeats);
    if (!llvm::all_of(ops,
                      [&](AttentionOp op) {
                        return repeater.collect(op.getK()) && repeater.collect(op.getV());
                      }) ||
        !repeater.isClosed(ops))
      continue;
    int64_t bytes = repeater.apply();
    std::string text = std::to_string(*kv) + " kv heads, each there " + std::to_string(repeats) +
                       " times: " + std::to_string(bytes) + " bytes of weights more";
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
    bool few = false;
    getOperation().walk([&](AttentionOp op) {
      auto heads = getSizes(op.getK())[2].asConstant();
      few |= heads && *heads > 1 && *heads < parts;
    });
    if (few && !spec->isTensor2D()) // there tpx takes heads of groups
      repeatKvHeads(getOperation(), parts);
  }
};

} // namespace
