//===- RowPositions.cpp - Positions per sequence --------------------------===//

#include "RowPositions.h"
#include "PositionMaxima.h"

#include "../Model/Movement.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Analysis/Index/Splats.h"
#include "tpc/Dialect/Quantized.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

RowPositions::RowPositions(func::FuncOp main, StepSymbols step, PreallocatedStep preallocated,
                           Value lengths)
    : main(main), context(main.getContext()), step(std::move(step)),
      preallocated(std::move(preallocated)), lengths(lengths), batch(getSizes(lengths)[0]),
      builder(main.getContext()) {}

bool RowPositions::isPast(const SymExpr &e) const {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return symbols.count(step.past) != 0;
}

FailureOr<SymExpr> RowPositions::withoutPast(Operation *op, const SymExpr &e) const {
  SymExpr rest = e - SymExpr::symbol(step.past);
  if (isPast(rest))
    return emitNodeError(op) << "takes " << e.str()
                             << " tokens, which is not supported for sequences with different "
                             << "past lengths",
           failure();
  return rest;
}

/// Returns the index of the batch dimension. For a constant batch of one, returns nothing, because
/// the number of past tokens is then a scalar.
std::optional<unsigned> RowPositions::findBatch(ArrayRef<SymExpr> sizes) const {
  for (auto [i, size] : llvm::enumerate(sizes)) {
    std::set<std::string> symbols;
    size.collectSymbols(symbols);
    if (symbols.count(*getSymbolName(batch)))
      return i;
  }
  return std::nullopt;
}

SmallVector<SymExpr> RowPositions::withLeadingBatch(ArrayRef<SymExpr> sizes) const {
  SmallVector<SymExpr> all = {batch};
  llvm::append_range(all, sizes);
  return all;
}

FailureOr<Value> RowPositions::align(Operation *op, Value v, ArrayRef<SymExpr> sizes) {
  Location loc = op->getLoc();
  Value replacement = perSequence.lookup(v);
  SmallVector<SymExpr> own = getSizes(v);
  size_t missing = sizes.size() - own.size();
  std::optional<unsigned> dim = findBatch(sizes);
  SmallVector<SymExpr> full(missing, SymExpr(1));
  llvm::append_range(full, own);
  if (!dim)
    return createReshape(builder, loc, replacement, withLeadingBatch(full));
  // The batch replaces a broadcast dimension. All dimensions before it must be of size one.
  std::optional<SymExpr> others = sizes[*dim].divideExact(batch);
  bool fits = full[*dim].isConstant(1) && others;
  for (unsigned i = 0; i < *dim; ++i)
    fits = fits && full[i].isConstant(1);
  if (!fits)
    return emitNodeError(op) << "combines per-sequence positions with values whose batch is not "
                                "the leading dimension, which is not supported",
           failure();
  full[*dim] = batch;
  if (others->isConstant(1))
    return createReshape(builder, loc, replacement, full);
  // [batch * sequence, ..]: each number of a sequence repeats for all its tokens.
  SmallVector<SymExpr> openSizes = full;
  openSizes.insert(openSizes.begin() + *dim + 1, SymExpr(1));
  Value opened = createReshape(builder, loc, replacement, openSizes);
  openSizes[*dim + 1] = *others;
  full[*dim] = sizes[*dim];
  return createReshape(builder, loc, createExpand(builder, loc, opened, openSizes), full);
}

LogicalResult RowPositions::finish(Operation *op, Operation *made) {
  Value old = op->getResult(0), result = made->getResult(0);
  if (getSizes(old).size() == getSizes(result).size()) {
    varying.insert(result);
    old.replaceAllUsesWith(result);
  } else {
    perSequence[old] = result;
  }
  return success();
}

