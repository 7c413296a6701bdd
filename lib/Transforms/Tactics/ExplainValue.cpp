//===- ExplainValue.cpp - Reasons for the distribution of a value ---------===//
//
// Finds the ops, weights and inputs with an ONNX name, and states for each value: its type, the
// tactic that split each dimension and why, and the chain of ops along which the split was
// propagated from the value's class to the seed. Sharding rules relate factors symmetrically, so
// the chain is a shortest path over ops that contain the class.
//
//===----------------------------------------------------------------------===//

#include "Partitioner.h"
#include "PlannedDists.h"

#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Tactics/ValueExplanation.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

std::string nameOp(Operation *op) {
  std::string name = getSourceName(op->getLoc());
  if (auto parameter = dyn_cast<ParameterOp>(op))
    name = parameter.getWeight().str();
  return "'" + name + "' (" + op->getName().getStringRef().str() + ")";
}

std::string join(ArrayRef<StringAttr> axes) {
  return llvm::join(llvm::map_range(axes, [](StringAttr axis) { return axis.getValue().str(); }),
                    " and ");
}

class ValueExplainer {
public:
  explicit ValueExplainer(PartitionState &state)
      : state(state), problem(state.problem), dists(state) {}

  ValueExplanation explain(Value value);

private:
  void explainDim(Value value, unsigned dim, ValueExplanation &out);
  void explainSums(Operation *op, ValueExplanation &out);
  void explainCommunication(Value value, ValueExplanation &out);
  SplitReason explainAxis(Value value, Site site, int cls, StringAttr axis);
  std::string explainWhole(Value value, Site site, int cls);
  const Decision *findDecision(Decision::Kind kind, int cls, StringAttr axis, Site site);
  std::vector<std::string> findPath(Value from, int cls, Site seed, bool followReaders);
  void forEachNeighbor(Value value, bool followReaders,
                       function_ref<void(Operation *, Value)> visit);
  bool contains(Value value, int cls);
  std::string describeFactor(Operation *op, int cls);

  PartitionState &state;
  const PartitionProblem &problem;
  PlannedDists dists;
};

} // namespace

bool ValueExplainer::contains(Value value, int cls) {
  return llvm::any_of(problem.getLists(value),
                      [&](const auto &list) { return llvm::is_contained(list, cls); });
}

const Decision *ValueExplainer::findDecision(Decision::Kind kind, int cls, StringAttr axis,
                                             Site site) {
  for (const Decision &decision : state.getDecisions())
    if (decision.kind == kind && decision.cls == cls && decision.site == site &&
        llvm::is_contained(decision.axes, axis))
      return &decision;
  return nullptr;
}

/// Describes the role of a class in an op's rule: "rows of 'fc2' (tpc.matmul)".
std::string ValueExplainer::describeFactor(Operation *op, int cls) {
  for (auto [index, factor] : llvm::enumerate(problem.classes.getRule(op).factors))
    if (llvm::is_contained(problem.classes.getFactorClasses(op, index), cls)) {
      bool reduces = getReduction(factor.kind).has_value();
      bool isColumn = isa<MatmulOp>(op) && contains(op->getOperand(1), cls);
      StringRef role = reduces ? (isColumn ? "rows of " : "reduced by ")
                               : (isColumn ? "columns of " : "parallel in ");
      return (role + nameOp(op)).str();
    }
  return nameOp(op);
}

/// Visits the values that the op of `value`, a call, or a reader relates to it.
void ValueExplainer::forEachNeighbor(Value value, bool followReaders,
                                     function_ref<void(Operation *, Value)> visit) {
  auto visitOp = [&](Operation *op) {
    if (!isa<ShardingRuleOpInterface>(op))
      return;
    for (Value other : op->getOperands())
      visit(op, other);
    for (Value other : op->getResults())
      visit(op, other);
  };
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()))
      for (func::CallOp call : problem.getCalls(function))
        visit(call, call.getOperand(argument.getArgNumber()));
  } else if (auto call = value.getDefiningOp<func::CallOp>()) {
    if (auto callee = problem.module.lookupSymbol<func::FuncOp>(call.getCallee()))
      visit(call,
            callee.front().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()));
  } else {
    visitOp(value.getDefiningOp());
  }
  if (!followReaders)
    return;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto call = dyn_cast<func::CallOp>(user)) {
      if (auto callee = problem.module.lookupSymbol<func::FuncOp>(call.getCallee()))
        visit(call, callee.getArgument(use.getOperandNumber()));
    } else if (isa<func::ReturnOp>(user)) {
      for (func::CallOp call : problem.getCalls(cast<func::FuncOp>(user->getParentOp())))
        visit(call, call.getResult(use.getOperandNumber()));
    } else {
      visitOp(user);
    }
  }
}

