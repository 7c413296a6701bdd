//===- VerifyRelations.cpp - Are the types of a distributed program true? -===//

#include "Lemmas.h"

#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

namespace {

class Checker {
public:
  explicit Checker(ModuleOp module) : module(module), grid(GridAttr::lookup(module)) {}
  LogicalResult run();

private:
  const Relation &get(Type type) {
    auto [it, first] = relations.try_emplace(type);
    if (first)
      it->second = std::make_unique<Relation>(readRelation(type, grid));
    return *it->second;
  }
  const Relation &get(Value value) { return get(value.getType()); }

  InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << ") does not compute its part of what the model computes: ";
  }
  /// Adds where in the grid two layouts differ.
  LogicalResult differ(InFlightDiagnostic diag, const Layout &derived, const Layout &stated) {
    std::string where = describeDifference(derived, stated, grid);
    if (!where.empty())
      diag << " (" << where << ")";
    return diag;
  }

  LogicalResult checkType(Operation *op, Type type);
  LogicalResult checkLemma(Operation *op, const Lemma &lemma);
  LogicalResult checkHeads(Operation *op, const Layout &query, const Layout &kv);
  LogicalResult checkPartial(Operation *op, const Lemma &lemma,
                             const llvm::MapVector<StringAttr, int> &roles,
                             ArrayRef<std::optional<Layout>> layouts);
  LogicalResult checkReshape(ReshapeOp op);
  FailureOr<Axes> getGroup(Operation *op);
  LogicalResult checkMove(Operation *op);
  LogicalResult checkReduction(Operation *op);
  LogicalResult checkCall(func::CallOp call);
  LogicalResult checkFunction(func::FuncOp function);
  LogicalResult checkOp(Operation *op);

  ModuleOp module;
  GridAttr grid;
  bool local = false, staged = false;
  DenseMap<Type, std::unique_ptr<Relation>> relations;
};

std::string describe(Value value, unsigned operand) {
  return "operand " + std::to_string(operand) + " (" + getSourceName(value.getLoc()) + ")";
}

