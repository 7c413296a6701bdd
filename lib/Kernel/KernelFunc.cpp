//===- KernelFunc.cpp - Kernels and their verification --------------------===//

#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <set>

using namespace mlir;
using namespace mlir::tpc::kernel;
using mlir::tpc::parseSymExpr;
using mlir::tpc::parseSymExprs;
using mlir::tpc::printSymExpr;
using mlir::tpc::printSymExprs;
using mlir::tpc::SymExprAttr;
using ::tpc::SymExpr;

mlir::ModuleOp mlir::tpc::kernel::getKernels(ModuleOp program) {
  auto inner = program.getOps<ModuleOp>();
  return inner.empty() ? ModuleOp() : *inner.begin();
}

static MemRefType getMemory(Type element, size_t rank) {
  return MemRefType::get(SmallVector<int64_t>(rank, ShapedType::kDynamic), element);
}

void FuncOp::build(OpBuilder &b, OperationState &state, StringRef name, TypeRange elements,
                   ArrayRef<SmallVector<SymExpr>> sizes, unsigned numResults) {
  state.addAttribute("sym_name", b.getStringAttr(name));
  state.addAttribute("num_results", b.getI64IntegerAttr(numResults));
  Block &body = state.addRegion()->emplaceBlock();
  SmallVector<Attribute> all;
  for (auto [element, shape] : llvm::zip_equal(elements, sizes)) {
    all.push_back(SymExprAttr::getArray(b.getContext(), shape));
    body.addArgument(getMemory(element, shape.size()), state.location);
  }
  state.addAttribute("sizes", b.getArrayAttr(all));
}

//===----------------------------------------------------------------------===//
// @name(%x: memref<?xf32> of [768]) -> (%y: memref<?xf32> of [768]) { … }
//===----------------------------------------------------------------------===//

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> sizes, strides;
  SmallVector<int64_t> dims, over; // `over`: one number for each operand and result
  bool hasStrides = false, hasOver = false;
  auto parseOne = [&]() -> ParseResult {
    ArrayAttr shape;
    if (parser.parseArgument(arguments.emplace_back(), /*allowType=*/true) ||
        parser.parseKeyword("of") || parseSymExprs(parser, shape))
      return failure();
    sizes.push_back(shape);
    int64_t rows = 0;
    SymExprAttr stride = SymExprAttr::get(parser.getContext(), SymExpr(0));
    if (succeeded(parser.parseOptionalKeyword("rows"))) {
      hasStrides = true;
      if (parser.parseInteger(rows) || parser.parseKeyword("stride") ||
          parseSymExpr(parser, stride))
        return failure();
    }
    dims.push_back(rows);
    strides.push_back(stride);
    over.push_back(-1);
    if (failed(parser.parseOptionalKeyword("over")))
      return success();
    hasOver = true;
    OpAsmParser::UnresolvedOperand operand;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseOperand(operand))
      return failure();
    auto named = llvm::find_if(arguments, [&](const OpAsmParser::Argument &argument) {
      return argument.ssaName.name == operand.name && argument.ssaName.number == operand.number;
    });
    if (named == arguments.end())
      return parser.emitError(loc) << "'" << operand.name << "' is no operand of the kernel";
    over.back() = named - arguments.begin();
    return success();
  };
  if (parser.parseSymbolName(name, "sym_name", state.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  size_t operands = sizes.size();
  if (parser.parseArrow() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne) ||
      parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  Builder &b = parser.getBuilder();
  state.addAttribute("sizes", b.getArrayAttr(sizes));
  state.addAttribute("num_results", b.getI64IntegerAttr(sizes.size() - operands));
  if (hasStrides) {
    state.addAttribute("row_dims", b.getDenseI64ArrayAttr(dims));
    state.addAttribute("row_strides", b.getArrayAttr(strides));
  }
  if (hasOver)
    state.addAttribute("over", b.getDenseI64ArrayAttr(ArrayRef(over).drop_front(operands)));
  return parser.parseRegion(*state.addRegion(), arguments);
}

void FuncOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  auto printList = [&](Block::BlockArgListType memory) {
    printer << '(';
    llvm::interleaveComma(memory, printer, [&](BlockArgument arg) {
      printer.printRegionArgument(arg);
      printer << " of ";
      printSymExprs(printer, cast<ArrayAttr>(getSizes()[arg.getArgNumber()]));
      if (auto rows = getRowStride(arg)) {
        printer << " rows " << rows->dims << " stride ";
        printSymExpr(printer, SymExprAttr::get(getContext(), rows->stride));
      }
      unsigned operands = getOperandMemory().size(), number = arg.getArgNumber();
      if (auto operand = number < operands ? std::nullopt : getOverwritten(number - operands)) {
        printer << " over ";
        printer.printOperand(getBody().getArgument(*operand));
      }
    });
    printer << ')';
  };
  printList(getOperandMemory());
  printer << " -> ";
  printList(getResultMemory());
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"sym_name", "sizes", "num_results", "row_dims", "row_strides", "over"});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

