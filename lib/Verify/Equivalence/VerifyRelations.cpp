//===- VerifyRelations.cpp - Check of distributions in types --------------===//

#include "ProofOps.h"
#include "RelationChecker.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

InFlightDiagnostic RelationChecker::fail(Operation *op) const {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                         << ") does not compute its part of what the model computes: ";
}

LogicalResult RelationChecker::differ(InFlightDiagnostic diag, const Layout &derived,
                                      const Layout &stated) const {
  std::string where = describeDifference(derived, stated, grid);
  if (!where.empty())
    diag << " (" << where << ")";
  return diag;
}

static std::string describe(Value value, unsigned operand) {
  return "operand " + std::to_string(operand) + " (" + getSourceName(value.getLoc()) + ")";
}

LogicalResult RelationChecker::checkType(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return success();
  if (relations.contains(type))
    return success(); // already checked
  const Relation &relation = get(type);
  DenseSet<StringAttr> seen;
  auto once = [&](ArrayRef<StringAttr> axes) -> LogicalResult {
    for (StringAttr axis : axes) {
      if (!grid || !(grid.hasAxis(axis.getValue()) || axis.getValue() == kMicroBatchAxis))
        return fail(op) << "its type " << type << " names the axis '" << axis.getValue()
                        << "', which the grid does not have";
      if (!seen.insert(axis).second)
        return fail(op) << "its type " << type << " splits over '" << axis.getValue() << "' twice";
      if (staged && axis.getValue() == kPipelineAxis)
        return fail(op) << "its type " << type
                        << " is distributed over 'pp', but only one stage runs this";
    }
    return success();
  };
  for (const Layout &dim : relation.dims)
    if (failed(once(dim.getAxes())))
      return failure();
  if (failed(once(relation.partial)))
    return failure();
  if (local && !relation.local && !relation.isWhole())
    return fail(op) << "in a program of local values, its type " << type << " is global";
  if (makeTensorType(tensor.getElementType(), getDist(type), grid) != type)
    return fail(op) << "its type " << type << " has other sizes than its distribution gives, "
                    << makeTensorType(tensor.getElementType(), getDist(type), grid);
  return success();
}

/// Query head h uses kv head h / (heads per kv head), which must be on the same rank. The layout of
/// the kv heads must therefore be the layout of the major factor of the query heads.
LogicalResult RelationChecker::checkHeads(Operation *op, const Layout &query, const Layout &kv) {
  Layout rest = query;
  bool fits = kv.product.empty() && query.product.empty();
  for (const Layout::Atom &atom : kv.atoms) {
    if (!fits || rest.atoms.empty()) {
      fits = kv == query;
      break;
    }
    Layout::Atom &first = rest.atoms.front();
    std::optional<SymExpr> minor;
    if (first == atom) {
      rest.atoms.erase(rest.atoms.begin());
    } else if (first.axes.empty() && atom.axes.empty() &&
               (minor = first.size.divideExact(atom.size))) {
      first.size = *minor;
    } else {
      fits = false;
    }
  }
  if (fits || kv == query)
    return success();
  return fail(op) << "its query heads are " << query.str() << " and its kv heads " << kv.str()
                  << ": a rank would pair query heads with kv heads of others";
}

LogicalResult RelationChecker::checkFormula(Operation *op, const Lemma &lemma) {
  SmallVector<std::optional<Layout>> layouts(lemma.letters.size());
  SmallVector<std::string> from(lemma.letters.size());
  auto visit = [&](ArrayRef<int> letters, const Relation &relation,
                   const std::string &what) -> LogicalResult {
    if (letters.size() != relation.dims.size())
      return fail(op) << what << " has " << relation.dims.size() << " dimensions, not "
                      << letters.size();
    for (auto [d, letter] : llvm::enumerate(letters)) {
      const Layout &dim = relation.dims[d];
      bool whole = letter == Lemma::broadcast || lemma.letters[letter] == Lemma::Letter::All;
      if (whole && !dim.isWhole()) {
        Layout all = dim.getWhole();
        return differ(fail(op) << "it needs dimension " << d << " of " << what
                               << " whole, but a rank has " << dim.str(),
                      dim, all);
      }
      if (letter == Lemma::broadcast)
        continue;
      if (!layouts[letter]) {
        layouts[letter] = dim;
        from[letter] = what;
      } else if (*layouts[letter] != dim) {
        return differ(fail(op) << "dimension " << d << " of " << what << " is laid out as "
                               << dim.str() << ", but that of " << from[letter] << " as "
                               << layouts[letter]->str(),
                      *layouts[letter], dim);
      }
    }
    return success();
  };
  if (lemma.operands.size() != op->getNumOperands() || op->getNumResults() != 1)
    return fail(op) << "it has another number of operands than its lemma";
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (failed(visit(lemma.operands[i], get(operand), describe(operand, i))))
      return failure();
  if (failed(visit(lemma.result, get(op->getResult(0)), "the result")))
    return failure();
  if (lemma.kvHeads != Lemma::broadcast &&
      failed(checkHeads(op, *layouts[lemma.queryHeads], *layouts[lemma.kvHeads])))
    return failure();

  // An axis may split only one letter; otherwise ranks would have only diagonal blocks. Kv heads
  // are exempt, because they are a factor of the query heads.
  llvm::MapVector<StringAttr, int> roles;
  for (auto [letter, layout] : llvm::enumerate(layouts)) {
    if (!layout || int(letter) == lemma.kvHeads)
      continue;
    for (StringAttr axis : layout->getAxes())
      if (!roles.insert({axis, int(letter)}).second)
        return fail(op) << "'" << axis.getValue() << "' splits both " << layout->str() << " and "
                        << layouts[roles.lookup(axis)]->str() << " of this op";
  }
  return checkPartial(op, lemma, roles, layouts);
}

