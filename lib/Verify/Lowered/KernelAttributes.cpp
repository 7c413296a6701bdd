//===- KernelAttributes.cpp - Attributes of lowered ops, and lookup checks ===//
//
// Runs at small sizes do not test promises to LLVM, such as flags for no overflow, alignment and
// reassociation. Kernels do not need such flags. This file lists the attributes that other checks
// compare or interpret; all other attributes are errors.
//
// A bounds check of a lookup reports an index to the user. Its index, size and ONNX node must match
// a lookup of the tensor function. Nodes are not compared if the text has no locations.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"

#include "../Buffers/PartSizes.h"

#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// Returns whether other checks compare the attribute, or the interpreter implements it.
static bool isCompared(Operation *op, StringRef name) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](arith::ConstantOp) { return name == "value"; })
      .Case<arith::CmpIOp, arith::CmpFOp>([&](auto) { return name == "predicate"; })
      .Case([&](kernel::FuncOp) {
        return name == "sym_name" || name == "sizes" || name == "num_results" ||
               name == "row_dims" || name == "row_strides" || name == "over";
      })
      .Case<kernel::RowsOp, kernel::ElementsOp>([&](auto) { return name == "sizes"; })
      // `adjacent` selects the order of a reduction, which is implementation-defined.
      .Case([&](kernel::FoldOp) {
        return name == "kind" || name == "sizes" || name == "adjacent" || name == "init" ||
               name == "identity";
      })
      .Case([&](kernel::SizeOp) { return name == "size"; })
      .Case([&](kernel::CheckOp) { return name == "node"; })
      .Default([](Operation *) { return false; });
}

/// Returns whether an attribute value makes no promise to LLVM.
static bool isNeutral(Attribute value) {
  if (auto flags = dyn_cast<arith::FastMathFlagsAttr>(value))
    return flags.getValue() == arith::FastMathFlags::none;
  if (auto flags = dyn_cast<arith::IntegerOverflowFlagsAttr>(value))
    return flags.getValue() == arith::IntegerOverflowFlags::none;
  if (auto flag = dyn_cast<BoolAttr>(value))
    return !flag.getValue();
  return false;
}

static LogicalResult checkAttributes(Operation *op) {
  auto check = [&](DictionaryAttr attributes, bool isInherent) -> LogicalResult {
    for (NamedAttribute attr : attributes)
      if (!isInherent || !(isCompared(op, attr.getName()) || isNeutral(attr.getValue())))
        return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                               << "): has '" << attr.getName().getValue() << "' " << attr.getValue()
                               << ", which no check covers; remove it";
    return success();
  };
  if (auto inherent = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute()))
    if (failed(check(inherent, true)))
      return failure();
  return check(op->getDiscardableAttrDictionary(), false);
}