SmallVector<SymExpr> FuncOp::getSizesOf(Value memory) {
  unsigned number = cast<BlockArgument>(memory).getArgNumber();
  return SymExprAttr::getExprs(cast<ArrayAttr>(getSizes()[number]));
}

std::optional<FuncOp::RowStride> FuncOp::getRowStride(Value memory) {
  unsigned number = cast<BlockArgument>(memory).getArgNumber();
  if (!getRowDims() || (*getRowDims())[number] == 0)
    return std::nullopt;
  return RowStride{unsigned((*getRowDims())[number]),
                   cast<SymExprAttr>((*getRowStrides())[number]).getExpr()};
}

std::optional<unsigned> FuncOp::getOverwritten(unsigned result) {
  if (!getOver() || (*getOver())[result] < 0)
    return std::nullopt;
  return (*getOver())[result];
}

bool FuncOp::isOverwritten(Value operand) {
  return getOver() && llvm::is_contained(*getOver(), cast<BlockArgument>(operand).getArgNumber());
}

void FuncOp::setOverwritten(unsigned result, unsigned operand) {
  SmallVector<int64_t> over(getNumResults(), -1);
  if (getOver())
    over.assign(getOver()->begin(), getOver()->end());
  over[result] = operand;
  setOver(over);
}

void FuncOp::setRowStride(unsigned argument, std::optional<RowStride> rows) {
  size_t count = getSizes().size();
  SmallVector<int64_t> dims(count, 0);
  SmallVector<Attribute> strides(count, SymExprAttr::get(getContext(), SymExpr(0)));
  if (getRowDims()) {
    dims.assign(getRowDims()->begin(), getRowDims()->end());
    strides.assign(getRowStrides()->begin(), getRowStrides()->end());
  }
  dims[argument] = rows ? rows->dims : 0;
  strides[argument] = SymExprAttr::get(getContext(), rows ? rows->stride : SymExpr(0));
  if (llvm::all_of(dims, [](int64_t numDims) { return numDims == 0; })) {
    removeRowDimsAttr();
    removeRowStridesAttr();
    return;
  }
  setRowDims(dims);
  setRowStridesAttr(ArrayAttr::get(getContext(), strides));
}

/// Whether a store is unconditional and to the current row.
static bool storesRow(memref::StoreOp store, RowsOp rows) {
  auto rowIndices = rows.getIndices();
  return isa<ElementsOp>(store->getParentOp()) && store.getIndices().size() >= rowIndices.size() &&
         llvm::equal(store.getIndices().take_front(rowIndices.size()), rowIndices);
}

bool FuncOp::isPartiallyWritten(Value result) {
  RowsOp rows = getRows();
  WalkResult walked = rows.walk([&](memref::StoreOp store) {
    return WalkResult(success(store.getMemref() != result || storesRow(store, rows)));
  });
  return walked.wasInterrupted();
}

