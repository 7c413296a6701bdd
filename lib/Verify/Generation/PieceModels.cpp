//===- PieceModels.cpp - What ops make of tokens that come in pieces ------===//
//
// Of ops of which the formula does not say it all. Each lemma is written from the op's description.
// W, F and S are an op's result in the whole run, in the first and in the second piece.
//
//===----------------------------------------------------------------------===//

#include "Pieces.h"

#include "tpc/Dialect/AttachModels.h"
#include "tpc/Verify/Verify.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::generation;
using ::tpc::SymExpr;
using Parts = ArrayRef<Part>;

/// What the formula says of operands that are not moved.
static FailureOr<Part> relateUnmoved(Operation *op, PieceProver &p, Parts operands) {
  SmallVector<Part> unmoved(operands);
  for (Part &part : unmoved)
    part.takeShift({});
  return p.relateByFormula(op, unmoved);
}

//===----------------------------------------------------------------------===//
// Where numbers come from
//===----------------------------------------------------------------------===//

static FailureOr<Part> relate(ConstantOp op, PieceProver &p, Parts) {
  Part part;
  if (auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
      splat && isa<IntegerType>(splat.getElementType())) {
    const APInt value = splat.getSplatValue<APInt>();
    part.number =
        splat.getElementType().isInteger(1) ? int64_t(value.getZExtValue()) : value.getSExtValue();
  }
  return part;
}

/// A number made of lengths is another one in each run; by how much is known.
static FailureOr<Part> relate(SizeOp op, PieceProver &p, Parts) {
  const SymExpr &e = op.getExpr();
  Part part;
  part.inFirst = p.inFirst(e) - p.inWhole(e);
  part.inSecond = p.inSecond(e) - p.inWhole(e);
  if (!p.dependsOnTokens(e))
    part.number = e.asConstant();
  return part;
}

/// Tokens count from 0 in each run: S[i] = i = W[a + i] - a. With those of the past, they are the
/// same ones.
static FailureOr<Part> relate(IotaOp op, PieceProver &p, Parts) {
  SmallVector<SymExpr> sizes = getSizes(op.getResult());
  unsigned dim = op.getDim();
  if (!p.dependsOnTokens(sizes[dim]))
    return Part(); // the same along all other dimensions
  std::optional<Part> part = p.makeTokens(sizes[dim], dim);
  if (!part)
    return p.fail(op) << "counts " << sizes[dim].str()
                      << " elements, which are neither the tokens of the step nor those of the "
                         "past and the step";
  if (part->kind == Part::New)
    part->inSecond = -p.getFirst();
  return *part;
}

