//===- CompareTensors.cpp - Comparison of tensor functions ----------------===//
//
// A program on buffers includes the tensor functions from which it was created. Other checks
// compare buffers and kernels with these functions; this file compares the functions with the
// staged program. Both programs are converted to hash-consed expressions over inputs and weights,
// with calls and kernels replaced by their bodies: equal values have equal ids. Expressions include
// types, which include the distribution.
//
// Lowering rewrites some ops. Both programs are normalized:
//
//   * a 16-bit matmul or attention computes in f32, and its result is cast;
//   * the bias of a matmul is a separate addition;
//   * batch dimensions of a matmul's operands are not expanded;
//   * an f32 matmul over a dimension of size 1 is an element-wise product;
//   * causality and windows are replaced by a mask if queries are not contiguous.
//
//===----------------------------------------------------------------------===//

#include "CompareTensors.h"
#include "TensorTerms.h"

#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include <list>
#include <map>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using ::tpc::SymExpr;

namespace {
using Values = DenseMap<Value, TermId>;

/// Reads the functions of a program as terms.
class Reader {
public:
  Reader(ModuleOp module, Terms &terms) : module(module), terms(terms), symbols(module) {}
  ~Reader() {
    for (Block &block : scratch)
      block.dropAllReferences();
  }
  FailureOr<Effects> readStage(PipelineOp pipeline, StageOp stage);
  FailureOr<Effects> readFunction(func::FuncOp function);

private:
  LogicalResult readBlock(Block &block, Values &values, SmallVectorImpl<TermId> *returned);
  LogicalResult readOp(Operation *op, Values &values);
  LogicalResult readCall(func::CallOp call, Values &values);
  DictionaryAttr getAttributes(Operation *op);
  TermId makeTerm(Operation *op, ArrayRef<TermId> operands, Type type);
  TermId makeExperts(Operation *op, SmallVector<TermId> operands, Type type);
  TermId makeProduct(Operation *op, SmallVector<TermId> operands, Type type);
  TermId makeCast(TermId operand, Type type, Operation *op);
  TermId makeSum(Operation *op, Type type, TermId x, TermId y);
  TermId makeNamed(StringRef name, Operation *op, ArrayRef<TermId> operands, Type type);
  LogicalResult readAttention(AttentionOp op, Values &values);
  void note(TermId term, Operation *op) { effects.push_back({term, op}); }

  ModuleOp module;
  Terms &terms;
  SymbolTable symbols;
  DenseMap<Operation *, DictionaryAttr> attributes;
  std::list<Block> scratch;
  Effects effects;
  std::map<int64_t, Effect> sums; // additions to sums over micro-batches in a loop, by index
  int64_t received = 0, steps = 0;
  int depth = 0;
  static constexpr int64_t maxSteps = 1 << 21;
  static constexpr int maxDepth = 512;
};
} // namespace

//===----------------------------------------------------------------------===//
// Normal form of ops
//===----------------------------------------------------------------------===//

/// Returns the attributes of an op, except attributes that lowering adds and attributes of reports.
DictionaryAttr Reader::getAttributes(Operation *op) {
  DictionaryAttr &known = attributes[op];
  if (known)
    return known;
  static constexpr StringLiteral marks[] = {kFusedAttr,       kMergedAttr,  kLoadedAttr,
                                            kRoundsPartsAttr, kAliasedAttr, kQuantizedAttr};
  NamedAttrList list;
  if (auto properties = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute()))
    list.append(properties.begin(), properties.end());
  for (NamedAttribute attr : op->getDiscardableAttrs())
    if (!llvm::is_contained(marks, attr.getName().getValue()))
      list.append(attr);
  // Defaults may be explicit.
  auto eraseDefaults = [&](auto attention) {
    if (attention.getCausalOffset().isConstant(0))
      list.erase("causal_offset");
    if (attention.getSoftcap().isZero())
      list.erase("softcap");
    if (attention.getMaskedRow() == MaskedRow::Zero)
      list.erase("masked_row");
  };
  if (auto attention = dyn_cast<AttentionOp>(op))
    eraseDefaults(attention);
  else if (auto grad = dyn_cast<AttentionGradOp>(op))
    eraseDefaults(grad);
  return known = list.getDictionary(op->getContext());
}

