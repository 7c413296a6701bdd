//===- RowPositions.cpp - Each sequence has a past of its own -------------===//

#include "RowPositions.h"

#include "../Model/Movement.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Analysis/Index/Splats.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

RowPositions::RowPositions(func::FuncOp main, StepSymbols step, PlacedStep placed, Value lengths)
    : main(main), context(main.getContext()), step(std::move(step)), placed(std::move(placed)),
      lengths(lengths), batch(getSizes(lengths)[0]), builder(main.getContext()) {}

bool RowPositions::isPast(const SymExpr &e) const {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return symbols.count(step.past) != 0;
}

FailureOr<SymExpr> RowPositions::withoutPast(Operation *op, const SymExpr &e) const {
  SymExpr rest = e - SymExpr::symbol(step.past);
  if (isPast(rest))
    return emitNodeError(op) << "takes " << e.str()
                             << " tokens: it is not known what that is where "
                             << "sequences have pasts of their own",
           failure();
  return rest;
}

/// A batch of one sequence has no dimension to find: the number of past tokens is one number.
std::optional<unsigned> RowPositions::findBatch(ArrayRef<SymExpr> sizes) const {
  for (auto [i, size] : llvm::enumerate(sizes)) {
    std::set<std::string> symbols;
    size.collectSymbols(symbols);
    if (symbols.count(*getSymbolName(batch)))
      return i;
  }
  return std::nullopt;
}

SmallVector<SymExpr> RowPositions::inFront(ArrayRef<SymExpr> sizes) const {
  SmallVector<SymExpr> all = {batch};
  llvm::append_range(all, sizes);
  return all;
}

FailureOr<Value> RowPositions::align(Operation *op, Value v, ArrayRef<SymExpr> sizes) {
  Location loc = op->getLoc();
  Value row = rows.lookup(v);
  SmallVector<SymExpr> own = getSizes(v);
  size_t missing = sizes.size() - own.size();
  std::optional<unsigned> dim = findBatch(sizes);
  SmallVector<SymExpr> full(missing, SymExpr(1));
  llvm::append_range(full, own);
  if (!dim)
    return createReshape(builder, loc, row, inFront(full));
  // The batch goes to a dimension that was broadcast, behind others of which there is one each.
  std::optional<SymExpr> others = sizes[*dim].divideExact(batch);
  bool fits = full[*dim].isConstant(1) && others;
  for (unsigned i = 0; i < *dim; ++i)
    fits = fits && full[i].isConstant(1);
  if (!fits)
    return emitNodeError(op) << "meets positions of each sequence where the batch is not in front "
                                "of them: it is not known how to do this for each sequence",
           failure();
  full[*dim] = batch;
  if (others->isConstant(1))
    return createReshape(builder, loc, row, full);
  // [batch * sequence, ..]: each number of a sequence is there for all its tokens.
  SmallVector<SymExpr> apart = full;
  apart.insert(apart.begin() + *dim + 1, SymExpr(1));
  Value opened = createReshape(builder, loc, row, apart);
  apart[*dim + 1] = *others;
  full[*dim] = sizes[*dim];
  return createReshape(builder, loc, createExpand(builder, loc, opened, apart), full);
}

LogicalResult RowPositions::finish(Operation *op, Operation *made) {
  Value old = op->getResult(0), result = made->getResult(0);
  if (getSizes(old).size() == getSizes(result).size()) {
    varying.insert(result);
    old.replaceAllUsesWith(result);
  } else {
    rows[old] = result;
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
    Value more = SizeOp::create(builder, loc, scalar, *rest);
    past = AddOp::create(builder, loc, past.getType(), past, more);
  }
  if (getSymbolName(batch)) {
    rows[op.getResult()] = past;
    return success();
  }
  Value one = createReshape(builder, loc, past, {});
  varying.insert(one);
  op.getResult().replaceAllUsesWith(one);
  return success();
}