/// Of v everywhere, the sum up to token i is (i + 1) v, or i v without its own: as an iota, v
/// times. From the end it is (n - i) v, which is c v less in the first piece.
static FailureOr<Part> relate(CumSumOp op, PieceProver &p, Parts operands) {
  unsigned dim = op.getDim();
  SymExpr size = getSizes(op.getOperand())[dim];
  if (!p.dependsOnTokens(size))
    return p.relateByFormula(op, operands);
  const Part &operand = operands[0];
  std::optional<Part> part = p.makeTokens(size, dim);
  if (!part || !operand.number || operand.isMoved())
    return p.fail(op) << "adds up something of the tokens that is not one number for each: what "
                         "was added before a step is not known";
  SymExpr each = *operand.number;
  if (op.getReverse())
    part->inFirst = each * (p.inFirst(size) - p.inWhole(size));
  else if (part->kind == Part::New)
    part->inSecond = -each * p.getFirst();
  return *part;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// (x + s) + (y + t) = (x + y) + (s + t).
static FailureOr<Part> relate(AddOp op, PieceProver &p, Parts operands) {
  FailureOr<Part> part = relateUnmoved(op, p, operands);
  if (succeeded(part)) {
    part->inFirst = operands[0].inFirst + operands[1].inFirst;
    part->inSecond = operands[0].inSecond + operands[1].inSecond;
  }
  return part;
}

static FailureOr<Part> relate(SubOp op, PieceProver &p, Parts operands) {
  FailureOr<Part> part = relateUnmoved(op, p, operands);
  if (succeeded(part)) {
    part->inFirst = operands[0].inFirst - operands[1].inFirst;
    part->inSecond = operands[0].inSecond - operands[1].inSecond;
  }
  return part;
}

static FailureOr<Part> relate(NegOp op, PieceProver &p, Parts operands) {
  FailureOr<Part> part = relateUnmoved(op, p, operands);
  if (succeeded(part)) {
    part->inFirst = -operands[0].inFirst;
    part->inSecond = -operands[0].inSecond;
  }
  return part;
}

static FailureOr<Part> relate(MulOp op, PieceProver &p, Parts operands) {
  for (unsigned i : {0, 1}) {
    const Part &moved = operands[i], &other = operands[1 - i];
    if (!moved.isMoved() || !other.number)
      continue;
    FailureOr<Part> part = relateUnmoved(op, p, operands);
    if (succeeded(part)) {
      part->inFirst = *other.number * moved.inFirst;
      part->inSecond = *other.number * moved.inSecond;
    }
    return part;
  }
  return p.relateByFormula(op, operands);
}

/// Numbers are exact, so that an integer is the same one in any type but i1; what is cut off of
/// others depends on the number.
static FailureOr<Part> relate(CastOp op, PieceProver &p, Parts operands) {
  Type from = elementTypeOf(op.getOperand()), to = elementTypeOf(op.getResult());
  bool exact = !to.isInteger(1) && !from.isInteger(1) &&
               (isa<IntegerType>(from) || (isa<FloatType>(from) && isa<FloatType>(to)));
  if (!exact)
    return p.relateByFormula(op, operands);
  FailureOr<Part> part = relateUnmoved(op, p, operands);
  if (succeeded(part))
    part->takeShift(operands[0]);
  return part;
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

/// The quotient, where it is known that nothing is divided by 0.
static std::optional<SymExpr> divide(const SymExpr &a, const SymExpr &b) {
  return b.isConstant(0) ? std::nullopt : a.divideExact(b);
}

/// Row by row, elements are major x tokens x minor in both shapes.
static FailureOr<Part> relateTokens(ReshapeOp op, PieceProver &p, const Part &operand) {
  SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
  SymExpr before = multiply(ArrayRef(from).take_front(operand.dim)) * operand.major;
  SymExpr behind = operand.minor * multiply(ArrayRef(from).drop_front(operand.dim + 1));
  for (auto [d, size] : llvm::enumerate(to)) {
    if (!p.dependsOnTokens(size))
      continue;
    auto major = divide(before, multiply(ArrayRef(to).take_front(d)));
    auto minor = divide(behind, multiply(ArrayRef(to).drop_front(d + 1)));
    if (!major || !minor || size != *major * p.countTokens(operand.kind) * *minor)
      break;
    Part part = operand;
    part.dim = d;
    part.major = *major;
    part.minor = *minor;
    part.joint = nullptr;
    return part;
  }
  return p.fail(op) << "takes tokens apart: in " << op.getType()
                    << " no dimension has each of them as a whole";
}

/// What is the same along a dimension is so along all that it is divided into.
static FailureOr<Part> relateSame(ReshapeOp op, PieceProver &p, const Part &operand) {
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
      ArrayRef<SymExpr> all(to), own = all.slice(begin, end - begin);
      if (multiply(all.take_front(begin)) == before && multiply(own) == *dim &&
          llvm::none_of(all.take_front(begin), inTokens) &&
          llvm::none_of(all.drop_front(end), inTokens) &&
          std::none_of(std::next(dim), from.end(), inTokens))
        return operand;
    }
  return p.fail(op) << "puts together what is the same for all tokens with what is not";
}

static FailureOr<Part> relate(ReshapeOp op, PieceProver &p, Parts operands) {
  const Part &operand = operands[0];
  if (operand.kind == Part::Held)
    return p.fail(op) << "takes what is in cache " << operand.cache
                      << " before the step otherwise than to put new tokens behind it";
  return operand.hasTokens() ? relateTokens(op, p, operand) : relateSame(op, p, operand);
}

/// W[i] is element start + i step of the operand; S[i] must be W[a + i], or, where the past is
/// taken as well, W[i].
static FailureOr<Part> relate(SliceOp op, PieceProver &p, Parts operands) {
  unsigned dim = op.getDim();
  const Part &operand = operands[0];
  SymExpr from = getSizes(op.getOperand())[dim], size = getSizes(op.getResult())[dim];
  const SymExpr &start = op.getStart();
  bool here = operand.kind != Part::Same && operand.dim == dim;
  if (!p.dependsOnTokens(size) && !p.dependsOnTokens(from) && !here)
    return p.relateByFormula(op, operands);
  if (operand.kind == Part::Same && p.dependsOnTokens(from))
    return operand; // one of them is like another
  auto refuse = [&] {
    return p.fail(op) << "takes " << size.str() << " of " << from.str() << " elements from "
                      << start.str()
                      << " on: which of them are of which token is another thing in each step";
  };
  if (here && from == size && start.isConstant(0) && op.getStep() == 1) {
    Part part = operand;
    part.joint = nullptr;
    return part;
  }
  std::optional<Part> part = p.makeTokens(size, dim);
  // Of a table, or of all tokens, some in a row.
  bool table = operand.kind == Part::Same && !p.dependsOnTokens(op.getOperand().getType());
  bool all = operand.kind == Part::Joined && here && from == p.countTokens(Part::Joined);
  if (!part || !(table || all) || (all && part->kind != Part::New))
    return refuse();
  SymExpr step = part->kind == Part::New ? op.getStep() * p.getFirst() : SymExpr(0);
  if (p.inFirst(start) != p.inWhole(start) || p.inSecond(start) != p.inWhole(start) + step)
    return refuse();
  part->takeShift(operand);
  return *part;
}

/// W = old + x, F = old + x[.. a], and S = F + x[a ..] = W: what is in the cache before the second
/// piece is F.
static FailureOr<Part> relate(ConcatOp op, PieceProver &p, Parts operands) {
  unsigned dim = op.getDim();
  if (!p.dependsOnTokens(getSizes(op.getResult())[dim]))
    return p.relateByFormula(op, operands);
  std::optional<int64_t> number = operands[0].number;
  if (number && llvm::all_of(operands, [&](const Part &part) {
        return part.number == number && !part.isMoved();
      }))
    return Part{.number = number};
  bool joins = operands.size() == 2 && operands[0].kind == Part::Held && operands[0].dim == dim &&
               !operands[1].isMoved() &&
               p.isTokens(op.getOperands()[1], operands[1], dim, Part::New);
  if (!joins)
    return p.fail(op) << "joins tokens with something else than what one cache holds with those of "
                         "the step behind: tokens would not be where they are in a longer step";
  p.noteJoint(operands[0].cache, op);
  return Part{.kind = Part::Joined, .dim = dim, .joint = op};
}

/// In place of what is joined: behind as many tokens as the cache holds. What it has room for
/// besides is not known.
static FailureOr<Part> relate(AppendOp op, PieceProver &p, Parts operands) {
  if (operands[0].kind != Part::Held)
    return p.relateByFormula(op, operands);
  if (!p.isLengths(op.getLengths()) || operands[1].isMoved() ||
      !p.isTokens(op.getFresh(), operands[1], CacheOp::tokenDim, Part::New))
    return p.fail(op) << "puts something else than the tokens of the step behind as many as the "
                         "cache holds";
  p.noteJoint(operands[0].cache, op);
  return Part{.kind = Part::Joined, .dim = CacheOp::tokenDim, .joint = op};
}

static FailureOr<Part> relate(RollOp op, PieceProver &p, Parts operands) {
  const Part &operand = operands[0];
  if (operand.kind == Part::Held || p.dependsOnTokens(getSizes(op.getOperand())[op.getDim()]) ||
      p.dependsOnTokens(op.getFrom()) || p.dependsOnTokens(op.getEvery()))
    return p.fail(op) << "shifts tokens: what it gives for one of them is another one's";
  Part part = operand;
  part.joint = nullptr;
  return part;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Each row sees a key, its own at least. Where a row that sees none is uniform, it would be so
/// over more keys in a longer step.
static LogicalResult checkRows(AttentionOp op, const SymExpr &offset, PieceProver &p) {
  if (op.getMaskedRow() == MaskedRow::Zero)
    return success();
  auto least = offset.lowerBound();
  auto window = op.getWindow() ? op.getWindow()->lowerBound() : std::optional<int64_t>(1);
  if (op.getKeyMask() || !least || *least < 0 || !window || *window < 1)
    return p.fail(op) << "may have rows that see no key: they are uniform over all keys, of which "
                         "there are more as new tokens come";
  return success();
}

/// Query i of the whole run stands at i + offset. In the first piece it stands there as well, and
/// the keys that are missing there are those of later tokens, which it does not see. In the second
/// piece query i is query a + i of the whole run, and all keys are there.
static FailureOr<Part> relate(AttentionOp op, PieceProver &p, Parts operands) {
  auto inRows = [&](Value value) { return p.dependsOnTokens(getSizes(value)[1]); };
  bool queries = inRows(op.getQ()), keys = inRows(op.getK()) || inRows(op.getV());
  if (!keys && (!queries || (!op.getCausal() && !op.getWindow() && !op.getSlopes())))
    return p.relateByFormula(op, operands); // of something that has nothing to do with tokens
  if (!op.getCausal())
    return p.fail(op) << "lets a token see later ones: what it gives for old tokens would change "
                         "as new ones come";
  if (op.getMask() || op.getBias())
    return p.fail(op) << "takes a " << (op.getMask() ? "mask" : "bias")
                      << " of queries and keys as a tensor (a prefix mask?): what a step sees of "
                         "the past is not known";
  for (auto [part, value] : llvm::zip(operands, op.getOperands())) {
    if (part.isMoved() && !p.isLengths(value))
      return p.fail(op) << "takes numbers that depend on how many tokens there are";
    if (part.kind == Part::Held)
      return p.fail(op) << "sees what is in cache " << part.cache
                        << " before the step, without the tokens of the step";
  }
  if (!p.isTokens(op.getQ(), operands[0], 1, Part::New))
    return p.fail(op) << "has queries that are not the tokens of the step";
  for (unsigned i : {1, 2})
    if (!p.isTokens(op.getOperand(i), operands[i], 1, Part::Joined))
      return p.fail(op) << "has " << getSizes(op.getOperand(i))[1].str() << " "
                        << (i == 1 ? "keys" : "values")
                        << ", which are not those of the past and then those of the step";
  unsigned next = 3;
  if (op.getKeyMask() && !p.isTokens(op.getKeyMask(), operands[next++], 1, Part::Joined))
    return p.fail(op) << "hides keys by a mask that is not one of each token of the past and of "
                         "the step";
  if (op.getSlopes() && p.dependsOnTokens(op.getSlopes().getType()))
    return p.fail(op) << "has slopes of tokens";

  SymExpr offset = op.getCausalOffset();
  if (op.getLengths() && !p.isLengths(op.getLengths()))
    return p.fail(op) << "takes lengths that are not how many tokens caches hold";
  if (op.getLengths())
    offset = offset + p.getPast();
  if (p.inFirst(offset) != p.inWhole(offset) ||
      p.inSecond(offset) != p.inWhole(offset) + p.getFirst())
    return p.fail(op) << "has queries that stand " << offset.str()
                      << " tokens behind the first key: of a later step they must stand as many "
                         "further behind as tokens have come in between";
  std::optional<int64_t> least = (p.getPast() - offset).lowerBound();
  if (!least || *least < 0)
    return p.fail(op) << "has queries that stand " << offset.str()
                      << " tokens behind the first key, and see tokens that have not come yet in a "
                         "shorter step";
  if (op.getWindow() && p.dependsOnTokens(*op.getWindow()))
    return p.fail(op) << "has a window of " << op.getWindow()->str()
                      << ", which changes as new tokens come";
  if (failed(checkRows(op, offset, p)))
    return failure();
  return Part{.kind = Part::New, .dim = 1};
}

namespace {
template <typename OpT> struct PieceModel : PieceOpInterface::ExternalModel<PieceModel<OpT>, OpT> {
  FailureOr<Part> relate(Operation *op, PieceProver &prover, ArrayRef<Part> operands) const {
    return ::relate(cast<OpT>(op), prover, operands);
  }
};
} // namespace

void mlir::tpc::registerGenerationVerification(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, TpcDialect *) {
    attachModels<PieceModel, ConstantOp, SizeOp, IotaOp, CumSumOp, AddOp, SubOp, NegOp, MulOp,
                 CastOp, ReshapeOp, SliceOp, ConcatOp, AppendOp, RollOp, AttentionOp>(context);
  });
}