/// Returns the shortest chain of ops from a value to the seed of its class. `seed`: the op of an
/// annotation; null: a matrix with the class or, if there is none, an input of @main.
/// `followReaders`: the chain may also lead through ops that read the value.
std::vector<std::string> ValueExplainer::findPath(Value from, int cls, Site seed,
                                                  bool followReaders) {
  bool hasMatrix = llvm::any_of(problem.getUses(cls), [&](ClassUse use) {
    Value matrix = problem.getMatrix(use.op);
    return matrix && contains(matrix, cls);
  });
  auto isSeedOp = [&](Operation *op) {
    if (seed)
      return Site(op) == seed;
    if (!hasMatrix || !isa<ShardingRuleOpInterface>(op))
      return false;
    Value matrix = problem.getMatrix(op);
    return matrix && contains(matrix, cls);
  };
  auto isSeedValue = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto function =
        argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
    return !seed && !hasMatrix && function && function.getName() == "main";
  };
  struct Step {
    Value before;
    Operation *op;
  };
  llvm::MapVector<Value, Step> steps; // in the order of visits
  steps[from] = {};
  std::vector<std::string> path;
  auto trace = [&](Value value) {
    for (Step step = steps[value]; step.op; step = steps[step.before])
      path.insert(path.begin(), isa<func::CallOp>(step.op)
                                    ? "call of @" + cast<func::CallOp>(step.op).getCallee().str()
                                    : describeFactor(step.op, cls));
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    Value value = steps.getArrayRef()[i].first;
    if (isSeedValue(value)) {
      trace(value);
      auto main = problem.module.lookupSymbol<func::FuncOp>("main");
      auto name =
          main.getArgAttrOfType<StringAttr>(cast<BlockArgument>(value).getArgNumber(), kNameAttr);
      path.push_back("input '" + (name ? name.getValue().str() : "") + "'");
      return path;
    }
    Operation *found = nullptr;
    forEachNeighbor(value, followReaders, [&](Operation *op, Value other) {
      if (found)
        return;
      if (isSeedOp(op))
        found = op;
      else if (isa<RankedTensorType>(other.getType()) && contains(other, cls))
        steps.insert({other, Step{value, op}});
    });
    if (found) {
      trace(value);
      path.push_back(describeFactor(found, cls));
      return path;
    }
  }
  return {};
}

SplitReason ValueExplainer::explainAxis(Value value, Site site, int cls, StringAttr axis) {
  SplitReason reason;
  reason.axis = axis.getValue().str();
  const Decision *local = findDecision(Decision::Assign, cls, axis, site);
  if (!local)
    local = findDecision(Decision::Store, cls, axis, site);
  const Decision *decision = local ? local : findDecision(Decision::Assign, cls, axis, {});
  if (!decision)
    return reason;
  reason.tactic = decision->tactic.str();
  reason.why = decision->why.str();
  if (local)
    reason.why += reason.why.empty() ? "in this tensor only" : "; in this tensor only";
  else if (reason.path = findPath(value, cls, decision->seed, false); reason.path.empty())
    reason.path = findPath(value, cls, decision->seed, true);
  return reason;
}

/// Returns the reason why a class is unsplit in a value.
std::string ValueExplainer::explainWhole(Value value, Site site, int cls) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (cast<func::FuncOp>(argument.getOwner()->getParentOp()).getName() == "main")
      return "inputs are whole on every rank";
  std::string text;
  for (StringAttr axis : state.getAxes(cls))
    if (const Decision *decision = findDecision(Decision::Forbid, cls, axis, site))
      text += (text.empty() ? "" : "; ") + decision->tactic.str() + " splits it over " +
              axis.getValue().str() + ", but not here" +
              (decision->why.empty() ? "" : ": " + decision->why.str());
  if (!text.empty())
    return text;
  if (Operation *op = problem.classes.getPreventingOp(cls))
    return nameOp(op) + " needs all of it";
  return state.isFixed(cls) ? "annotations leave it unsplit" : "no tactic splits it";
}