/// A type that says something about a rank's value must belong to a program of ranks, and its
/// sizes must be those that follow from it.
LogicalResult Checker::checkType(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return success();
  if (relations.contains(type))
    return success(); // seen and found good
  const Relation &relation = get(type);
  DenseSet<StringAttr> seen;
  auto once = [&](ArrayRef<StringAttr> axes) -> LogicalResult {
    for (StringAttr axis : axes) {
      if (!grid || !(grid.hasAxis(axis.getValue()) || axis.getValue() == "mb"))
        return fail(op) << "its type " << type << " names the axis '" << axis.getValue()
                        << "', which the grid does not have";
      if (!seen.insert(axis).second)
        return fail(op) << "its type " << type << " splits over '" << axis.getValue() << "' twice";
      if (staged && axis.getValue() == "pp")
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

/// Query head h uses kv head h / (heads per kv head) of the same rank. So the kv heads must be laid
/// out as the major part of the query heads.
LogicalResult Checker::checkHeads(Operation *op, const Layout &query, const Layout &kv) {
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

LogicalResult Checker::checkLemma(Operation *op, const Lemma &lemma) {
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

  // One axis for one letter: split twice, ranks would have blocks on the diagonal only. Kv heads
  // are a part of the query heads.
  llvm::MapVector<StringAttr, int> roles;
  for (auto [letter, layout] : llvm::enumerate(layouts)) {
    if (!layout || int(letter) == lemma.kvHeads)
      continue;
    for (StringAttr axis : layout->getAxes())
      if (!roles.insert({axis, int(letter)}).second)
        return fail(op) << "'" << axis.getValue() << "' splits both " << layout->str() << " and "
                        << layouts[roles.lookup(axis)]->str() << " of it";
  }
  return checkPartial(op, lemma, roles, layouts);
}

/// The axes over which the result is a part of a sum (or maximum, minimum): those that split a
/// letter that is summed, and those over which operands are parts that the op passes on.
LogicalResult Checker::checkPartial(Operation *op, const Lemma &lemma,
                                    const llvm::MapVector<StringAttr, int> &roles,
                                    ArrayRef<std::optional<Layout>> layouts) {
  llvm::MapVector<StringAttr, ReductionKind> derived;
  for (auto [axis, letter] : roles)
    switch (lemma.letters[letter]) {
    case Lemma::Letter::Sum:
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
                      << axis.getValue() << "' on each rank, and of parts the op does not make "
                      << "parts of its result: reduce it before, once";
    derived[axis] = kind;
  }

  const Relation &result = get(op->getResult(0));
  for (auto [axis, kind] : derived)
    if (!result.isPartial(axis) || result.kind != kind)
      return fail(op) << "on each rank of '" << axis.getValue() << "' the result is a part ("
                      << stringifyReductionKind(kind) << "), but its type "
                      << op->getResult(0).getType() << " says "
                      << (result.isPartial(axis) ? "that it reduces otherwise" : "it is complete");
  for (StringAttr axis : result.partial)
    if (!derived.contains(axis))
      return fail(op) << "its type says that the result is a part over '" << axis.getValue()
                      << "', but every rank has all of it: reduced, it would count "
                      << grid.getAxisSize(axis.getValue()) << " times";
  return success();
}

/// Row-major order is lexicographic in the atoms, so a local reshape is right if both sides are
/// made of the same atoms in the same order; what is not split may be divided in any way.
LogicalResult Checker::checkReshape(ReshapeOp op) {
  const Relation &in = get(op.getOperand()), &out = get(op.getResult());
  auto flatten = [](const Relation &relation) {
    SmallVector<Layout, 4> items;
    Layout run; // of atoms, across dimensions
    auto flush = [&] {
      for (const Layout::Atom &atom : run.atoms)
        items.push_back({{atom}, {}});
      run = {};
    };
    for (const Layout &dim : relation.dims) {
      if (dim.product.empty()) {
        llvm::append_range(run.atoms, dim.atoms);
        run.canonicalize();
        continue;
      }
      flush();
      items.push_back(dim);
    }
    flush();
    return items;
  };
  auto a = flatten(in), b = flatten(out);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i])
      continue;
    InFlightDiagnostic diag = fail(op) << "row by row, the operand is laid out as ";
    auto print = [&](ArrayRef<Layout> items) {
      llvm::interleave(items, diag, [&](const Layout &item) { diag << item.str(); }, " * ");
    };
    print(a);
    diag << " and the result as ";
    print(b);
    if (i < a.size() && i < b.size())
      return differ(std::move(diag), a[i], b[i]);
    return diag;
  }
  if (in.partial != out.partial || (!in.partial.empty() && in.kind != out.kind))
    return fail(op) << "the operand is unreduced over {" << toText(in.partial)
                    << "} and the result over {" << toText(out.partial) << "}";
  return success();
}

/// The axes of a group that have more than one coordinate. Of micro-batches a rank has one at a
/// time: they can be taken apart, and not put together.
FailureOr<Axes> Checker::getGroup(Operation *op) {
  Axes axes;
  auto list = op->getAttrOfType<ArrayAttr>("axes");
  if (!list)
    return axes;
  for (auto axis : list.getAsRange<StringAttr>()) {
    if (grid && grid.getAxisSize(axis.getValue()) == 1)
      continue;
    if (axis.getValue() == "mb" && !isa<LocalSliceOp>(op))
      return fail(op) << "it puts micro-batches together, of which a rank has one at a time";
    axes.push_back(axis);
  }
  return axes;
}

/// Communication that moves data, and slices: what each rank gets follows from the two types;
/// the parts that the result wants must be there, and nothing else may change.
LogicalResult Checker::checkMove(Operation *op) {
  const Relation &in = get(op->getOperand(0)), &out = get(op->getResult(0));
  FailureOr<Axes> group = getGroup(op);
  if (failed(group))
    return failure();
  const Axes &axes = *group;
  if (in.partial != out.partial || (!in.partial.empty() && in.kind != out.kind))
    return fail(op) << "the operand is unreduced over {" << toText(in.partial)
                    << "} and the result over {" << toText(out.partial)
                    << "}, but nothing is added here";
  int64_t lost = -1, gained = -1, shifted = -1; // dimensions: split no more, split now, with shifts
  if (auto slice = dyn_cast<LocalSliceOp>(op))
    gained = slice.getDim();
  else if (auto gather = dyn_cast<AllGatherOp>(op))
    lost = gather.getDim();
  else if (auto exchange = dyn_cast<AllToAllOp>(op))
    lost = exchange.getFromDim(), gained = exchange.getToDim();
  else if (isa<CollectivePermuteOp, RollOp>(op))
    shifted = op->getAttrOfType<IntegerAttr>("dim").getInt();
  else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (StringAttr axis : axes)
      if (in.uses(axis))
        return fail(op) << "ranks differ along '" << axis.getValue()
                        << "', and a broadcast gives all of them the part of coordinate "
                        << broadcast.getRoot();
  }
  if (gained >= 0 && lost < 0)
    for (StringAttr axis : axes)
      if (in.uses(axis))
        return fail(op) << "it takes parts over '" << axis.getValue()
                        << "', but ranks along it have different values already";
  if (in.dims.size() != out.dims.size() || gained >= int64_t(in.dims.size()) ||
      shifted >= int64_t(in.dims.size()) || lost >= int64_t(in.dims.size()) ||
      (lost >= 0 && lost == gained))
    return fail(op) << "its dimensions are not those of " << op->getOperand(0).getType();
  for (auto [d, from, to] : llvm::enumerate(in.dims, out.dims)) {
    if (bool exchanges = isa<ExchangeOp>(op); exchanges || int64_t(d) == shifted) {
      auto every = op->getAttrOfType<StringAttr>("every");
      std::string wrong = exchanges
                              ? explainExchange(from, to, axes)
                              : explainShift(from, to, axes, every && local ? every.str() : "");
      if (!wrong.empty())
        return fail(op) << wrong << " in dimension " << d;
      continue;
    }
    bool good = int64_t(d) == gained ? isSplitFurther(from, axes, to)
                : int64_t(d) == lost ? isSplitFurther(to, axes, from)
                                     : from == to;
    if (!good)
      return differ(fail(op) << "over {" << toText(axes) << "} it cannot make dimension " << d
                             << " " << to.str() << " of " << from.str(),
                    to, from);
  }
  return success();
}