LogicalResult RowPositions::visitAttention(AttentionOp op) {
  if (llvm::any_of(op->getOperands(), [&](Value v) { return rows.count(v); }))
    return emitNodeError(op) << "takes queries or keys that are alike for all sequences and depend "
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

/// A slice of a table that begins at the past: rows by their numbers.
LogicalResult RowPositions::visitTable(SliceOp op) {
  int64_t dim = op.getDim();
  Value table = op.getOperand();
  SymExpr count = getSizes(op.getResult())[dim];
  FailureOr<SymExpr> first = withoutPast(op, op.getStart());
  if (failed(first))
    return failure();
  if (isVarying(table) || op.getStep() != 1 || dim != 0 ||
      (getSymbolName(batch) && findBatch(getSizes(table))))
    return emitNodeError(op) << "takes rows behind the past of something that is no table with a "
                                "row for each position";
  Location loc = op.getLoc();
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
    Value more = SizeOp::create(builder, loc, RankedTensorType::get({}, number), *first);
    ids = AddOp::create(builder, loc, idsType, ids, more);
  }
  FailureOr<Value> known =
      limit(op, ids, SymExpr::symbol(step.past) + *first + count - SymExpr(1), table, dim);
  if (failed(known))
    return failure();
  SmallVector<SymExpr> sizes = getSizes(op.getResult());
  auto type = makeTensorType(elementTypeOf(table), single ? sizes : inFront(sizes));
  bool isTable = getSizes(table).size() == 2 && isFloatTensor(table);
  Operation *made =
      isTable ? EmbeddingOp::create(builder, loc, type, table, *known).getOperation()
              : GatherOp::create(builder, loc, type, table, *known, uint64_t(0)).getOperation();
  return finish(op, made);
}

/// Element-wise ops, rotary and expand: operands broadcast to the result.
LogicalResult RowPositions::visitBroadcast(Operation *op) {
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  bool apart = !findBatch(sizes);
  IRMapping mapping;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!rows.count(operand))
      continue;
    bool table = isa<RotaryOp>(op);
    if (table && (apart || i == 0))
      return emitNodeError(op) << "rotates what is alike for all sequences by their positions";
    SmallVector<SymExpr> to = sizes;
    if (table)
      to = {sizes[0], sizes[1], getSizes(operand)[2]};
    FailureOr<Value> aligned = align(op, operand, to);
    if (failed(aligned))
      return failure();
    mapping.map(operand, *aligned);
  }
  Type element = elementTypeOf(op->getResult(0));
  if (isa<ExpandOp>(op)) {
    Value to = createExpand(builder, op->getLoc(), mapping.lookup(op->getOperand(0)),
                            apart ? inFront(sizes) : sizes);
    if (apart) {
      rows[op->getResult(0)] = to;
    } else {
      varying.insert(to);
      op->getResult(0).replaceAllUsesWith(to);
    }
    return success();
  }
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(makeTensorType(element, apart ? inFront(sizes) : sizes));
  return finish(op, made);
}

LogicalResult RowPositions::visitProduct(MatmulOp op) {
  SmallVector<SymExpr> sizes = getSizes(op.getResult());
  SmallVector<SymExpr> lhs = getSizes(op.getLhs()), rhs = getSizes(op.getRhs());
  if (findBatch(sizes) || lhs.size() < 2 || (op.getBias() && rows.count(op.getBias())))
    return emitNodeError(op) << "multiplies positions in a way that is not known for each sequence";
  IRMapping mapping;
  bool left = rows.count(op.getLhs());
  for (Value operand : {op.getLhs(), op.getRhs()}) {
    SmallVector<SymExpr> own = getSizes(operand), full(sizes.size() - own.size(), SymExpr(1));
    llvm::append_range(full, own);
    if (Value row = rows.lookup(operand))
      mapping.map(operand, createReshape(builder, op.getLoc(), row, inFront(full)));
    else if (!left || own.size() > 2)
      // One that is there once is repeated: products of many with one that is not a weight.
      mapping.map(operand, createExpand(builder, op.getLoc(), operand, inFront(full)));
  }
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(makeTensorType(elementTypeOf(op.getResult()), inFront(sizes)));
  return finish(op, made);
}

/// Ops that name dimensions: these stand behind the batch now.
LogicalResult RowPositions::visitMoved(Operation *op) {
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  if (findBatch(sizes))
    return emitNodeError(op) << "joins or moves positions in a way that is not known for each "
                                "sequence";
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value row = rows.lookup(operand);
    mapping.map(operand,
                row ? row
                    : createExpand(builder, op->getLoc(), operand, inFront(getSizes(operand))));
  }
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(makeTensorType(elementTypeOf(op->getResult(0)), inFront(sizes)));
  auto behind = [](ArrayRef<int64_t> dims) {
    return llvm::map_to_vector(dims, [](int64_t d) { return d + 1; });
  };
  if (auto transpose = dyn_cast<TransposeOp>(made)) {
    SmallVector<int64_t> permutation = {0};
    llvm::append_range(permutation, behind(transpose.getPermutation()));
    transpose.setPermutation(permutation);
  } else if (auto slice = dyn_cast<SliceOp>(made)) {
    slice.setDim(slice.getDim() + 1);
  } else if (auto concat = dyn_cast<ConcatOp>(made)) {
    concat.setDim(concat.getDim() + 1);
  } else if (auto reduce = dyn_cast<ReduceOp>(made)) {
    reduce.setDims(behind(reduce.getDims()));
  }
  return finish(op, made);
}