/// Checks the axes over which the result is partial (an operand of a sum, maximum or minimum): the
/// axes that split a reduced letter, and the axes of partial operands that the op propagates.
LogicalResult RelationChecker::checkPartial(Operation *op, const Lemma &lemma,
                                            const llvm::MapVector<StringAttr, int> &roles,
                                            ArrayRef<std::optional<Layout>> layouts) {
  llvm::MapVector<StringAttr, ReductionKind> derived;
  for (auto [axis, letter] : roles)
    switch (lemma.letters[letter]) {
    case Lemma::Letter::Sum:
      // Query heads of several kv heads are not added.
      if (letter != lemma.queryHeads ||
          !llvm::is_contained(layouts[lemma.kvHeads]->getAxes(), axis))
        derived[axis] = ReductionKind::Sum;
      break;
    case Lemma::Letter::Max:
      derived[axis] = ReductionKind::Max;
      break;
    case Lemma::Letter::Min:
      derived[axis] = ReductionKind::Min;
      break;
    default:
      break;
    }
  llvm::MapVector<StringAttr, SmallVector<int, 2>> parts;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    for (StringAttr axis : get(operand).partial)
      parts[axis].push_back(i);
  for (auto &[axis, operands] : parts) {
    std::string what = describe(op->getOperand(operands[0]), operands[0]);
    if (auto *role = roles.find(axis); role != roles.end())
      return fail(op) << what << " is unreduced over '" << axis.getValue()
                      << "', which also splits " << layouts[role->second]->str();
    ReductionKind kind = get(op->getOperand(operands[0])).kind;
    for (int i : operands)
      if (get(op->getOperand(i)).kind != kind)
        return fail(op) << "operands reduce in different ways over '" << axis.getValue() << "'";
    bool passes = llvm::any_of(lemma.linear, [&](const Lemma::Linear &linear) {
      return linear.operands == operands && (kind == ReductionKind::Sum || linear.moves);
    });
    if (!passes)
      return fail(op) << what << " is a part of a "
                      << (kind == ReductionKind::Sum ? "sum" : "maximum or minimum") << " over '"
                      << axis.getValue() << "' on each rank, and the op does not propagate such "
                      << "parts to its result: reduce the operand before this op";
    derived[axis] = kind;
  }

  const Relation &result = get(op->getResult(0));
  for (auto [axis, kind] : derived)
    if (!result.isPartial(axis) || result.kind != kind)
      return fail(op) << "on each rank of '" << axis.getValue() << "' the result is a part ("
                      << stringifyReductionKind(kind) << "), but its type "
                      << op->getResult(0).getType() << " declares "
                      << (result.isPartial(axis) ? "another reduction" : "it complete");
  for (StringAttr axis : result.partial)
    if (!derived.contains(axis))
      return fail(op) << "its type declares the result a part over '" << axis.getValue()
                      << "', but every rank has all of it: reduced, it would count "
                      << grid.getAxisSize(axis.getValue()) << " times";
  return success();
}

LogicalResult RelationChecker::checkOp(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(checkType(op, type)))
      return failure();
  if (auto lemma = dyn_cast<LemmaOpInterface>(op))
    return lemma.checkRelation(*this);
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                         << ") cannot be proved: the verifier has no lemma for this op";
}

LogicalResult RelationChecker::run() {
  module.walk([&](Operation *op) {
    staged |= isa<PipelineOp>(op);
    auto look = [&](Type type) {
      local |= isa<RankedTensorType>(type) && getDist(type).getLocal();
    };
    llvm::for_each(op->getResultTypes(), look);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArgumentTypes(), look);
  });
  WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    return failed(checkOp(op)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