LogicalResult Checker::checkReduction(Operation *op) {
  const Relation &in = get(op->getOperand(0)), &out = get(op->getResult(0));
  FailureOr<Axes> group = getGroup(op);
  if (failed(group))
    return failure();
  const Axes &axes = *group;
  Axes left;
  for (StringAttr axis : axes)
    if (!in.isPartial(axis))
      return fail(op) << "it adds over '" << axis.getValue()
                      << "', but the operand is complete on every rank along it: it would count "
                      << grid.getAxisSize(axis.getValue()) << " times";
  for (StringAttr axis : in.partial)
    if (!llvm::is_contained(axes, axis))
      left.push_back(axis);
  if (left != out.partial || (!left.empty() && in.kind != out.kind))
    return fail(op) << "after it the value is unreduced over {" << toText(left)
                    << "}, but its type says {" << toText(out.partial) << "}";
  int64_t split = -1;
  if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    split = scatter.getDim();
  if (in.dims.size() != out.dims.size() || split >= int64_t(in.dims.size()))
    return fail(op) << "its dimensions are not those of " << op->getOperand(0).getType();
  for (auto [d, from, to] : llvm::enumerate(in.dims, out.dims))
    if (int64_t(d) == split ? !isSplitFurther(from, axes, to) : from != to)
      return differ(fail(op) << "over {" << toText(axes) << "} it cannot make dimension " << d
                             << " " << to.str() << " of " << from.str(),
                    to, from);
  return success();
}