void ValueExplainer::explainDim(Value value, unsigned dim, ValueExplanation &out) {
  DistAttr dist = dists.getArrival(value);
  std::string where = "dimension " + std::to_string(dim) + ": ";
  Site site =
      isa<BlockArgument>(value) ? Site(cast<BlockArgument>(value)) : Site(value.getDefiningOp());
  SmallVector<StringAttr> axes = dist.getDims()[dim].getAllAxes();
  llvm::SmallDenseSet<StringAttr> explained;
  for (int cls : problem.classes.getClasses(value, dim)) {
    std::string what = problem.describe(cls);
    bool split = false;
    for (StringAttr axis : axes) {
      if (explained.contains(axis) ||
          !(state.hasAxis({cls}, axis, site) || state.isWanted(cls, axis)))
        continue;
      SplitReason reason = explainAxis(value, site, cls, axis);
      reason.what = where + what + " over " + axis.getValue().str();
      out.splits.push_back(std::move(reason));
      explained.insert(axis);
      split = true;
    }
    if (!split)
      out.splits.push_back(
          {where + what + ", unsplit", "", "", explainWhole(value, site, cls), {}});
  }
  // Axes of a product of classes.
  for (StringAttr axis : axes) {
    if (explained.contains(axis))
      continue;
    SplitReason reason{where + "over " + axis.getValue().str(), axis.getValue().str(), "", "", {}};
    for (const Decision &decision : state.getDecisions())
      if (decision.kind == Decision::Place && decision.site == site) {
        reason.tactic = decision.tactic.str();
        reason.why = decision.why.str();
      }
    if (reason.tactic.empty() && isa<OpResult>(value))
      reason.why = "its partial sums are scattered";
    out.splits.push_back(std::move(reason));
  }
}

/// Explains partial sums: the reduced classes of the op, and the tactics that expect a reduction.
void ValueExplainer::explainSums(Operation *op, ValueExplanation &out) {
  for (auto [index, factor] : llvm::enumerate(problem.classes.getRule(op).factors)) {
    if (!getReduction(factor.kind))
      continue;
    for (int cls : problem.classes.getFactorClasses(op, index))
      for (StringAttr axis : state.getAxes(cls, op, index)) {
        SplitReason reason = explainAxis(op->getResult(0), op, cls, axis);
        reason.what =
            "reduced over " + axis.getValue().str() + ": the op sums over " + problem.describe(cls);
        if (reason.path.empty() || reason.path.front() != describeFactor(op, cls))
          reason.path.insert(reason.path.begin(), describeFactor(op, cls));
        out.splits.push_back(std::move(reason));
      }
  }
}

void ValueExplainer::explainCommunication(Value value, ValueExplanation &out) {
  auto describePath = [&](DistAttr from, DistAttr to) {
    std::string text;
    if (const std::optional<ReshardPath> &path = dists.getPath(from, to))
      for (const ReshardStep &step : path->steps)
        text +=
            (text.empty() ? "" : ", ") + stringify(step.kind).str() + " over " + join(step.axes);
    return text;
  };
  DistAttr produced = dists.getProduced(value), arrival = dists.getArrival(value, produced);
  if (std::string text = describePath(produced, arrival); !text.empty())
    out.communication.push_back(text + " after it");
  for (OpOperand &use : value.getUses())
    if (DistAttr required = dists.getRequired(use))
      if (std::string text = describePath(arrival, required); !text.empty())
        out.communication.push_back(text + " before " + nameOp(use.getOwner()));
  for (const TacticRecord &record : std::as_const(state).getRecords())
    for (const ExpectedCommunication &expected : record.expected)
      if (expected.value == value)
        if (std::string text = record.name + " expects communication: " + expected.why;
            !llvm::is_contained(out.communication, text))
          out.communication.push_back(text);
}