LogicalResult RowPositions::visitSize(SizeOp op) {
  FailureOr<SymExpr> rest = withoutPast(op, op.getExpr());
  if (failed(rest))
    return failure();
  Location loc = op.getLoc();
  Type element = elementTypeOf(op.getResult());
  Value past = lengths;
  if (element != elementTypeOf(past))
    past = CastOp::create(builder, loc, makeTensorType(element, {batch}), past);
  if (!rest->isConstant(0)) {
    auto scalar = RankedTensorType::get({}, element);
    Value addend = SizeOp::create(builder, loc, scalar, *rest);
    past = AddOp::create(builder, loc, past.getType(), past, addend);
  }
  if (getSymbolName(batch)) {
    perSequence[op.getResult()] = past;
    return success();
  }
  Value one = createReshape(builder, loc, past, {});
  varying.insert(one);
  op.getResult().replaceAllUsesWith(one);
  return success();
}

LogicalResult RowPositions::visitAttention(AttentionOp op) {
  if (op.getBias() && perSequence.count(op.getBias())) {
    SmallVector<SymExpr> sizes = getSizes(op.getBias());
    sizes[0] = batch;
    FailureOr<Value> bias = align(op, op.getBias(), sizes);
    if (failed(bias))
      return failure();
    op.getBiasMutable().assign(*bias);
  }
  if (llvm::any_of(op->getOperands(), [&](Value v) { return perSequence.count(v); }))
    return emitNodeError(op) << "takes queries or keys that are shared by all sequences and depend "
                                "on the past";
  if (!isPast(op.getCausalOffset()))
    return success();
  FailureOr<SymExpr> rest = withoutPast(op, op.getCausalOffset());
  if (failed(rest))
    return failure();
  op.getLengthsMutable().assign(lengths);
  op.setCausalOffsetAttr(SymExprAttr::get(context, *rest));
  return success();
}

/// Visits a slice of a table from row `past` on: gathers rows by per-sequence positions instead.
LogicalResult RowPositions::visitTable(SliceOp op) {
  int64_t dim = op.getDim();
  Value table = op.getOperand();
  SymExpr count = getSizes(op.getResult())[dim];
  FailureOr<SymExpr> first = withoutPast(op, op.getStart());
  if (failed(first))
    return failure();
  SmallVector<SymExpr> leading(ArrayRef(getSizes(table)).take_front(dim));
  bool hasRows = llvm::all_of(leading, [](const SymExpr &size) { return size.isConstant(1); });
  if (isVarying(table) || op.getStep() != 1 || !hasRows ||
      (getSymbolName(batch) && findBatch(getSizes(table))))
    return emitNodeError(op) << "slices rows after the past from a value that is not a table with "
                                "one row per position";
  Location loc = op.getLoc();
  if (dim > 0) // rows of [1, rows, ..]
    table = createReshape(builder, loc, table, ArrayRef(getSizes(table)).drop_front(dim));
  Type number = builder.getI64Type();
  bool single = !getSymbolName(batch);
  auto idsType = makeTensorType(number, single ? SmallVector<SymExpr>{count}
                                               : SmallVector<SymExpr>{batch, count});
  Value index = IotaOp::create(builder, loc, makeTensorType(number, {count}), 0);
  Value past = lengths;
  if (number != elementTypeOf(past))
    past = CastOp::create(builder, loc, makeTensorType(number, {batch}), past);
  past = createReshape(builder, loc, past,
                       single ? SmallVector<SymExpr>{} : SmallVector<SymExpr>{batch, SymExpr(1)});
  Value ids = AddOp::create(builder, loc, idsType, index, past);
  if (!first->isConstant(0)) {
    Value addend = SizeOp::create(builder, loc, RankedTensorType::get({}, number), *first);
    ids = AddOp::create(builder, loc, idsType, ids, addend);
  }
  FailureOr<Value> clamped =
      clampIds(op, ids, SymExpr::symbol(step.past) + *first + count - SymExpr(1), table, 0);
  if (failed(clamped))
    return failure();
  SmallVector<SymExpr> sizes = getSizes(op.getResult());
  SmallVector<SymExpr> own(ArrayRef(sizes).drop_front(dim));
  auto type = makeTensorType(elementTypeOf(table), single ? own : withLeadingBatch(own));
  bool isTable = getSizes(table).size() == 2 && isFloatTensor(table);
  Operation *made =
      isTable ? EmbeddingOp::create(builder, loc, type, table, *clamped).getOperation()
              : GatherOp::create(builder, loc, type, table, *clamped, uint64_t(0)).getOperation();
  if (dim > 0)
    made = createReshape(builder, loc, made->getResult(0), single ? sizes : withLeadingBatch(sizes))
               .getDefiningOp();
  return finish(op, made);
}