LogicalResult lowered::checkAttributes(ModuleOp program) {
  auto refuses = [](WalkResult result) { return result.wasInterrupted(); };
  if (ModuleOp library = kernel::getKernels(program))
    for (auto function : library.getOps<kernel::FuncOp>())
      if (refuses(function.walk([](Operation *op) { return WalkResult(::checkAttributes(op)); })))
        return failure();
  // tpc-verify-buffers compares inherent attributes of ops on buffers, or the interpreter
  // implements them.
  for (auto function : program.getOps<buffer::FuncOp>())
    if (refuses(function.walk([](Operation *op) -> WalkResult {
          DictionaryAttr others = op->getDiscardableAttrDictionary();
          if (others.empty())
            return WalkResult::advance();
          return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                                 << "): has '" << others.begin()->getName().getValue()
                                 << "', which no check covers; remove it";
        })))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Checks that the module of kernels has no other functions, which might replace a function of
/// libm, such as expf.
static LogicalResult checkLibrary(ModuleOp staged, ModuleOp library) {
  for (NamedAttribute attr : library->getDiscardableAttrs())
    return library.emitError() << "the module of kernels has '" << attr.getName().getValue()
                               << "', which no check covers; remove it";
  for (Operation &op : *library.getBody()) {
    auto function = dyn_cast<kernel::FuncOp>(op);
    if (!function)
      return op.emitError() << "'" << op.getName() << "' is in the module of kernels, but is no "
                            << "kernel; remove it";
    // Kernels that this compiler outlines have this prefix.
    if (!function.getSymName().starts_with("kernel") && !staged.lookupSymbol(function.getSymName()))
      return op.emitError() << "kernel @" << function.getSymName() << " might replace a library "
                            << "function of this name; begin the name with 'kernel'";
  }
  return success();
}

LogicalResult lowered::checkFunctions(ModuleOp staged, ModuleOp program) {
  ModuleOp library = kernel::getKernels(program);
  if (library && failed(checkLibrary(staged, library)))
    return failure();
  for (Operation &op : *program.getBody()) {
    if (&op == library || isa<buffer::FuncOp, buffer::EntryOp>(op))
      continue;
    auto name = op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
    if (name && isa<func::FuncOp>(op) && op.hasAttr(kKernelAttr)) {
      if (library && library.lookupSymbol<kernel::FuncOp>(name))
        continue;
      return op.emitError() << "tensor function @" << name.getValue() << " has no kernel";
    }
    Operation *before = name ? staged.lookupSymbol(name) : nullptr;
    if (!before || before->getName() != op.getName()) {
      InFlightDiagnostic diag = op.emitError() << "'" << op.getName() << "' ";
      if (name)
        diag << "@" << name.getValue() << " ";
      return diag << "has no counterpart in the staged program; remove it";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Bounds checks of lookups
//===----------------------------------------------------------------------===//

namespace {
using Reached = std::set<unsigned>; // arguments of the tensor function

/// A dimension whose rows are looked up.
struct Lookup {
  std::optional<std::string> node; // none in text without locations
  SymExpr size;
  Reached ids; // arguments that the ids are computed from
  Operation *op;
  bool isChecked = false;
};

class LookupChecker {
public:
  LookupChecker(kernel::FuncOp function, func::FuncOp tensors);
  LogicalResult check(kernel::CheckOp op);
  /// Checks that each lookup has a bounds check.
  LogicalResult checkAll();

private:
  void reachTensor(Value value, Reached &reached);
  void reachScalar(Value value, Reached &reached, DenseSet<Value> &seen);
  InFlightDiagnostic fail(kernel::CheckOp op) {
    return op.emitError() << "'" << op.getNode() << "' (" << op->getName() << ") in kernel @"
                          << function.getSymName() << ": ";
  }

  kernel::FuncOp function;
  PartSizes parts;
  SmallVector<Lookup> lookups;
  /// Indexed by the kernel's argument.
  SmallVector<Reached> memory;
};
} // namespace

void LookupChecker::reachTensor(Value value, Reached &reached) {
  SmallVector<Value> work{value};
  DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next))
      reached.insert(argument.getArgNumber());
    else
      llvm::append_range(work, next.getDefiningOp()->getOperands());
  }
}

LookupChecker::LookupChecker(kernel::FuncOp function, func::FuncOp tensors)
    : function(function), parts(MeshAttr::lookup(tensors)) {
  tensors.walk([&](Operation *op) {
    auto add = [&](Value table, int64_t dim, Value ids) {
      Lookup lookup{std::nullopt, getDist(table).getDims()[dim].getExpr(), {}, op};
      if (op->getLoc()->findInstanceOf<NameLoc>())
        lookup.node = getSourceName(op->getLoc());
      reachTensor(ids, lookup.ids);
      lookups.push_back(std::move(lookup));
    };
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      add(embedding.getTable(), 0, embedding.getIds());
    else if (auto gather = dyn_cast<GatherOp>(op))
      add(gather.getData(), gather.getDim(), gather.getIndices());
    else if (auto gather = dyn_cast<GatherNDOp>(op)) {
      int64_t first = gather.getBatchDims();
      int64_t count = cast<RankedTensorType>(gather.getIndices().getType()).getShape().back();
      for (int64_t dim = first; dim < first + count; ++dim)
        add(gather.getData(), dim, gather.getIndices());
    }
  });
  // Arguments are the operands, without caches to which results are appended, and then the results
  // (KernelConstants.cpp).
  OperandRange results = tensors.front().getTerminator()->getOperands();
  SmallVector<Value> values(tensors.getArguments());
  for (Value result : results)
    if (auto append = result.getDefiningOp<AppendOp>())
      llvm::erase(values, append.getCache());
  llvm::append_range(values, results);
  for (Value value : values)
    reachTensor(value, memory.emplace_back());
}

void LookupChecker::reachScalar(Value value, Reached &reached, DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() == &function.getBody().front() &&
        argument.getArgNumber() < memory.size())
      reached.insert(memory[argument.getArgNumber()].begin(),
                     memory[argument.getArgNumber()].end());
    return;
  }
  Operation *op = value.getDefiningOp();
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      reachScalar(operand, reached, seen);
  });
}