static bool isHalf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

static Type withElements(Type tensor, Type element) {
  return cast<RankedTensorType>(tensor).clone(element);
}

TermId Reader::makeNamed(StringRef name, Operation *op, ArrayRef<TermId> operands, Type type) {
  return terms.intern(
      {name, DictionaryAttr::get(op->getContext()), type, 0, SmallVector<TermId, 3>(operands), op});
}

TermId Reader::makeSum(Operation *op, Type type, TermId x, TermId y) {
  return makeNamed(AddOp::getOperationName(), op, {x, y}, type);
}

/// Folds a cast to 16 bits of a value that was widened from the same type. A cast of the f32 sum of
/// two such values becomes their 16-bit sum.
TermId Reader::makeCast(TermId operand, Type type, Operation *op) {
  constexpr StringLiteral name = CastOp::getOperationName();
  auto isWidened = [&](TermId id) {
    const Term &term = terms[id];
    return term.name == name && getElementTypeOrSelf(term.type).isF32() &&
           getElementTypeOrSelf(terms[term.operands[0]].type) == getElementTypeOrSelf(type);
  };
  if (isHalf(type)) {
    if (isWidened(operand) && terms[terms[operand].operands[0]].type == type)
      return terms[operand].operands[0];
    const Term &sum = terms[operand];
    if (sum.name == AddOp::getOperationName() && getElementTypeOrSelf(sum.type).isF32() &&
        sum.attributes.empty() && llvm::all_of(sum.operands, isWidened)) {
      TermId x = terms[sum.operands[0]].operands[0], y = terms[sum.operands[1]].operands[0];
      return makeSum(op, type, x, y);
    }
  }
  return makeNamed(name, op, {operand}, type);
}

/// Returns whether expanding `from` to `to` affects only batch dimensions.
static bool expandsBatch(Type from, Type to) {
  ArrayRef<DimAttr> a = getDist(from).getDims(), b = getDist(to).getDims();
  return a.size() >= 2 && b.size() >= a.size() && a.take_back(2) == b.take_back(2);
}

TermId Reader::makeProduct(Operation *op, SmallVector<TermId> operands, Type type) {
  bool isMatmul = isa<MatmulOp>(op);
  auto strip = [&](TermId id, bool expansions) {
    for (;;) {
      const Term &term = terms[id];
      bool isWidened = term.name == CastOp::getOperationName() &&
                       getElementTypeOrSelf(term.type).isF32() &&
                       isHalf(terms[term.operands[0]].type);
      bool isExpanded = expansions && term.name == ExpandOp::getOperationName() &&
                        expandsBatch(terms[term.operands[0]].type, term.type);
      if (!isWidened && !isExpanded)
        return id;
      id = term.operands[0];
    }
  };
  std::optional<TermId> bias;
  if (isMatmul && operands.size() > 2)
    bias = operands.pop_back_val();
  auto isVectors = [&](TermId factor) {
    return getDist(terms[factor].type).getDims().size() >= 2 &&
           getElementTypeOrSelf(terms[factor].type).isF32() &&
           !isHalf(terms[strip(factor, false)].type);
  };
  if (isMatmul && getElementTypeOrSelf(type).isF32() && llvm::all_of(operands, isVectors) &&
      getSizes(terms[operands[0]].type).back().isConstant(1)) {
    for (TermId &factor : operands) {
      DistAttr dist = getDist(type).withPartial(getDist(terms[factor].type).getPartial());
      Type expanded = makeTensorType(getElementTypeOrSelf(type), dist, MeshAttr::lookup(op));
      factor = makeNamed(ExpandOp::getOperationName(), op, {factor}, expanded);
    }
    TermId product = makeNamed(MulOp::getOperationName(), op, operands, type);
    return bias ? makeSum(op, type, product, *bias) : product;
  }
  // Lowering may widen 16-bit operands.
  SmallVector<TermId> stripped;
  for (TermId operand : operands)
    stripped.push_back(strip(operand, isMatmul));
  Type result = type;
  if (llvm::all_of(ArrayRef(stripped).take_front(isMatmul ? 2 : 3),
                   [&](TermId factor) { return isHalf(terms[factor].type); })) {
    operands = stripped;
    result = withElements(type, Float32Type::get(op->getContext()));
  } else if (isMatmul) {
    for (TermId &factor : operands)
      while (terms[factor].name == ExpandOp::getOperationName() &&
             expandsBatch(terms[terms[factor].operands[0]].type, terms[factor].type))
        factor = terms[factor].operands[0];
  }
  TermId product = terms.intern({op->getName().getStringRef(), getAttributes(op), result, 0,
                                 SmallVector<TermId, 3>(ArrayRef(operands)), op});
  if (bias && isHalf(terms[*bias].type) && !isHalf(result))
    bias = makeCast(*bias, withElements(terms[*bias].type, getElementTypeOrSelf(result)), op);
  if (bias)
    product = makeSum(op, result, product, *bias);
  return result != type ? makeCast(product, type, op) : product;
}