/// Visits element-wise ops, rotary and expand, whose operands broadcast to the result.
LogicalResult RowPositions::visitBroadcast(Operation *op) {
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  bool isUnbatched = !findBatch(sizes);
  IRMapping mapping;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!perSequence.count(operand))
      continue;
    bool isRotary = isa<RotaryOp>(op);
    if (isRotary && (isUnbatched || i == 0))
      return emitNodeError(op)
             << "rotates a value shared by all sequences by per-sequence positions";
    SmallVector<SymExpr> to = sizes;
    if (isRotary)
      to = {sizes[0], sizes[1], getSizes(operand)[2]};
    if (isa<DequantizeOp>(op)) // rows of a quantized table
      to = getSizes(operand);
    FailureOr<Value> aligned = align(op, operand, to);
    if (failed(aligned))
      return failure();
    mapping.map(operand, *aligned);
  }
  Type element = elementTypeOf(op->getResult(0));
  if (isa<ExpandOp>(op)) {
    Value to = createExpand(builder, op->getLoc(), mapping.lookup(op->getOperand(0)),
                            isUnbatched ? withLeadingBatch(sizes) : sizes);
    if (isUnbatched) {
      perSequence[op->getResult(0)] = to;
    } else {
      varying.insert(to);
      op->getResult(0).replaceAllUsesWith(to);
    }
    return success();
  }
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(
      makeTensorType(element, isUnbatched ? withLeadingBatch(sizes) : sizes));
  return finish(op, made);
}

LogicalResult RowPositions::visitMatmul(MatmulOp op) {
  SmallVector<SymExpr> sizes = getSizes(op.getResult());
  SmallVector<SymExpr> lhs = getSizes(op.getLhs()), rhs = getSizes(op.getRhs());
  if (findBatch(sizes) || lhs.size() < 2 || (op.getBias() && perSequence.count(op.getBias())))
    return emitNodeError(op) << "multiplies positions in a way that is not supported per sequence";
  IRMapping mapping;
  bool left = perSequence.count(op.getLhs());
  for (Value operand : {op.getLhs(), op.getRhs()}) {
    SmallVector<SymExpr> own = getSizes(operand), full(sizes.size() - own.size(), SymExpr(1));
    llvm::append_range(full, own);
    if (Value replacement = perSequence.lookup(operand))
      mapping.map(operand,
                  createReshape(builder, op.getLoc(), replacement, withLeadingBatch(full)));
    else if (!left || own.size() > 2)
      // Batched matmuls need the batch in both operands, so an operand shared by all sequences is
      // repeated. Weights need no batch.
      mapping.map(operand, createExpand(builder, op.getLoc(), operand, withLeadingBatch(full)));
  }
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(
      makeTensorType(elementTypeOf(op.getResult()), withLeadingBatch(sizes)));
  return finish(op, made);
}

/// Visits ops with dimension attributes, which now count the leading batch.
LogicalResult RowPositions::visitMoved(Operation *op) {
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  if (findBatch(sizes))
    return emitNodeError(op) << "concatenates or moves positions in a way that is not supported "
                                "per sequence";
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value replacement = perSequence.lookup(operand);
    mapping.map(operand, replacement ? replacement
                                     : createExpand(builder, op->getLoc(), operand,
                                                    withLeadingBatch(getSizes(operand))));
  }
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(
      makeTensorType(elementTypeOf(op->getResult(0)), withLeadingBatch(sizes)));
  auto shifted = [](ArrayRef<int64_t> dims) {
    return llvm::map_to_vector(dims, [](int64_t d) { return d + 1; });
  };
  if (auto transpose = dyn_cast<TransposeOp>(made)) {
    SmallVector<int64_t> permutation = {0};
    llvm::append_range(permutation, shifted(transpose.getPermutation()));
    transpose.setPermutation(permutation);
  } else if (auto slice = dyn_cast<SliceOp>(made)) {
    slice.setDim(slice.getDim() + 1);
  } else if (auto concat = dyn_cast<ConcatOp>(made)) {
    concat.setDim(concat.getDim() + 1);
  } else if (auto reduce = dyn_cast<ReduceOp>(made)) {
    reduce.setDims(shifted(reduce.getDims()));
  }
  return finish(op, made);
}