LogicalResult Checker::checkCall(func::CallOp call) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal())
    return fail(call) << "@" << call.getCallee() << " has no body";
  auto agree = [&](TypeRange here, TypeRange there, StringRef what) -> LogicalResult {
    if (here.size() != there.size())
      return fail(call) << "@" << call.getCallee() << " has another number of " << what << "s";
    for (auto [i, a, b] : llvm::enumerate(here, there))
      if (a != b)
        return fail(call) << what << " " << i << " of @" << call.getCallee() << " is " << b
                          << " there, but here " << a;
    return success();
  };
  if (failed(agree(call.getOperandTypes(), callee.getArgumentTypes(), "argument")))
    return failure();
  return agree(call.getResultTypes(), callee.getResultTypes(), "result");
}

LogicalResult Checker::checkFunction(func::FuncOp function) {
  if (function.isExternal())
    return success();
  for (Type type : function.getArgumentTypes())
    if (failed(checkType(function, type)))
      return failure();
  if (function.front().getArgumentTypes() != TypeRange(function.getArgumentTypes()))
    return fail(function) << "its arguments have other types than its signature";
  if (function.getName() != "main")
    return success();
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (!get(type).isWhole())
      return fail(function) << "input " << i << " is whole on every rank, but its type is " << type;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (!get(type).partial.empty())
      return fail(function) << "output " << i << " is delivered unreduced over {"
                            << toText(get(type).partial) << "}";
  return success();
}

LogicalResult Checker::checkOp(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(checkType(op, type)))
      return failure();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](ReshapeOp reshape) { return checkReshape(reshape); })
      .Case<LocalSliceOp, AllGatherOp, AllToAllOp, CollectivePermuteOp, ExchangeOp, RollOp,
            BroadcastOp>([&](Operation *o) { return checkMove(o); })
      .Case<AllReduceOp, ReduceScatterOp>([&](Operation *o) { return checkReduction(o); })
      .Case([&](func::CallOp call) { return checkCall(call); })
      .Case([&](func::FuncOp function) { return checkFunction(function); })
      .Case([&](func::ReturnOp ret) -> LogicalResult {
        auto function = cast<func::FuncOp>(ret->getParentOp());
        if (TypeRange(ret.getOperandTypes()) != TypeRange(function.getResultTypes()))
          return fail(ret) << "it returns other types than @" << function.getName() << " has";
        return success();
      })
      .Case([&](ReshardOp reshard) -> LogicalResult {
        // The same whole value by definition; what lowers it is checked as communication.
        if (local)
          return fail(reshard) << "a local program cannot hold it: run tpc-lower-reshards first";
        return success();
      })
      .Case([&](PipelineOp pipeline) -> LogicalResult {
        for (BlockArgument input : pipeline.getBody().front().getArguments())
          if (failed(checkType(op, input.getType())))
            return failure();
          else if (!get(input).isWhole())
            return fail(op) << "input " << input.getArgNumber()
                            << " is whole on every rank, but its type is " << input.getType();
        return success();
      })
      .Case([&](OutputOp output) -> LogicalResult {
        if (!get(output.getValue()).partial.empty())
          return fail(op) << "output " << output.getIndex() << " is delivered unreduced over {"
                          << toText(get(output.getValue()).partial) << "}";
        return success();
      })
      .Case<ModuleOp, WeightOp, StageOp, MicroBatchesOp, SendOp, RecvOp>(
          [](Operation *) { return success(); })
      .Default([&](Operation *o) -> LogicalResult {
        if (std::optional<Lemma> lemma = getLemma(o))
          return checkLemma(o, *lemma);
        return o->emitError() << "'" << getSourceName(o->getLoc()) << "' (" << o->getName()
                              << ") cannot be proved: the verifier has no lemma for this op";
      });
}

LogicalResult Checker::run() {
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

} // namespace

LogicalResult equivalence::verifyRelations(ModuleOp module) { return Checker(module).run(); }