/// Lowering may widen 16-bit operands and round the result, and removes casts of matrices to f32.
TermId Reader::makeExperts(Operation *op, SmallVector<TermId> operands, Type type) {
  for (TermId &id : operands)
    while (terms[id].name == CastOp::getOperationName() &&
           getElementTypeOrSelf(terms[id].type).isF32() &&
           isHalf(terms[terms[id].operands[0]].type))
      id = terms[id].operands[0];
  Type result = isHalf(type) ? withElements(type, Float32Type::get(op->getContext())) : type;
  TermId experts = terms.intern({op->getName().getStringRef(), getAttributes(op), result, 0,
                                 SmallVector<TermId, 3>(ArrayRef(operands)), op});
  return result != type ? makeCast(experts, type, op) : experts;
}

TermId Reader::makeTerm(Operation *op, ArrayRef<TermId> operands, Type type) {
  if (isa<MoeOp>(op))
    return makeExperts(op, SmallVector<TermId>(operands), type);
  if (isa<MatmulOp, AttentionOp>(op))
    return makeProduct(op, SmallVector<TermId>(operands), type);
  if (isa<CastOp>(op))
    return makeCast(operands[0], type, op);
  return terms.intern({op->getName().getStringRef(), getAttributes(op), type, 0,
                       SmallVector<TermId, 3>(operands), op});
}

/// In tpc.attention, indices of queries are relative to the first query of the rank. If a rank's
/// queries are not contiguous, causality and window are expressed as a mask over positions: key <=
/// query + offset, and key > query + offset - window.
LogicalResult Reader::readAttention(AttentionOp op, Values &values) {
  Block &block = scratch.emplace_back();
  OpBuilder b = OpBuilder::atBlockEnd(&block);
  IRMapping map;
  for (Value operand : op->getOperands())
    if (!map.contains(operand)) {
      Value argument = block.addArgument(operand.getType(), op.getLoc());
      map.map(operand, argument);
      values[argument] = values.lookup(operand);
    }
  auto copy = cast<AttentionOp>(b.clone(*op, map));
  b.setInsertionPoint(copy);
  DimAttr one = DimAttr::get(op.getContext(), SymExpr(1));
  DistAttr like = getDist(op.getQ()).withPartial({});
  MeshAttr grid = MeshAttr::lookup(module);
  auto typed = [&](Type element, ArrayRef<DimAttr> dims) {
    return makeTensorType(element, like.withDims(dims), grid);
  };
  SmallVector<DimAttr> dims = {one, one, getDist(op.getQ()).getDims()[1],
                               getDist(op.getK()).getDims()[1]};
  Type integers = typed(b.getI64Type(), dims), truths = typed(b.getI1Type(), dims);
  Location loc = op.getLoc();
  auto size = [&](const SymExpr &n) -> Value {
    return SizeOp::create(b, loc, typed(b.getI64Type(), {}), n);
  };
  Value query = IotaOp::create(b, loc, integers, 2), key = IotaOp::create(b, loc, integers, 3);
  Value last = AddOp::create(b, loc, integers, query, size(op.getCausalOffset()));
  Value mask = copy.getMask();
  auto require = [&](Value sees) {
    mask = mask ? AndOp::create(b, loc, mask.getType(), mask, sees).getResult() : sees;
  };
  if (op.getCausal())
    require(CmpOp::create(b, loc, truths, Predicate::LE, key, last));
  if (std::optional<SymExpr> window = op.getWindow())
    require(CmpOp::create(b, loc, truths, Predicate::GT, key,
                          SubOp::create(b, loc, integers, last, size(*window))));
  copy.getMaskMutable().assign(mask);
  copy.setCausal(false);
  copy.removeWindowAttr();
  copy.setCausalOffset(SymExpr(0));
  if (failed(readBlock(block, values, nullptr)))
    return failure();
  values[op.getResult()] = values.lookup(copy.getResult());
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult Reader::readCall(func::CallOp call, Values &values) {
  auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal() || callee.getNumArguments() != call.getNumOperands() ||
      callee.getNumResults() != call.getNumResults() || ++depth > maxDepth)
    return call.emitError() << "cannot be compared with the staged program: it calls @"
                            << call.getCallee() << ", whose signature does not match";
  Values inner;
  for (auto [argument, operand] : llvm::zip_equal(callee.getArguments(), call.getOperands()))
    inner[argument] = values.lookup(operand);
  SmallVector<TermId> returned;
  if (failed(readBlock(callee.front(), inner, &returned)))
    return failure();
  --depth;
  for (auto [result, term] : llvm::zip(call.getResults(), returned))
    values[result] = term;
  return success();
}

