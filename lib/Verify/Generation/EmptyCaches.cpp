//===- EmptyCaches.cpp - Equivalence of model and step without past -------===//
//
// Specializes both programs to an empty past: its symbol is replaced by 0, and inputs that only the
// model has by their defaults. Patterns on single ops then remove empty operands, sums with 0, and
// masks that hide nothing. The remaining expressions must be equal (Terms.h).
//
//===----------------------------------------------------------------------===//

#include "EmptyCaches.h"

#include "../Equivalence/Terms.h"
#include "FlatProgram.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/ProgramAttrs.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::generation;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Empty past
//===----------------------------------------------------------------------===//

void generation::replaceSymbol(func::FuncOp main, const std::string &name, const SymExpr &by) {
  std::map<std::string, SymExpr> values = {{name, by}};
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](RankedTensorType type) -> Type {
    SmallVector<SymExpr> sizes = getSizes(type);
    for (SymExpr &size : sizes)
      size = size.substitute(values);
    return makeTensorType(type.getElementType(), sizes);
  });
  replacer.addReplacement([&](SymExprAttr attribute) -> Attribute {
    return SymExprAttr::get(attribute.getContext(), attribute.getExpr().substitute(values));
  });
  replacer.recursivelyReplaceElementsIn(main, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

static bool isEmpty(Type type) {
  return llvm::any_of(getSizes(type), [](const SymExpr &size) { return size.isConstant(0); });
}

namespace {
class Numbers {
public:
  static std::optional<double> find(Value value) { return Numbers().visit(value); }

private:
  std::optional<double> visit(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || ++visited > maxVisited)
      return std::nullopt;
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!splat || !isa<IntegerType>(splat.getElementType()))
        return std::nullopt;
      const APInt number = splat.getSplatValue<APInt>();
      return splat.getElementType().isInteger(1) ? double(number.getZExtValue())
                                                 : double(number.getSExtValue());
    }
    if (auto size = dyn_cast<SizeOp>(op)) {
      auto number = size.getExpr().asConstant();
      return number ? std::optional<double>(double(*number)) : std::nullopt;
    }
    if (op->hasTrait<MovementOpInterface::Trait>())
      return visit(op->getOperand(0));
    auto scalar = dyn_cast<ScalarOpInterface>(op);
    if (!scalar)
      return std::nullopt;
    SmallVector<double> numbers;
    for (Value operand : op->getOperands()) {
      std::optional<double> number = visit(operand);
      if (!number)
        return std::nullopt;
      numbers.push_back(*number);
    }
    return scalar.evaluateScalar(numbers);
  }

  static constexpr unsigned maxVisited = 256;
  unsigned visited = 0;
};

} // namespace

std::optional<double> generation::findNumber(Value value) { return Numbers::find(value); }

//===----------------------------------------------------------------------===//
// Identities
//===----------------------------------------------------------------------===//

namespace {
/// Folds concat(empty, x) to x.
struct DropEmpty : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> rest;
    for (Value operand : op.getOperands())
      if (!getSizes(operand)[op.getDim()].isConstant(0))
        rest.push_back(operand);
    if (rest.size() != 1 || rest[0].getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, rest[0]);
    return success();
  }
};

/// If the new tokens of an append fill the cache, replaces the append by these tokens.
struct DropCache : OpRewritePattern<AppendOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AppendOp op, PatternRewriter &rewriter) const override {
    if (findNumber(op.getLengths()) != 0.0 || op.getFresh().getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, op.getFresh());
    return success();
  }
};

/// Merges two transposes. Replaces a transpose that moves only dimensions of size 1 by a reshape.
struct JoinTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    SmallVector<int64_t> from(op.getPermutation());
    Value operand = op.getOperand();
    if (auto inner = operand.getDefiningOp<TransposeOp>()) {
      for (int64_t &dim : from)
        dim = inner.getPermutation()[dim];
      operand = inner.getOperand();
    }
    SmallVector<SymExpr> sizes = getSizes(operand);
    SmallVector<int64_t> moved;
    llvm::copy_if(from, std::back_inserter(moved),
                  [&](int64_t dim) { return !sizes[dim].isConstant(1); });
    if (llvm::is_sorted(moved))
      rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), operand);
    else if (operand != op.getOperand())
      rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), operand, from);
    else
      return failure();
    return success();
  }
};