RowsOp FuncOp::getRows() { return cast<RowsOp>(getBody().front().back()); }

SmallVector<SymExpr> FuncOp::getExtents() {
  SmallVector<SymExpr> found;
  std::set<std::string> seen;
  auto add = [&](const SymExpr &size) {
    if (!size.isConstant() && seen.insert(size.str()).second)
      found.push_back(size);
  };
  for (Value memory : getBody().getArguments()) {
    llvm::for_each(getSizesOf(memory), add);
    if (auto rows = getRowStride(memory))
      add(rows->stride);
  }
  getBody().walk([&](Operation *op) {
    if (auto elements = dyn_cast<ElementsOp>(op))
      llvm::for_each(elements.getExprs(), add);
    if (auto fold = dyn_cast<FoldOp>(op))
      llvm::for_each(fold.getExprs(), add);
    if (auto size = dyn_cast<SizeOp>(op))
      add(size.getExpr());
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

/// Checks the form of the marks `over`; RowVerifier checks the loads.
static LogicalResult verifyOver(FuncOp function) {
  if (!function.getOver())
    return success();
  ArrayRef<int64_t> over = *function.getOver();
  if (over.size() != function.getNumResults())
    return function.emitOpError() << "has " << function.getNumResults() << " results, but 'over' "
                                  << "lists " << over.size();
  for (auto [result, operand] : llvm::enumerate(over)) {
    if (operand == -1)
      continue;
    if (operand < -1 || operand >= int64_t(function.getOperandMemory().size()))
      return function.emitOpError()
             << "result " << result << " is over operand " << operand << ", which does not exist";
    BlockArgument from = function.getOperandMemory()[operand],
                  to = function.getResultMemory()[result];
    if (from.getType() != to.getType() || function.getSizesOf(from) != function.getSizesOf(to) ||
        function.getRowStride(from))
      return function.emitOpError() << "result " << result << " is over operand " << operand
                                    << ", which has another type, other sizes or a row stride";
    if (llvm::count(over, operand) > 1)
      return function.emitOpError() << "has two results over operand " << operand;
  }
  return success();
}

LogicalResult FuncOp::verify() {
  Block &body = getBody().front();
  if (body.getNumArguments() != getSizes().size() || getNumResults() < 1 ||
      getNumResults() > body.getNumArguments())
    return emitOpError() << "must have a result, and sizes for each operand and result, but has "
                         << body.getNumArguments() << " operands and results, sizes of "
                         << getSizes().size() << ", and " << getNumResults() << " results";
  for (BlockArgument arg : body.getArguments()) {
    auto sizes = cast<ArrayAttr>(getSizes()[arg.getArgNumber()]);
    auto type = dyn_cast<MemRefType>(arg.getType());
    if (!type || !type.getElementType().isSignlessIntOrFloat() ||
        type != getMemory(type.getElementType(), sizes.size()))
      return emitOpError() << "argument " << arg.getArgNumber() << " is " << arg.getType()
                           << ", but must be a dense memref of signless numbers with "
                           << sizes.size() << " dynamic dimensions, one for each size";
  }
  if (getRowDims().has_value() != getRowStrides().has_value() ||
      (getRowDims() &&
       (getRowDims()->size() != getSizes().size() || getRowStrides()->size() != getSizes().size())))
    return emitOpError() << "must have a row stride for each operand and result";
  for (BlockArgument arg : body.getArguments())
    if (auto rows = getRowStride(arg)) {
      if (llvm::is_contained(getResultMemory(), arg))
        return emitOpError() << "argument " << arg.getArgNumber()
                             << " is a result and must not have a row stride";
      if ((*getRowDims())[arg.getArgNumber()] < 0 || rows->dims > getSizesOf(arg).size())
        return emitOpError() << "argument " << arg.getArgNumber() << " has "
                             << getSizesOf(arg).size() << " dimensions, but 'rows' is "
                             << (*getRowDims())[arg.getArgNumber()];
    }
  if (failed(verifyOver(*this)))
    return failure();
  if (body.empty() || !isa<RowsOp>(body.back()))
    return emitOpError() << "must end with its tpc_kernel.rows";
  for (Operation &op : llvm::drop_end(body))
    if (!isa<SizeOp, arith::ConstantOp>(op))
      return op.emitOpError() << "is before the rows of a kernel, where only sizes and "
                                 "constants are allowed";
  return success();
}

static bool isAllowed(Operation *op) {
  return isa<TpcKernelDialect, arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
         isa<scf::IfOp, scf::ForOp, scf::YieldOp, memref::LoadOp, memref::StoreOp>(op);
}

namespace {
/// Walks the body of the row loop in program order and tracks stored results and barriers.
class RowVerifier {
public:
  RowVerifier(FuncOp function)
      : rows(function.getRows()),
        results(function.getResultMemory().begin(), function.getResultMemory().end()) {}

  LogicalResult run() {
    auto function = cast<FuncOp>(rows->getParentOp());
    for (auto [i, result] : llvm::enumerate(function.getResultMemory()))
      if (auto operand = function.getOverwritten(i);
          operand && failed(checkOverwrite(function.getBody().getArgument(*operand), result)))
        return failure();
    for (Operation &op : rows.getBody().front()) {
      if (isa<BarrierOp>(op)) {
        visible.insert(stored.begin(), stored.end());
        continue;
      }
      WalkResult walked = op.walk([&](Operation *inner) { return WalkResult(visit(inner)); });
      if (walked.wasInterrupted())
        return failure();
    }
    for (Value result : results)
      if (!stored.contains(result))
        return rows.emitOpError() << "never stores result " << getResultNumber(result);
    return success();
  }

private:
  unsigned getResultNumber(Value result) {
    auto function = cast<FuncOp>(rows->getParentOp());
    return cast<BlockArgument>(result).getArgNumber() - function.getOperandMemory().size();
  }

  bool isInRow(ValueRange indices) {
    auto rowIndices = rows.getIndices();
    return indices.size() >= rowIndices.size() &&
           llvm::equal(indices.take_front(rowIndices.size()), rowIndices);
  }

  /// Checks that the rows load an element of `operand` only before they store the same element of
  /// `result`, which may have the same memory, and in the same iteration.
  LogicalResult checkOverwrite(Value operand, Value result) {
    memref::StoreOp store;
    for (Operation *user : result.getUsers())
      if (auto found = dyn_cast<memref::StoreOp>(user))
        store = found;
    auto elements = store ? dyn_cast<ElementsOp>(store->getParentOp()) : ElementsOp();
    SmallVector<Value> iteration(rows.getIndices());
    if (elements)
      llvm::append_range(iteration, elements.getIndices());
    if (!elements || !llvm::equal(store.getIndices(), iteration))
      return rows.emitOpError() << "must store each element of result " << getResultNumber(result)
                                << " in the iteration of its index, because the result may have "
                                   "the memory of an operand";
    for (Operation *load : operand.getUsers()) {
      Operation *inElements = elements.getBody().front().findAncestorOpInBlock(*load);
      if (!isa<memref::LoadOp>(load) || !inElements || !inElements->isBeforeInBlock(store) ||
          !llvm::equal(cast<memref::LoadOp>(load).getIndices(), iteration))
        return load->emitOpError() << "reads memory that result " << getResultNumber(result)
                                   << " may have, but not the same element before its store";
    }
    return success();
  }

  LogicalResult visit(Operation *op) {
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      Operation *around = op->getParentOp();
      while (isa<scf::IfOp>(around))
        around = around->getParentOp();
      if (!isa<ElementsOp>(around))
        return op->emitOpError() << "is outside of tpc_kernel.elements, where all stores must be";
      if (!results.contains(store.getMemref()))
        return op->emitOpError() << "stores to memory that is no result of the kernel";
      // A store to a computed row must be conditional, because the row may be out of bounds.
      bool isConditional = !storesRow(store, rows);
      if (isConditional && (around == op->getParentOp() || !areDisjoint(store.getIndices())))
        return op->emitOpError() << "must store to the current row, or under a condition to a row "
                                    "that no other row stores to";
      if (isConditional)
        partial.insert(store.getMemref());
      if (!stored.insert(store.getMemref()).second)
        return op->emitOpError() << "stores a result a second time";
    }
    if (auto load = dyn_cast<memref::LoadOp>(op)) {
      if (!isa<BlockArgument>(load.getMemref()) ||
          !isa<FuncOp>(load.getMemref().getParentBlock()->getParentOp()))
        return op->emitOpError() << "loads memory that is no operand or result of the kernel";
      if (!results.contains(load.getMemref()))
        return success();
      if (partial.contains(load.getMemref()))
        return op->emitOpError() << "reads a result that the row stores only under a condition";
      if (!isInRow(load.getIndices()))
        return op->emitOpError() << "reads a result in another row than the current one";
      if (!visible.contains(load.getMemref()))
        return op->emitOpError() << "reads a result that is not stored yet, or without a "
                                    "tpc_kernel.barrier after its store";
    }
    return success();
  }

  /// Whether a value depends only on these leading row indices.
  bool dependsOnlyOn(Value value, Block::BlockArgListType leading) {
    SmallVector<Value> work{value};
    llvm::SmallDenseSet<Value> seen;
    while (!work.empty()) {
      Value next = work.pop_back_val();
      if (!seen.insert(next).second)
        continue;
      if (isa<BlockArgument>(next)) {
        if (!llvm::is_contained(leading, next))
          return false;
        continue;
      }
      Operation *op = next.getDefiningOp();
      if (auto load = dyn_cast<memref::LoadOp>(op)) {
        if (results.contains(load.getMemref()))
          return false;
        llvm::append_range(work, load.getIndices());
      } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
        unsigned result = cast<OpResult>(next).getResultNumber();
        work.push_back(branch.getCondition());
        for (Region &region : branch->getRegions())
          work.push_back(region.front().getTerminator()->getOperand(result));
      } else if (isMemoryEffectFree(op) && !op->getNumRegions()) {
        llvm::append_range(work, op->getOperands());
      } else {
        return false;
      }
    }
    return true;
  }

  /// Whether rows store to disjoint elements: each index is the current row's index, possibly plus
  /// a term that is equal for all rows with the same preceding indices.
  bool areDisjoint(ValueRange indices) {
    auto rowIndices = rows.getIndices();
    if (indices.size() < rowIndices.size())
      return false;
    for (auto [i, index] : llvm::enumerate(rowIndices)) {
      if (indices[i] == index)
        continue;
      auto sum = indices[i].getDefiningOp<arith::AddIOp>();
      if (!sum || (sum.getLhs() != index && sum.getRhs() != index) ||
          !dependsOnlyOn(sum.getLhs() == index ? sum.getRhs() : sum.getLhs(),
                         rowIndices.take_front(i)))
        return false;
    }
    return true;
  }

  RowsOp rows;
  llvm::SmallDenseSet<Value> results, stored, visible;
  llvm::SmallDenseSet<Value> partial; // results that are stored under a condition
};
} // namespace

LogicalResult FuncOp::verifyRegions() {
  WalkResult walked = getBody().walk([](Operation *op) -> WalkResult {
    if (!isAllowed(op))
      return op->emitOpError() << "is not allowed in a kernel";
    if (auto flags = dyn_cast<arith::ArithFastMathInterface>(op))
      if (flags.getFastMathFlagsAttr() &&
          flags.getFastMathFlagsAttr().getValue() != arith::FastMathFlags::none)
        return op->emitOpError() << "has fast-math flags: operations of a kernel follow IEEE "
                                    "754";
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  return RowVerifier(*this).run();
}