static bool communicates(Operation *op) {
  return isa<CollectiveOpInterface>(op) && !isa<LocalSliceOp>(op);
}

LogicalResult Reader::readOp(Operation *op, Values &values) {
  if (++steps > maxSteps)
    return op->emitError() << "cannot be compared with the staged program: calls expand to more "
                           << "than " << maxSteps << " ops";
  if (auto call = dyn_cast<func::CallOp>(op))
    return readCall(call, values);
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    bool isContiguous = true; // factors after the first are not split
    for (FactorAttr factor : getDist(attention.getQ()).getDims()[1].getFactors().drop_front())
      isContiguous &= factor.getAxes().empty();
    if (!isContiguous && (attention.getCausal() || attention.getWindow()))
      return readAttention(attention, values);
  }
  SmallVector<TermId> operands;
  for (Value operand : op->getOperands()) {
    auto it = values.find(operand);
    if (it == values.end())
      return op->emitError() << "cannot be compared with the staged program: it takes a value "
                             << "that is not computed before";
    operands.push_back(it->second);
  }
  if (auto loop = dyn_cast<MicroBatchesOp>(op)) {
    note(makeTerm(op, {}, {}), op);
    if (failed(readBlock(loop.getBody().front(), values, nullptr)))
      return failure();
    // The order of additions to different sums has no effect.
    for (auto &[index, sum] : sums)
      effects.push_back(sum);
    sums.clear();
    note(makeNamed("end of micro-batches", op, {}, {}), op);
    return success();
  }
  if (op->getNumRegions() > 0 || op->getNumResults() > 1)
    return op->emitError() << "cannot be compared with the staged program: '" << op->getName()
                           << "' is not an op of tensor functions";
  TermId term;
  if (isa<RecvOp>(op))
    term = terms.intern({op->getName().getStringRef(),
                         getAttributes(op),
                         op->getResult(0).getType(),
                         received++,
                         {},
                         op});
  else
    term = makeTerm(op, operands, op->getNumResults() ? op->getResult(0).getType() : Type());
  if (auto sum = dyn_cast<AccumulateOp>(op))
    sums[sum.getIndex()] = {term, op};
  else if (op->getNumResults() == 0 || isa<RecvOp>(op) || communicates(op))
    note(term, op);
  if (op->getNumResults())
    values[op->getResult(0)] = term;
  return success();
}