/// Folds x + 0, true and x, and selects with a constant condition.
struct DropIdentity : OpInterfaceRewritePattern<ScalarOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ScalarOpInterface op, PatternRewriter &rewriter) const override {
    Value same;
    if (auto select = dyn_cast<SelectOp>(*op)) {
      if (auto number = Numbers::find(select.getCondition()))
        same = *number != 0 ? select.getLhs() : select.getRhs();
    } else if (op->getNumOperands() == 2) {
      for (unsigned i : {0, 1})
        if (std::optional<double> one = op.getIdentity(i);
            one && Numbers::find(op->getOperand(i)) == one)
          same = op->getOperand(1 - i);
    }
    if (!same || same.getType() != op->getResult(0).getType())
      return failure();
    rewriter.replaceOp(op, same);
    return success();
  }
};

/// Removes masks that hide nothing. If each query sees its own key, also resets the attribute for
/// rows without visible keys.
struct DropMasks : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    auto isNumber = [](Value value, bool zero) {
      std::optional<double> number = value ? findNumber(value) : std::nullopt;
      return number && (*number == 0) == zero;
    };
    bool dropsKeys = isNumber(op.getKeyMask(), false), dropsMask = isNumber(op.getMask(), false);
    bool dropsLengths = isNumber(op.getLengths(), true);
    bool window = !op.getWindow() || op.getWindow()->lowerBound().value_or(0) >= 1;
    bool seesOwn = op.getCausal() && op.getCausalOffset().isConstant(0) && window &&
                   (!op.getLengths() || dropsLengths) && (!op.getKeyMask() || dropsKeys) &&
                   (!op.getMask() || dropsMask) && getSizes(op.getQ())[1] == getSizes(op.getK())[1];
    bool dropsRow = seesOwn && op.getMaskedRow() != MaskedRow::Zero;
    if (!dropsKeys && !dropsMask && !dropsLengths && !dropsRow)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      if (dropsKeys)
        op.getKeyMaskMutable().clear();
      if (dropsMask)
        op.getMaskMutable().clear();
      if (dropsLengths)
        op.getLengthsMutable().clear();
      if (dropsRow)
        op.setMaskedRow(MaskedRow::Zero);
    });
    return success();
  }
};

/// Replaces an iota whose other dimensions have size 1 by a reshape of a one-dimensional iota.
struct OneIota : OpRewritePattern<IotaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(IotaOp op, PatternRewriter &rewriter) const override {
    SmallVector<SymExpr> sizes = getSizes(op.getResult());
    for (auto [d, size] : llvm::enumerate(sizes))
      if (sizes.size() == 1 || (d != op.getDim() && !size.isConstant(1)))
        return failure();
    Type type = makeTensorType(elementTypeOf(op.getResult()), {sizes[op.getDim()]});
    Value flat = IotaOp::create(rewriter, op.getLoc(), type, 0);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), flat);
    return success();
  }
};

/// Removes `count` leading dimensions of size 1.
static Value squeeze(PatternRewriter &rewriter, Value value, unsigned count) {
  SmallVector<SymExpr> sizes = getSizes(value);
  sizes.erase(sizes.begin(), sizes.begin() + count);
  Type type = makeTensorType(elementTypeOf(value), sizes);
  return ReshapeOp::create(rewriter, value.getLoc(), type, value);
}

static unsigned countOnes(Value value) {
  SmallVector<SymExpr> sizes = getSizes(value);
  return llvm::find_if(sizes, [](const SymExpr &size) { return !size.isConstant(1); }) -
         sizes.begin();
}

/// Removes leading dimensions of size 1 from an op by reshapes before and after it, because one of
/// the programs may lack these dimensions. `keep`: number of trailing dimensions of the result to
/// keep.
static LogicalResult squeezeOp(Operation *op, PatternRewriter &rewriter, unsigned keep,
                               llvm::function_ref<void(Operation *, unsigned)> fix = nullptr) {
  Value result = op->getResult(0);
  unsigned rank = rankOf(result);
  unsigned count = std::min(countOnes(result), rank > keep ? rank - keep : 0);
  if (count == 0)
    return failure();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    // Operands of fewer dimensions broadcast.
    unsigned missing = rank - std::min<unsigned>(rank, rankOf(operand));
    unsigned removed = count > missing ? count - missing : 0;
    if (removed > countOnes(operand))
      return failure();
    operands.push_back(removed ? squeeze(rewriter, operand, removed) : operand);
  }
  SmallVector<SymExpr> sizes = getSizes(result);
  sizes.erase(sizes.begin(), sizes.begin() + count);
  Operation *small = rewriter.clone(*op);
  small->setOperands(operands);
  small->getResult(0).setType(cast<RankedTensorType>(makeTensorType(elementTypeOf(result), sizes)));
  if (fix)
    fix(small, count);
  rewriter.replaceOpWithNewOp<ReshapeOp>(op, result.getType(), small->getResult(0));
  return success();
}