/// Returns a constraint on the capacity that keeps row `end`, the last that a step needs, within
/// the table: an expression and its maximum.
static std::optional<std::pair<SymExpr, int64_t>>
findCapacityBound(const SymExpr &end, int64_t rows, const std::string &capacity) {
  std::set<std::string> symbols;
  end.collectSymbols(symbols);
  if (symbols != std::set<std::string>{capacity})
    return std::nullopt;
  auto grows = [&](const SymExpr &e) {
    auto linear = IndexAnalysis::linearIn(e, capacity);
    auto times = linear ? linear->first.asConstant() : std::nullopt;
    return times && *times > 0 && linear->second.isConstant();
  };
  if (grows(end))
    return std::pair(end + SymExpr(1), rows);
  // a floordiv b + c < rows if a < b * (rows - c).
  std::optional<int64_t> addend = 0, divisor;
  SymExpr divided;
  for (const SymExpr::Term &term : end.getTerms()) {
    if (term.atoms.empty()) {
      addend = term.coefficient;
      continue;
    }
    if (divisor || term.atoms.size() != 1 || term.coefficient != 1 ||
        term.atoms[0].kind != SymExpr::AtomKind::FloorDiv)
      return std::nullopt;
    divided = term.atoms[0].args->first;
    divisor = term.atoms[0].args->second.asConstant();
    if (!divisor || *divisor < 1 || *divisor > (1 << 20))
      return std::nullopt;
  }
  if (!divisor || !grows(divided))
    return std::nullopt;
  return std::pair(divided + SymExpr(1), *divisor * (rows - *addend));
}

/// For a size min(a, b) + n, returns a + n and b + n, which are both upper bounds. Otherwise
/// returns the size.
static SmallVector<SymExpr> upperBounds(const SymExpr &size) {
  for (const SymExpr::Term &term : size.getTerms())
    if (term.atoms.size() == 1 && term.coefficient == 1 &&
        term.atoms[0].kind == SymExpr::AtomKind::Min)
      if (SymExpr addend = size - SymExpr::fromTerm(term); addend.isConstant())
        return {term.atoms[0].args->first + addend, term.atoms[0].args->second + addend};
  return {size};
}

/// Clamps positions beyond the capacity. They belong to unused tokens, so any row of the table is
/// correct if it is in bounds. `end`: the last row that a step needs.
FailureOr<Value> RowPositions::clampIds(Operation *op, Value ids, const SymExpr &end, Value table,
                                        int64_t dim) {
  SymExpr count = getSizes(table)[dim];
  auto numRows = count.asConstant();
  // Last row when the step's last token fills the cache.
  SymExpr last = end.substitute(
      {{step.past, SymExpr::symbol(preallocated.capacity) - SymExpr::symbol(preallocated.tokens)}});
  Location loc = op->getLoc();
  auto scalar = RankedTensorType::get({}, elementTypeOf(ids));
  auto clamped = [&]() -> Value {
    return MinOp::create(builder, loc, ids.getType(), ids,
                         SizeOp::create(builder, loc, scalar, last));
  };
  std::optional<std::pair<SymExpr, int64_t>> capacityBound;
  for (const SymExpr &bound : numRows ? upperBounds(last) : SmallVector<SymExpr>()) {
    if (auto row = bound.asConstant(); row && *row < *numRows)
      return clamped();
    if (!capacityBound)
      capacityBound = findCapacityBound(bound, *numRows, preallocated.capacity);
  }
  if (!capacityBound)
    return emitNodeError(op) << "looks up rows of a table of " << count.str() << " rows, up to row "
                             << end.str() << ": no limit of the capacity is known that keeps this "
                             << "row in the table",
           failure();
  auto parameter = table.getDefiningOp<ParameterOp>();
  std::string why = "table " +
                    (parameter ? parameter.getWeight().str() : getSourceName(table.getLoc())) +
                    " has " + std::to_string(*numRows) + " rows";
  constraints.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("expr", SymExprAttr::get(context, capacityBound->first)),
       builder.getNamedAttr("min", builder.getI64IntegerAttr(0)),
       builder.getNamedAttr("max", builder.getI64IntegerAttr(capacityBound->second)),
       builder.getNamedAttr("why", builder.getStringAttr(why))}));
  return clamped();
}