LogicalResult Reader::readBlock(Block &block, Values &values, SmallVectorImpl<TermId> *returned) {
  for (Operation &op : block) {
    if (returned && isa<func::ReturnOp>(op)) {
      for (Value operand : op.getOperands())
        returned->push_back(values.lookup(operand));
      return success();
    }
    if (failed(readOp(&op, values)))
      return failure();
  }
  return success();
}

static Term makeArgument(BlockArgument argument) {
  Term term;
  term.name = "argument";
  term.type = argument.getType();
  term.index = argument.getArgNumber();
  return term;
}

FailureOr<Effects> Reader::readStage(PipelineOp pipeline, StageOp stage) {
  Values values;
  for (BlockArgument argument : pipeline.getBody().getArguments())
    values[argument] = terms.intern(makeArgument(argument));
  effects.clear();
  received = 0;
  if (failed(readBlock(stage.getBody().front(), values, nullptr)))
    return failure();
  return std::move(effects);
}

FailureOr<Effects> Reader::readFunction(func::FuncOp function) {
  Values values;
  for (BlockArgument argument : function.getArguments())
    values[argument] = terms.intern(makeArgument(argument));
  effects.clear();
  SmallVector<TermId> returned;
  if (failed(readBlock(function.front(), values, &returned)))
    return failure();
  for (TermId term : returned)
    note(term, function.front().getTerminator());
  return std::move(effects);
}

//===----------------------------------------------------------------------===//
// Differences
//===----------------------------------------------------------------------===//

static LogicalResult compare(const Terms &terms, Operation *where, const Effects &actual,
                             const Effects &expected) {
  for (auto [a, e] : llvm::zip(actual, expected))
    if (a.term != e.term)
      return reportDifference(terms, a, e);
  if (actual.size() == expected.size())
    return success();
  const Effect &unmatched =
      actual.size() > expected.size() ? actual[expected.size()] : expected[actual.size()];
  return where->emitError() << "its tensor functions differ from the staged program's: '"
                            << getSourceName(unmatched.op->getLoc()) << "' ("
                            << unmatched.op->getName() << ") is "
                            << (actual.size() > expected.size() ? "extra" : "missing");
}

LogicalResult lowered::compareTensors(ModuleOp staged, ModuleOp lowered) {
  Terms terms;
  Reader before(staged, terms), after(lowered, terms);
  auto pipelines = llvm::to_vector(staged.getOps<PipelineOp>());
  auto loweredPipelines = llvm::to_vector(lowered.getOps<PipelineOp>());
  if (pipelines.size() != loweredPipelines.size())
    return emitError(lowered.getLoc())
           << "has " << loweredPipelines.size() << " pipelines, but the staged "
           << "program has " << pipelines.size();
  for (auto [expected, actual] : llvm::zip_equal(pipelines, loweredPipelines)) {
    auto stages = llvm::to_vector(expected.getBody().getOps<StageOp>());
    auto loweredStages = llvm::to_vector(actual.getBody().getOps<StageOp>());
    if (stages.size() != loweredStages.size())
      return actual.emitError() << "has " << loweredStages.size()
                                << " stages, but the staged program "
                                << "has " << stages.size();
    for (auto [want, have] : llvm::zip_equal(stages, loweredStages)) {
      if (want.getIndex() != have.getIndex())
        return have.emitError() << "is stage " << have.getIndex() << ", but in the staged program "
                                << "it is " << want.getIndex();
      FailureOr<Effects> e = before.readStage(expected, want);
      if (failed(e))
        return failure();
      FailureOr<Effects> a = after.readStage(actual, have);
      if (failed(a) || failed(compare(terms, have, *a, *e)))
        return failure();
    }
  }
  if (!pipelines.empty())
    return success();
  auto main = staged.lookupSymbol<func::FuncOp>("main");
  auto loweredMain = lowered.lookupSymbol<func::FuncOp>("main");
  if (!main || !loweredMain)
    return success();
  FailureOr<Effects> e = before.readFunction(main);
  if (failed(e))
    return failure();
  FailureOr<Effects> a = after.readFunction(loweredMain);
  return failure(failed(a) || failed(compare(terms, loweredMain, *a, *e)));
}