/// Returns whether `exists` compares `index` (plus `size` if negative) with `size`.
static bool isComparison(Value exists, Value index, Value size) {
  auto isSize = [&](Value value) {
    if (value == size)
      return true;
    auto x = value.getDefiningOp<kernel::SizeOp>(), y = size.getDefiningOp<kernel::SizeOp>();
    return x && y && x.getExpr() == y.getExpr();
  };
  auto below = exists.getDefiningOp<arith::CmpIOp>();
  if (!below || below.getPredicate() != arith::CmpIPredicate::ult || !isSize(below.getRhs()))
    return false;
  auto row = below.getLhs().getDefiningOp<arith::SelectOp>();
  if (!row || row.getFalseValue() != index)
    return false;
  auto negative = row.getCondition().getDefiningOp<arith::CmpIOp>();
  auto fromEnd = row.getTrueValue().getDefiningOp<arith::AddIOp>();
  return negative && fromEnd && negative.getPredicate() == arith::CmpIPredicate::slt &&
         negative.getLhs() == index && getConstantIntValue(negative.getRhs()) == 0 &&
         fromEnd.getLhs() == index && isSize(fromEnd.getRhs());
}

LogicalResult LookupChecker::check(kernel::CheckOp op) {
  if (!isComparison(op.getExists(), op.getIndex(), op.getSize()))
    return fail(op) << "does not report whether its own index, counted from the end if it is "
                       "negative, is less than its own size";
  std::optional<SymExpr> size;
  if (auto named = op.getSize().getDefiningOp<kernel::SizeOp>())
    size = named.getExpr();
  else if (auto constant = getConstantIntValue(op.getSize()))
    size = SymExpr(*constant);
  Reached ids;
  DenseSet<Value> seen;
  reachScalar(op.getIndex(), ids, seen);
  bool isNamed = false, hasSize = false, hasIds = false;
  for (Lookup &lookup : lookups) {
    if (lookup.node && *lookup.node != op.getNode())
      continue;
    isNamed = true;
    if (!size || parts.normalize(*size) != parts.normalize(lookup.size))
      continue;
    hasSize = true;
    if (ids.empty() == lookup.ids.empty() &&
        std::includes(lookup.ids.begin(), lookup.ids.end(), ids.begin(), ids.end())) {
      hasIds = true;
      lookup.isChecked = true;
    }
  }
  if (hasIds)
    return success();
  if (!isNamed)
    return fail(op) << "its tensor function has no lookup at this node";
  if (!hasSize)
    return fail(op) << "the table of this node does not have the size "
                    << (size ? "'" + size->str() + "'" : "that is reported");
  return fail(op)
         << "reports an index that is computed from other operands than the ids of this node";
}

LogicalResult LookupChecker::checkAll() {
  for (const Lookup &lookup : lookups)
    if (!lookup.isChecked)
      return lookup.op->emitError()
             << "'" << getSourceName(lookup.op->getLoc()) << "' (" << lookup.op->getName()
             << "): kernel @" << function.getSymName()
             << " does not report indices out of bounds of the '" << lookup.size.str()
             << "' rows of its table";
  return success();
}

LogicalResult lowered::checkLookups(kernel::FuncOp function, func::FuncOp tensors) {
  LookupChecker checker(function, tensors);
  WalkResult result =
      function.walk([&](kernel::CheckOp op) { return WalkResult(checker.check(op)); });
  return failure(result.wasInterrupted() || failed(checker.checkAll()));
}
