//===- ChunkModels.cpp - Op lemmas for steps in chunks --------------------===//
//
// Lemmas of ops whose formula is not sufficient, derived from the descriptions of the ops. W, F and
// S are the results of an op in the combined run, the first chunk and the second chunk (Chunks.h).
//
//===----------------------------------------------------------------------===//

#include "Chunks.h"

#include "tpc/Dialect/AttachModels.h"
#include "tpc/Verify/Verify.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::generation;
using ::tpc::SymExpr;
using Relations = ArrayRef<ChunkRelation>;

/// Applies the op's formula, ignoring shifts of the operands.
static FailureOr<ChunkRelation> relateUnshifted(Operation *op, ChunkProver &p, Relations operands) {
  SmallVector<ChunkRelation> unmoved(operands);
  for (ChunkRelation &relation : unmoved)
    relation.setShift({});
  return p.relateByFormula(op, unmoved);
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

static FailureOr<ChunkRelation> relate(ConstantOp op, ChunkProver &p, Relations) {
  ChunkRelation relation;
  if (auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
      splat && isa<IntegerType>(splat.getElementType())) {
    const APInt value = splat.getSplatValue<APInt>();
    relation.number =
        splat.getElementType().isInteger(1) ? int64_t(value.getZExtValue()) : value.getSExtValue();
  }
  return relation;
}

/// A size expression differs between runs by a known amount.
static FailureOr<ChunkRelation> relate(SizeOp op, ChunkProver &p, Relations) {
  const SymExpr &e = op.getExpr();
  ChunkRelation relation;
  relation.inFirst = p.inFirst(e) - p.inWhole(e);
  relation.inSecond = p.inSecond(e) - p.inWhole(e);
  if (!p.dependsOnTokens(e))
    relation.number = e.asConstant();
  return relation;
}

/// An iota over the tokens of the step begins at 0 in each run: S[i] = i = W[a + i] - a. An iota
/// that includes the past is equal in all runs.
static FailureOr<ChunkRelation> relate(IotaOp op, ChunkProver &p, Relations) {
  SmallVector<SymExpr> sizes = getSizes(op.getResult());
  unsigned dim = op.getDim();
  if (!p.dependsOnTokens(sizes[dim]))
    return ChunkRelation(); // equal along all other dimensions
  std::optional<ChunkRelation> relation = p.makeTokens(sizes[dim], dim);
  if (!relation)
    return p.fail(op) << "counts " << sizes[dim].str()
                      << " elements, which are neither the tokens of the step nor those of the "
                         "past and the step";
  if (relation->kind == ChunkRelation::New)
    relation->inSecond = -p.getFirst();
  return *relation;
}

/// If all elements are v, the sum up to token i is (i + 1) v, or i v in exclusive mode: an iota
/// times v. A reverse sum is (n - i) v, which is smaller by c v in the first chunk.
static FailureOr<ChunkRelation> relate(CumSumOp op, ChunkProver &p, Relations operands) {
  unsigned dim = op.getDim();
  SymExpr size = getSizes(op.getOperand())[dim];
  if (!p.dependsOnTokens(size))
    return p.relateByFormula(op, operands);
  const ChunkRelation &operand = operands[0];
  std::optional<ChunkRelation> relation = p.makeTokens(size, dim);
  if (!relation || !operand.number || operand.isShifted())
    return p.fail(op) << "sums values that are not one constant for each token: the sum "
                         "before a step is unknown";
  SymExpr each = *operand.number;
  if (op.getReverse())
    relation->inFirst = each * (p.inFirst(size) - p.inWhole(size));
  else if (relation->kind == ChunkRelation::New)
    relation->inSecond = -each * p.getFirst();
  return *relation;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// (x + s) + (y + t) = (x + y) + (s + t).
static FailureOr<ChunkRelation> relate(AddOp op, ChunkProver &p, Relations operands) {
  FailureOr<ChunkRelation> relation = relateUnshifted(op, p, operands);
  if (succeeded(relation)) {
    relation->inFirst = operands[0].inFirst + operands[1].inFirst;
    relation->inSecond = operands[0].inSecond + operands[1].inSecond;
  }
  return relation;
}

static FailureOr<ChunkRelation> relate(SubOp op, ChunkProver &p, Relations operands) {
  FailureOr<ChunkRelation> relation = relateUnshifted(op, p, operands);
  if (succeeded(relation)) {
    relation->inFirst = operands[0].inFirst - operands[1].inFirst;
    relation->inSecond = operands[0].inSecond - operands[1].inSecond;
  }
  return relation;
}

static FailureOr<ChunkRelation> relate(NegOp op, ChunkProver &p, Relations operands) {
  FailureOr<ChunkRelation> relation = relateUnshifted(op, p, operands);
  if (succeeded(relation)) {
    relation->inFirst = -operands[0].inFirst;
    relation->inSecond = -operands[0].inSecond;
  }
  return relation;
}

static FailureOr<ChunkRelation> relate(MulOp op, ChunkProver &p, Relations operands) {
  for (unsigned i : {0, 1}) {
    const ChunkRelation &moved = operands[i], &other = operands[1 - i];
    if (!moved.isShifted() || !other.number)
      continue;
    FailureOr<ChunkRelation> relation = relateUnshifted(op, p, operands);
    if (succeeded(relation)) {
      relation->inFirst = *other.number * moved.inFirst;
      relation->inSecond = *other.number * moved.inSecond;
    }
    return relation;
  }
  return p.relateByFormula(op, operands);
}

/// A cast between floats, or of an integer to any type, preserves a shift, because the proof takes
/// arithmetic to be exact. Casts from or to i1, and casts of floats to integers, which truncate, do
/// not.
static FailureOr<ChunkRelation> relate(CastOp op, ChunkProver &p, Relations operands) {
  Type from = elementTypeOf(op.getOperand()), to = elementTypeOf(op.getResult());
  bool exact = !to.isInteger(1) && !from.isInteger(1) &&
               (isa<IntegerType>(from) || (isa<FloatType>(from) && isa<FloatType>(to)));
  if (!exact)
    return p.relateByFormula(op, operands);
  FailureOr<ChunkRelation> relation = relateUnshifted(op, p, operands);
  if (succeeded(relation))
    relation->setShift(operands[0]);
  return relation;
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

static SymExpr multiply(ArrayRef<SymExpr> sizes) {
  SymExpr all(1);
  for (const SymExpr &size : sizes)
    all = all * size;
  return all;
}

/// Returns a / b, or nothing if b may be 0.
static std::optional<SymExpr> divide(const SymExpr &a, const SymExpr &b) {
  return b.isConstant(0) ? std::nullopt : a.divideExact(b);
}

/// In row-major order, both shapes are major x tokens x minor.
static FailureOr<ChunkRelation> relateTokens(ReshapeOp op, ChunkProver &p,
                                             const ChunkRelation &operand) {
  SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
  SymExpr before = multiply(ArrayRef(from).take_front(operand.dim)) * operand.major;
  SymExpr after = operand.minor * multiply(ArrayRef(from).drop_front(operand.dim + 1));
  for (auto [d, size] : llvm::enumerate(to)) {
    if (!p.dependsOnTokens(size))
      continue;
    auto major = divide(before, multiply(ArrayRef(to).take_front(d)));
    auto minor = divide(after, multiply(ArrayRef(to).drop_front(d + 1)));
    if (!major || !minor || size != *major * p.countTokens(operand.kind) * *minor)
      break;
    ChunkRelation relation = operand;
    relation.dim = d;
    relation.major = *major;
    relation.minor = *minor;
    relation.joint = nullptr;
    return relation;
  }
  return p.fail(op) << "splits tokens: no dimension of " << op.getType() << " has whole tokens";
}

/// In row-major order, both shapes are before x tokens x between x tokens up to the end x after.
static FailureOr<ChunkRelation> relatePairs(ReshapeOp op, ChunkProver &p,
                                            const ChunkRelation &operand) {
  auto layout = [](ArrayRef<SymExpr> sizes, unsigned dim, unsigned other) {
    return std::array{multiply(sizes.take_front(dim)),
                      dim == other ? SymExpr(1) : multiply(sizes.slice(dim + 1, other - dim - 1)),
                      multiply(sizes.drop_front(other + 1))};
  };
  SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
  auto wanted = layout(from, operand.dim, operand.other);
  const SymExpr &tokens = p.getTokens(), &all = p.countTokens(ChunkRelation::Appended);
  for (unsigned dim = 0; dim < to.size(); ++dim)
    for (unsigned other = dim; other < to.size(); ++other) {
      bool fits = dim == other ? to[dim] == tokens * all : to[dim] == tokens && to[other] == all;
      if (!fits || layout(to, dim, other) != wanted)
        continue;
      ChunkRelation relation = operand;
      relation.dim = dim;
      relation.other = other;
      return relation;
    }
  return p.fail(op) << "splits pairs of tokens";
}

/// If all elements along a dimension are equal, so are all elements along its factors.
static FailureOr<ChunkRelation> relateSame(ReshapeOp op, ChunkProver &p,
                                           const ChunkRelation &operand) {
  SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
  auto inTokens = [&](const SymExpr &size) { return p.dependsOnTokens(size); };
  auto dim = llvm::find_if(from, inTokens);
  if (operand.number || (dim == from.end() && llvm::none_of(to, inTokens)))
    return operand;
  if (dim == from.end())
    return p.fail(op) << "has another number of elements than its operand";
  SymExpr before = multiply(ArrayRef(from.begin(), dim));
  for (unsigned begin = 0; begin <= to.size(); ++begin)
    for (unsigned end = begin; end <= to.size(); ++end) {
      ArrayRef<SymExpr> all(to), factors = all.slice(begin, end - begin);
      if (multiply(all.take_front(begin)) == before && multiply(factors) == *dim &&
          llvm::none_of(all.take_front(begin), inTokens) &&
          llvm::none_of(all.drop_front(end), inTokens) &&
          std::none_of(std::next(dim), from.end(), inTokens))
        return operand;
    }
  return p.fail(op) << "merges values that are equal for all tokens with values that are not";
}

static FailureOr<ChunkRelation> relate(ReshapeOp op, ChunkProver &p, Relations operands) {
  const ChunkRelation &operand = operands[0];
  if (operand.kind == ChunkRelation::Cached)
    return p.fail(op) << "uses cache " << operand.cache
                      << " before the step in another way than to append new tokens to it";
  if (operand.kind == ChunkRelation::Pairs)
    return relatePairs(op, p, operand);
  return operand.hasTokens() ? relateTokens(op, p, operand) : relateSame(op, p, operand);
}

/// W[i] is element start + i step of the operand. S[i] must be W[a + i], or W[i] if the dimension
/// includes the past.
static FailureOr<ChunkRelation> relate(SliceOp op, ChunkProver &p, Relations operands) {
  unsigned dim = op.getDim();
  const ChunkRelation &operand = operands[0];
  SymExpr from = getSizes(op.getOperand())[dim], size = getSizes(op.getResult())[dim];
  const SymExpr &start = op.getStart();
  bool here =
      operand.kind != ChunkRelation::Same &&
      (operand.dim == dim || (operand.kind == ChunkRelation::Pairs && operand.other == dim));
  if (!p.dependsOnTokens(size) && !p.dependsOnTokens(from) && !here)
    return p.relateByFormula(op, operands);
  if (operand.kind == ChunkRelation::Same && p.dependsOnTokens(from))
    return operand; // all elements are equal
  auto refuse = [&] {
    return p.fail(op) << "takes " << size.str() << " of " << from.str() << " elements from "
                      << start.str() << " on: their tokens differ from step to step";
  };
  if (here && from == size && start.isConstant(0) && op.getStep() == 1) {
    ChunkRelation relation = operand;
    relation.joint = nullptr;
    return relation;
  }
  std::optional<ChunkRelation> relation = p.makeTokens(size, dim);
  // Contiguous elements of a table, or of the dimension of all tokens.
  bool table = operand.kind == ChunkRelation::Same && !p.dependsOnTokens(op.getOperand().getType());
  bool all = operand.kind == ChunkRelation::Appended && here &&
             from == p.countTokens(ChunkRelation::Appended);
  if (!relation || !(table || all) || (all && relation->kind != ChunkRelation::New))
    return refuse();
  SymExpr step = relation->kind == ChunkRelation::New ? op.getStep() * p.getFirst() : SymExpr(0);
  if (p.inFirst(start) != p.inWhole(start) || p.inSecond(start) != p.inWhole(start) + step)
    return refuse();
  relation->setShift(operand);
  return *relation;
}

/// With + for concatenation: W = old + x, F = old + x[.. a], and S = F + x[a ..] = W, because the
/// cache before the second chunk is F.
static FailureOr<ChunkRelation> relate(ConcatOp op, ChunkProver &p, Relations operands) {
  unsigned dim = op.getDim();
  if (!p.dependsOnTokens(getSizes(op.getResult())[dim]))
    return p.relateByFormula(op, operands);
  std::optional<int64_t> number = operands[0].number;
  if (number && llvm::all_of(operands, [&](const ChunkRelation &relation) {
        return relation.number == number && !relation.isShifted();
      }))
    return ChunkRelation{.number = number};
  bool joins = operands.size() == 2 && operands[0].kind == ChunkRelation::Cached &&
               operands[0].dim == dim && !operands[1].isShifted() &&
               p.isTokens(op.getOperands()[1], operands[1], dim, ChunkRelation::New);
  if (!joins)
    return p.fail(op) << "concatenates tokens with other values than one cache followed by the "
                         "tokens of the step: positions would differ in a longer step";
  p.recordAppend(operands[0].cache, op);
  return ChunkRelation{.kind = ChunkRelation::Appended, .dim = dim, .joint = op};
}

/// In-place concatenation at the length of the cache. Elements after the new tokens are unknown.
static FailureOr<ChunkRelation> relate(AppendOp op, ChunkProver &p, Relations operands) {
  if (operands[0].kind != ChunkRelation::Cached)
    return p.relateByFormula(op, operands);
  if (!p.isLengths(op.getLengths()) || operands[1].isShifted() ||
      !p.isTokens(op.getFresh(), operands[1], CacheOp::tokenDim, ChunkRelation::New))
    return p.fail(op) << "does not append the tokens of the step at the length of the cache";
  p.recordAppend(operands[0].cache, op);
  return ChunkRelation{.kind = ChunkRelation::Appended, .dim = CacheOp::tokenDim, .joint = op};
}

static FailureOr<ChunkRelation> relate(RollOp op, ChunkProver &p, Relations operands) {
  const ChunkRelation &operand = operands[0];
  if (operand.kind == ChunkRelation::Cached ||
      p.dependsOnTokens(getSizes(op.getOperand())[op.getDim()]) ||
      p.dependsOnTokens(op.getFrom()) || p.dependsOnTokens(op.getEvery()))
    return p.fail(op) << "shifts tokens: its result for a token is another token's";
  ChunkRelation relation = operand;
  relation.joint = nullptr;
  return relation;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Checks that each query sees at least its own key. Otherwise its result may be the mean over all
/// keys, whose number depends on the length of the step.
static LogicalResult checkRows(AttentionOp op, const SymExpr &offset, ChunkProver &p) {
  if (op.getMaskedRow() == MaskedRow::Zero)
    return success();
  auto lowest = offset.lowerBound();
  auto window = op.getWindow() ? op.getWindow()->lowerBound() : std::optional<int64_t>(1);
  if (op.getKeyMask() || !lowest || *lowest < 0 || !window || *window < 1)
    return p.fail(op) << "may have rows that see no key: they are uniform over all keys, whose "
                         "number grows with each new token";
  return success();
}

/// In the combined run, query i is at position i + offset. In the first chunk it is at the same
/// position; the first chunk lacks only keys of later tokens, which are hidden from the query.
/// Query i of the second chunk is query a + i of the combined run, and has all keys.
static FailureOr<ChunkRelation> relate(AttentionOp op, ChunkProver &p, Relations operands) {
  auto inRows = [&](Value value) { return p.dependsOnTokens(getSizes(value)[1]); };
  bool queries = inRows(op.getQ()), keys = inRows(op.getK()) || inRows(op.getV());
  if (!keys && (!queries || (!op.getCausal() && !op.getWindow() && !op.getSlopes())))
    return p.relateByFormula(op, operands); // operands without tokens
  if (!op.getCausal())
    return p.fail(op) << "is not causal: its results for earlier tokens would change with each "
                         "new token";
  if (op.getMask())
    return p.fail(op)
           << "takes a mask of queries and keys as a tensor (a prefix mask?): the visible "
              "past of a step is unknown";
  for (auto [relation, value] : llvm::zip(operands, op.getOperands())) {
    if (relation.isShifted() && !p.isLengths(value))
      return p.fail(op) << "takes values that depend on the number of tokens";
    if (relation.kind == ChunkRelation::Cached)
      return p.fail(op) << "reads cache " << relation.cache
                        << " before the step, without the tokens of the step";
  }
  if (!p.isTokens(op.getQ(), operands[0], 1, ChunkRelation::New))
    return p.fail(op) << "has queries that are not the tokens of the step";
  for (unsigned i : {1, 2})
    if (!p.isTokens(op.getOperand(i), operands[i], 1, ChunkRelation::Appended))
      return p.fail(op) << "has " << getSizes(op.getOperand(i))[1].str() << " "
                        << (i == 1 ? "keys" : "values")
                        << ", which are not those of the past and then those of the step";
  unsigned next = 3;
  if (op.getKeyMask() && !p.isTokens(op.getKeyMask(), operands[next++], 1, ChunkRelation::Appended))
    return p.fail(op) << "has a key mask without one element for each token of the past and the "
                         "step";
  if (op.getBias()) {
    const ChunkRelation &bias = operands[next];
    bool isPairs = bias.kind == ChunkRelation::Pairs && bias.dim == 2 && bias.other == 3;
    if (!isPairs && bias.kind != ChunkRelation::Same)
      return p.fail(op)
             << "takes a bias of queries and keys as a tensor (a prefix mask?): its value "
                "for a token of the step and one of the past is unknown";
  }
  if (op.getSlopes() && p.dependsOnTokens(op.getSlopes().getType()))
    return p.fail(op) << "has slopes that depend on tokens";
  if (op.getSinks() && p.dependsOnTokens(op.getSinks().getType()))
    return p.fail(op) << "has sinks that depend on tokens";

  SymExpr offset = op.getCausalOffset();
  if (op.getLengths() && !p.isLengths(op.getLengths()))
    return p.fail(op) << "takes lengths that are not the numbers of tokens in caches";
  if (op.getLengths())
    offset = offset + p.getPast();
  if (p.inFirst(offset) != p.inWhole(offset) ||
      p.inSecond(offset) != p.inWhole(offset) + p.getFirst())
    return p.fail(op) << "has queries at offset " << offset.str()
                      << " from the first key: in a later step the offset must grow by the number "
                         "of tokens in between";
  std::optional<int64_t> lowest = (p.getPast() - offset).lowerBound();
  if (!lowest || *lowest < 0)
    return p.fail(op) << "has queries at offset " << offset.str()
                      << " from the first key, which see tokens that a shorter step does not have";
  if (op.getWindow() && p.dependsOnTokens(*op.getWindow()))
    return p.fail(op) << "has a window of " << op.getWindow()->str()
                      << ", which changes with the number of tokens";
  if (failed(checkRows(op, offset, p)))
    return failure();
  return ChunkRelation{.kind = ChunkRelation::New, .dim = 1};
}

namespace {
template <typename OpT> struct ChunkModel : ChunkOpInterface::ExternalModel<ChunkModel<OpT>, OpT> {
  FailureOr<ChunkRelation> relate(Operation *op, ChunkProver &prover,
                                  ArrayRef<ChunkRelation> operands) const {
    return ::relate(cast<OpT>(op), prover, operands);
  }
};
} // namespace

void mlir::tpc::registerGenerationVerification(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    attachModels<ChunkModel, ConstantOp, SizeOp, IotaOp, CumSumOp, AddOp, SubOp, NegOp, MulOp,
                 CastOp, ReshapeOp, SliceOp, ConcatOp, AppendOp, RollOp, AttentionOp>(context);
  });
}