struct SqueezeScalar : OpInterfaceRewritePattern<ScalarOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ScalarOpInterface op, PatternRewriter &rewriter) const override {
    return squeezeOp(op, rewriter, 0);
  }
};

struct SqueezeMatmul : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    if (op.getBias() || rankOf(op.getLhs()) < 2)
      return failure();
    return squeezeOp(op, rewriter, 2);
  }
};

struct SqueezeTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    // Count only leading dimensions that the op does not move.
    unsigned same = 0;
    while (same < op.getPermutation().size() && op.getPermutation()[same] == int64_t(same))
      ++same;
    unsigned rank = rankOf(op.getResult());
    return squeezeOp(op, rewriter, rank - same, [](Operation *small, unsigned count) {
      auto transpose = cast<TransposeOp>(small);
      SmallVector<int64_t> from(transpose.getPermutation().drop_front(count));
      for (int64_t &dim : from)
        dim -= count;
      transpose.setPermutation(from);
    });
  }
};

/// Squeezes a slice or a concatenation, and adapts its attribute `dim`.
template <typename OpT> struct SqueezeAlong : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    unsigned rank = rankOf(op.getResult());
    return squeezeOp(op, rewriter, rank - op.getDim(), [](Operation *small, unsigned count) {
      auto along = cast<OpT>(small);
      along.setDim(along.getDim() - count);
    });
  }
};

/// Squeezes the indices of a lookup.
struct SqueezeGather : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    unsigned count = countOnes(op.getIndices());
    if (op.getDim() != 0 || count == 0)
      return failure();
    SmallVector<SymExpr> sizes = getSizes(op.getResult());
    sizes.erase(sizes.begin(), sizes.begin() + count);
    Value small = GatherOp::create(rewriter, op.getLoc(),
                                   makeTensorType(elementTypeOf(op.getResult()), sizes),
                                   op.getData(), squeeze(rewriter, op.getIndices(), count), 0);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), small);
    return success();
  }
};

/// Folds a slice that selects all elements to its operand.
struct DropSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    if (op.getType() != op.getOperand().getType() || !op.getStart().isConstant(0) ||
        op.getStep() != 1)
      return failure();
    rewriter.replaceOp(op, op.getOperand());
    return success();
  }
};

/// Replaces an expand that only adds dimensions of size 1 by a reshape.
struct DropExpand : OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpandOp op, PatternRewriter &rewriter) const override {
    SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
    unsigned added = to.size() - from.size();
    if (ArrayRef(to).drop_front(added) != ArrayRef(from) || countOnes(op.getResult()) < added)
      return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getOperand());
    return success();
  }
};
} // namespace