LogicalResult RowPositions::visitLookup(Operation *op) {
  Value table = op->getOperand(0), ids = op->getOperand(1);
  auto embedding = dyn_cast<EmbeddingOp>(op);
  auto gather = dyn_cast<GatherOp>(op);
  if (isVarying(table) || (!embedding && !(gather && gather.getDim() == 0)))
    return emitNodeError(op) << "looks up values that depend on the past in a way that is not "
                                "supported per sequence";
  auto end = maxima.find(op);
  if (end == maxima.end())
    return emitNodeError(op) << "looks up rows by indices computed from positions, but their "
                                "maximum is unknown";
  Value replacement = perSequence.lookup(ids);
  FailureOr<Value> clamped = clampIds(op, replacement ? replacement : ids, end->second, table, 0);
  if (failed(clamped))
    return failure();
  IRMapping mapping;
  mapping.map(ids, *clamped);
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(makeTensorType(elementTypeOf(op->getResult(0)),
                                            replacement ? withLeadingBatch(sizes) : sizes));
  return finish(op, made);
}

LogicalResult RowPositions::visit(Operation *op) {
  builder.setInsertionPoint(op);
  if (auto size = dyn_cast<SizeOp>(op))
    return isPast(size.getExpr()) ? visitSize(size) : success();
  if (auto attention = dyn_cast<AttentionOp>(op))
    return visitAttention(attention);
  if (auto slice = dyn_cast<SliceOp>(op); slice && isPast(slice.getStart()))
    return visitTable(slice);
  if (!llvm::any_of(op->getOperands(), [&](Value v) { return isVarying(v); }))
    return success();
  if (isa<EmbeddingOp, GatherOp, GatherNDOp>(op))
    return visitLookup(op);
  bool needsBatch = llvm::any_of(op->getOperands(), [&](Value v) { return perSequence.count(v); });
  if (!needsBatch) { // already per sequence
    varying.insert(op->result_begin(), op->result_end());
    return success();
  }
  if (isa<ExpandOp, RotaryOp, DequantizeOp, ScalarOpInterface>(op))
    return visitBroadcast(op);
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return visitMatmul(matmul);
  if (isa<ReshapeOp, TransposeOp, SliceOp, ConcatOp, ReduceOp>(op))
    return visitMoved(op);
  return emitNodeError(op) << "takes a value that depends on the past, which is not supported per "
                              "sequence";
}

/// Records the maxima of ids that are computed from positions, before any rewrite.
void RowPositions::recordMaxima() {
  main.walk([&](Operation *op) {
    if (!isa<EmbeddingOp, GatherOp>(op))
      return;
    // The maximum over [batch * sequence] is that over [batch, sequence].
    Value ids = Movement::of(op->getOperand(1), Movement::Expands).base;
    if (auto end = findLargest(ids))
      maxima.try_emplace(op, *end);
  });
}

LogicalResult RowPositions::run() {
  if (!getSymbolName(batch) && !batch.isConstant(1))
    return main.emitError() << "the caches have a batch of " << batch.str()
                            << ": the batch must be a symbol or 1";
  recordMaxima();
  SmallVector<Operation *> ops;
  for (Operation &op : main.front().without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(visit(op)))
      return failure();
  for (Value result : main.front().getTerminator()->getOperands())
    if (perSequence.count(result))
      return main.emitError(
          "has an output that is shared by all sequences and depends on the past");
  return success();
}