ValueExplanation ValueExplainer::explain(Value value) {
  ValueExplanation out;
  Operation *op = value.getDefiningOp();
  Operation *parent = op ? op->getParentOp() : cast<BlockArgument>(value).getOwner()->getParentOp();
  out.op = op ? nameOp(op) : "input";
  out.function = cast<func::FuncOp>(parent).getName().str();
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  llvm::raw_string_ostream(out.type) << makeTensorType(element, dists.getArrival(value));
  for (unsigned dim = 0; dim < getSizes(value).size(); ++dim)
    explainDim(value, dim, out);
  if (op && isa<ShardingRuleOpInterface>(op))
    explainSums(op, out);
  explainCommunication(value, out);
  return out;
}

FailureOr<std::vector<ValueExplanation>>
mlir::tpc::explainDistributions(ModuleOp module, const ::tpc::ShardSpec &spec, StringRef name) {
  Partitioner partitioner(module, spec);
  if (failed(partitioner.run()))
    return failure();
  llvm::SetVector<Value> found;
  std::string nearest;
  unsigned distance = 64;
  auto matches = [&](StringRef candidate) {
    if (unsigned d = name.edit_distance(candidate, true, distance); d < distance) {
      distance = d;
      nearest = candidate.str();
    }
    return candidate == name;
  };
  module.walk([&](Operation *op) {
    if (!isa<ShardingRuleOpInterface>(op))
      return;
    SmallVector<std::string> names;
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      names.push_back(parameter.getWeight().str());
    } else {
      collectNodeNames(op->getLoc(), names);
      names.push_back(getValueName(op->getLoc()));
      names.push_back(getSourceName(op->getLoc()));
    }
    // No short circuit: all names are candidates for the nearest one.
    if (llvm::count_if(names, matches))
      found.insert_range(op->getResults());
  });
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (BlockArgument input : main.getArguments())
    if (auto given = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr);
        given && matches(given.getValue()))
      found.insert(input);
  for (auto [i, output] : llvm::enumerate(main.front().getTerminator()->getOperands()))
    if (auto given = main.getResultAttrOfType<StringAttr>(i, kNameAttr);
        given && matches(given.getValue()))
      found.insert(output);
  if (found.empty())
    return emitError(module.getLoc())
           << "the model has no node, value, weight or input '" << name << "'"
           << (nearest.empty() ? "" : "; the nearest name is '" + nearest + "'");
  ValueExplainer explainer(partitioner.getState());
  std::vector<ValueExplanation> explanations;
  for (Value value : found)
    explanations.push_back(explainer.explain(value));
  return explanations;
}

FailureOr<std::map<std::pair<std::string, std::string>, std::string>>
mlir::tpc::getSplitReasons(ModuleOp module, const ::tpc::ShardSpec &spec) {
  Partitioner partitioner(module, spec);
  if (failed(partitioner.run()))
    return failure();
  std::map<std::pair<std::string, std::string>, std::string> reasons;
  for (const TacticRecord &record : std::as_const(partitioner.getState()).getRecords())
    for (auto [split, why] : llvm::zip_equal(record.splits, record.reasons))
      if (!why.empty())
        reasons[{record.name, split}] = why;
  return reasons;
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

void ValueExplanation::print(llvm::raw_ostream &os) const {
  os << op << " in @" << function << ": " << type << "\n";
  for (const SplitReason &split : splits) {
    os << "  " << split.what << "\n";
    if (!split.tactic.empty())
      os << "    by tactic " << split.tactic << (split.why.empty() ? "" : ": " + split.why) << "\n";
    else if (!split.why.empty())
      os << "    " << split.why << "\n";
    for (auto [i, step] : llvm::enumerate(split.path))
      os << "    " << (i + 1 == split.path.size() ? "seed: " : "from: ") << step << "\n";
  }
  for (const std::string &line : communication)
    os << "  " << line << "\n";
}

llvm::json::Value ValueExplanation::toJSON() const {
  llvm::json::Array list;
  for (const SplitReason &split : splits)
    list.push_back(llvm::json::Object{{"what", llvm::json::fixUTF8(split.what)},
                                      {"axis", split.axis},
                                      {"tactic", split.tactic},
                                      {"why", llvm::json::fixUTF8(split.why)},
                                      {"path", llvm::json::Array(split.path)}});
  return llvm::json::Object{{"op", llvm::json::fixUTF8(op)},
                            {"function", function},
                            {"type", type},
                            {"splits", std::move(list)},
                            {"communication", llvm::json::Array(communication)}};
}