/// What a cache may hold so that `end`, the largest row that its last token needs, is in a table:
/// an expression of the capacity, and what it is at most.
static std::optional<std::pair<SymExpr, int64_t>> findRoom(const SymExpr &end, int64_t rows,
                                                           const std::string &capacity) {
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
  // a floordiv b + c < rows where a < b * (rows - c).
  std::optional<int64_t> more = 0, divisor;
  SymExpr divided;
  for (const SymExpr::Term &term : end.getTerms()) {
    if (term.atoms.empty()) {
      more = term.coefficient;
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
  return std::pair(divided + SymExpr(1), *divisor * (rows - *more));
}

/// Of a minimum and a number: the one and the other with the number, of which the size is larger
/// than neither. Else the size.
static SmallVector<SymExpr> alternatives(const SymExpr &size) {
  for (const SymExpr::Term &term : size.getTerms())
    if (term.atoms.size() == 1 && term.coefficient == 1 &&
        term.atoms[0].kind == SymExpr::AtomKind::Min)
      if (SymExpr more = size - SymExpr::fromTerm(term); more.isConstant())
        return {term.atoms[0].args->first + more, term.atoms[0].args->second + more};
  return {size};
}

/// Positions behind the capacity are those of tokens that do not count: any row does for them, but
/// there must be one. `end`: the largest that a step needs.
FailureOr<Value> RowPositions::limit(Operation *op, Value ids, const SymExpr &end, Value table,
                                     int64_t dim) {
  SymExpr count = getSizes(table)[dim];
  auto known = count.asConstant();
  // Where the last token of the step is the last that there is room for.
  SymExpr last = end.substitute(
      {{step.past, SymExpr::symbol(placed.capacity) - SymExpr::symbol(placed.tokens)}});
  Location loc = op->getLoc();
  auto scalar = RankedTensorType::get({}, elementTypeOf(ids));
  auto limited = [&]() -> Value {
    return MinOp::create(builder, loc, ids.getType(), ids,
                         SizeOp::create(builder, loc, scalar, last));
  };
  std::optional<std::pair<SymExpr, int64_t>> room;
  for (const SymExpr &bound : known ? alternatives(last) : SmallVector<SymExpr>()) {
    if (auto row = bound.asConstant(); row && *row < *known)
      return limited();
    if (!room)
      room = findRoom(bound, *known, placed.capacity);
  }
  if (!room)
    return emitNodeError(op) << "looks up rows of " << count.str() << ", the last of which is "
                             << end.str() << ": it is not known how much a cache may hold, so "
                             << "that there is one for each position",
           failure();
  auto parameter = table.getDefiningOp<ParameterOp>();
  std::string why = "table " +
                    (parameter ? parameter.getWeight().str() : getSourceName(table.getLoc())) +
                    " has " + std::to_string(*known) + " rows";
  constraints.push_back(builder.getDictionaryAttr(
      {builder.getNamedAttr("expr", SymExprAttr::get(context, room->first)),
       builder.getNamedAttr("min", builder.getI64IntegerAttr(0)),
       builder.getNamedAttr("max", builder.getI64IntegerAttr(room->second)),
       builder.getNamedAttr("why", builder.getStringAttr(why))}));
  return limited();
}

LogicalResult RowPositions::visitLookup(Operation *op) {
  Value table = op->getOperand(0), ids = op->getOperand(1);
  auto embedding = dyn_cast<EmbeddingOp>(op);
  auto gather = dyn_cast<GatherOp>(op);
  if (isVarying(table) || (!embedding && !(gather && gather.getDim() == 0)))
    return emitNodeError(op) << "looks up what depends on the past in a way that is not known for "
                                "each sequence";
  auto end = ends.find(op);
  if (end == ends.end())
    return emitNodeError(op) << "takes rows of a table by what is made of positions, and it is not "
                                "known how many rows that needs";
  Value row = rows.lookup(ids);
  FailureOr<Value> known = limit(op, row ? row : ids, end->second, table, 0);
  if (failed(known))
    return failure();
  IRMapping mapping;
  mapping.map(ids, *known);
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  Operation *made = builder.clone(*op, mapping);
  made->getResult(0).setType(
      makeTensorType(elementTypeOf(op->getResult(0)), row ? inFront(sizes) : sizes));
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
  bool apart = llvm::any_of(op->getOperands(), [&](Value v) { return rows.count(v); });
  if (!apart) { // each sequence by itself already
    varying.insert(op->result_begin(), op->result_end());
    return success();
  }
  if (isa<ExpandOp, RotaryOp, ScalarOpInterface>(op))
    return visitBroadcast(op);
  if (auto product = dyn_cast<MatmulOp>(op))
    return visitProduct(product);
  if (isa<ReshapeOp, TransposeOp, SliceOp, ConcatOp, ReduceOp>(op))
    return visitMoved(op);
  return emitNodeError(op) << "takes what depends on the past: it is not known how to do this for "
                              "each sequence";
}

/// The largest of the elements, in the number of past tokens and of those of the step, where each
/// step on the way grows with positions.
static std::optional<SymExpr> findLargest(Value v, int depth = 0) {
  SmallVector<SymExpr> sizes = getSizes(v);
  IndexAnalysis analysis(sizes);
  IndexExpr element = analysis.at(v, analysis.getIndices());
  if (element && element.isInteger())
    if (auto end = analysis.upperBound(element.getPolynomial()))
      return end;
  Operation *op = v.getDefiningOp();
  if (!op || depth > 16 || isFloatTensor(v) || op->getNumOperands() == 0 ||
      op->getNumOperands() > 2)
    return std::nullopt;
  auto of = [&](int i) { return findLargest(op->getOperand(i), depth + 1); };
  auto number = [&](int i) -> std::optional<int64_t> {
    auto splat = getSplat(op->getOperand(i));
    return splat ? std::optional(static_cast<int64_t>(*splat)) : std::nullopt;
  };
  if (op->getNumOperands() == 1)
    return isa<CastOp, MovementOpInterface>(op) && !isFloatTensor(op->getOperand(0)) ? of(0)
                                                                                     : std::nullopt;
  if (auto n = number(1); n && *n > 0) {
    if (isa<ModOp>(op)) {
      auto end = of(0);
      return end && analysis.isNonNegative(*end) ? SymExpr::min(*end, SymExpr(*n - 1))
                                                 : SymExpr(*n - 1);
    }
    if (isa<DivOp>(op))
      if (auto end = of(0); end && analysis.isNonNegative(*end))
        return SymExpr::floorDiv(*end, SymExpr(*n));
  }
  for (int side : {0, 1}) {
    auto n = number(side);
    if (!n)
      continue;
    auto end = of(1 - side);
    if (isa<MinOp>(op))
      return end ? SymExpr::min(*end, SymExpr(*n)) : SymExpr(*n);
    if (!end)
      return std::nullopt;
    if (isa<MaxOp>(op)) {
      if (analysis.isAtMost(SymExpr(*n), *end))
        return end;
      return analysis.isAtMost(*end, SymExpr(*n)) ? std::optional(SymExpr(*n)) : std::nullopt;
    }
    if (isa<AddOp>(op))
      return *end + SymExpr(*n);
    if (isa<SubOp>(op) && side == 1)
      return *end - SymExpr(*n);
    if (isa<MulOp>(op) && *n > 0)
      return *end * SymExpr(*n);
  }
  return std::nullopt;
}

/// Before anything is changed: what ids, which are made of positions, are at most.
void RowPositions::findEnds() {
  main.walk([&](Operation *op) {
    if (!isa<EmbeddingOp, GatherOp>(op))
      return;
    // [batch * sequence] of them are those of [batch, sequence].
    Value ids = Movement::of(op->getOperand(1), Movement::Expands).base;
    if (auto end = findLargest(ids))
      ends.try_emplace(op, *end);
  });
}

LogicalResult RowPositions::run() {
  if (!getSymbolName(batch) && !batch.isConstant(1))
    return main.emitError() << "its caches are of " << batch.str()
                            << " sequences: a batch must be a symbol, or one sequence";
  findEnds();
  SmallVector<Operation *> ops;
  for (Operation &op : main.front().without_terminator())
    ops.push_back(&op);
  for (Operation *op : ops)
    if (failed(visit(op)))
      return failure();
  for (Value result : main.front().getTerminator()->getOperands())
    if (rows.count(result))
      return main.emitError(
          "has an output that is alike for all sequences and depends on the past");
  return success();
}