static void simplify(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<DropEmpty, DropCache, JoinTransposes, DropIdentity, DropMasks, OneIota, DropSlice,
               DropExpand, SqueezeScalar, SqueezeMatmul, SqueezeTranspose, SqueezeAlong<ConcatOp>,
               SqueezeGather, SqueezeAlong<SliceOp>>(module.getContext());
  populateCastPatterns(patterns);
  FrozenRewritePatternSet frozen(std::move(patterns));
  // The result of one pattern may match another in the next iteration.
  for (int round = 0; round < 3; ++round)
    walkAndApplyPatterns(module, frozen);
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

static StringRef getName(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(kNameAttr) : StringAttr();
  return name ? name.getValue() : StringRef();
}

/// Returns the default of an omitted input if the past is empty.
static Value makeDefault(OpBuilder &builder, BlockArgument input, InputDefaultAttr left) {
  auto type = cast<RankedTensorType>(input.getType());
  Location loc = input.getLoc();
  if (left.getKind() != InputDefaultKind::Ones)
    return type.getRank() == 0 ? Value()
                               : Value(IotaOp::create(builder, loc, type, type.getRank() - 1));
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Attribute one = isa<FloatType>(type.getElementType())
                      ? Attribute(builder.getFloatAttr(type.getElementType(), 1))
                      : Attribute(builder.getIntegerAttr(type.getElementType(), 1));
  Value value = ConstantOp::create(builder, loc, scalar, DenseElementsAttr::get(scalar, {one}));
  return ExpandOp::create(builder, loc, type, value);
}

/// Reorders the arguments.
static void permuteInputs(func::FuncOp main, ArrayRef<unsigned> order) {
  unsigned count = main.getNumArguments();
  for (unsigned from : order) {
    BlockArgument old = main.getArgument(from);
    unsigned to = main.getNumArguments();
    (void)main.insertArgument(to, old.getType(), main.getArgAttrDict(from), old.getLoc());
    old.replaceAllUsesWith(main.getArgument(to));
  }
  BitVector old(main.getNumArguments());
  old.set(0, count);
  (void)main.eraseArguments(old);
}

/// Gives inputs of the same name the same index in both programs. Replaces other inputs of the
/// model by their defaults, and caches and inputs of the past by empty tensors.
static LogicalResult pairInputs(func::FuncOp model, func::FuncOp step) {
  SmallVector<unsigned> inModel, inStep, rest;
  for (unsigned i = 0; i < step.getNumArguments(); ++i) {
    StringRef name = getName(step.getArgAttrDict(i));
    Type type = step.getArgumentTypes()[i];
    std::optional<unsigned> same;
    for (unsigned k = 0; k < model.getNumArguments(); ++k)
      if (getName(model.getArgAttrDict(k)) == name && model.getArgumentTypes()[k] == type &&
          !llvm::is_contained(inModel, k))
        same = k;
    if (isEmpty(type) || getCache(step.getArgAttrDict(i))) {
      rest.push_back(i); // a cache that is not empty must not be used
      continue;
    }
    if (!same)
      return step.emitError() << "input '" << name << "' of the step, " << type
                              << " without a past, is not an input of the model";
    inStep.push_back(i);
    inModel.push_back(*same);
  }
  llvm::append_range(inStep, rest);
  OpBuilder builder = OpBuilder::atBlockBegin(&model.front());
  for (unsigned k = 0; k < model.getNumArguments(); ++k) {
    if (llvm::is_contained(inModel, k))
      continue;
    BlockArgument input = model.getArgument(k);
    InputDefaultAttr left = InputDefaultAttr::lookup(model.getArgAttrDict(k));
    Value value = left ? makeDefault(builder, input, left) : Value();
    if (!value && !isEmpty(input.getType()))
      return model.emitError() << "input '" << getName(model.getArgAttrDict(k))
                               << "' is not an input of the step";
    if (value)
      input.replaceAllUsesWith(value);
    inModel.push_back(k);
  }
  permuteInputs(model, inModel);
  permuteInputs(step, inStep);
  return success();
}

/// Removes all outputs except the step's outputs other than caches, and the model's outputs with
/// the same names.
static LogicalResult pairOutputs(func::FuncOp model, func::FuncOp step,
                                 equivalence::ProgramTerms &modelTerms,
                                 equivalence::ProgramTerms &stepTerms) {
  equivalence::ProgramTerms expected, actual;
  auto take = [](equivalence::ProgramTerms &to, const equivalence::ProgramTerms &from, unsigned i) {
    to.outputs.push_back(from.outputs[i]);
    to.outputTypes.push_back(from.outputTypes[i]);
  };
  for (unsigned i = 0; i < step.getNumResults(); ++i) {
    if (getCache(step.getResultAttrDict(i)))
      continue;
    StringRef name = getName(step.getResultAttrDict(i));
    std::optional<unsigned> same;
    for (unsigned k = 0; k < model.getNumResults(); ++k)
      if (getName(model.getResultAttrDict(k)) == name)
        same = k;
    if (!same)
      return step.emitError() << "output '" << name << "' is not an output of the model";
    take(actual, stepTerms, i);
    take(expected, modelTerms, *same);
  }
  if (actual.outputs.empty())
    return step.emitError("has no outputs other than caches");
  modelTerms = std::move(expected);
  stepTerms = std::move(actual);
  return success();
}

LogicalResult generation::proveEmpty(ModuleOp model, ModuleOp step, const std::string &past) {
  func::FuncOp modelMain = getMain(model), stepMain = getMain(step);
  replaceSymbol(modelMain, past, 0);
  replaceSymbol(stepMain, past, 0);
  if (failed(pairInputs(modelMain, stepMain)))
    return failure();
  simplify(model);
  simplify(step);
  equivalence::Terms terms;
  auto expected = equivalence::readProgram(model, terms);
  if (failed(expected))
    return failure();
  terms.beginProgram();
  auto actual = equivalence::readProgram(step, terms);
  if (failed(actual) || failed(pairOutputs(modelMain, stepMain, *expected, *actual)))
    return failure();
  return equivalence::compareOutputs(step, terms, *actual, *expected);
}
