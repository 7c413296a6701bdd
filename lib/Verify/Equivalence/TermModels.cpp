//===- TermModels.cpp - Rules that convert each op to a term --------------===//

#include "Models.h"
#include "TermReader.h"
#include "tpc/Dialect/Async.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

Type equivalence::getWholeType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return makeTensorType(tensor.getElementType(), getDist(type).getGlobal());
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

InFlightDiagnostic TermReader::fail(Operation *op) const {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
}

TermId TermReader::complete(const RepeatedTerm &repeated, Value value, Operation *op) {
  return repeated.repeats.empty() ? repeated.term
                                  : terms.makeRepetition(repeated.term, repeated.repeats,
                                                         getWholeType(value.getType()), op);
}

RepeatedTerm TermReader::splitRepetition(TermId term) const {
  auto repetition = terms.getRepetition(term);
  return repetition ? RepeatedTerm{repetition->first, repetition->second} : RepeatedTerm{term};
}

FailureOr<RepeatedTerm> TermReader::readComputed(Operation *op, ArrayRef<RepeatedTerm> operands) {
  Type type = getWholeType(op->getResult(0).getType());
  auto make = [&](ArrayRef<TermId> list, Type type) {
    terms.noteUse(list, op);
    return cast<TermOpInterface>(op).makeTerm(terms, list, type);
  };
  SmallVector<TermId> list;
  if (llvm::any_of(operands,
                   [](const RepeatedTerm &operand) { return !operand.repeats.empty(); })) {
    auto passing = dyn_cast<RepeatOpInterface>(op);
    if (!passing)
      return fail(op) << "cannot be proved: the verifier has no rule for how the op treats "
                         "dimensions that repeat";
    SmallVector<Repeats> repeats;
    for (const RepeatedTerm &operand : operands) {
      list.push_back(operand.term);
      repeats.push_back(operand.repeats);
    }
    if (std::optional<Repeats> result = passing.passRepeats(repeats))
      return RepeatedTerm{make(list, removeRepeats(type, *result)), *result};
    list.clear();
  }
  for (auto [operand, value] : llvm::zip(operands, op->getOperands()))
    list.push_back(complete(operand, value, op));
  return splitRepetition(make(list, type));
}

FailureOr<RepeatedTerm> TermReader::readMoved(Operation *op, ArrayRef<RepeatedTerm> operands) {
  if (getWholeType(op->getResult(0).getType()) != getWholeType(op->getOperand(0).getType()))
    return fail(op) << "changes " << op->getOperand(0).getType() << " to "
                    << op->getResult(0).getType();
  // Stages have different values, so a collective across stages has no term.
  if (auto collective = dyn_cast<CollectiveOpInterface>(op); staged && collective) {
    auto axes = collective.getAxesAttr().getAsValueRange<StringAttr>();
    MeshAttr grid = MeshAttr::lookup(op);
    if (llvm::is_contained(axes, kPipelineAxis) && grid && grid.getAxisSize(kPipelineAxis) > 1)
      return fail(op) << "cannot be proved: its group reaches over stages; move values between "
                         "stages with tpc.send and tpc.recv";
  }
  return operands[0];
}

//===----------------------------------------------------------------------===//
// Ops that compute
//===----------------------------------------------------------------------===//

namespace {
template <typename Model, typename OpT>
struct ComputedTerm : TermOpInterface::ExternalModel<Model, OpT> {
  FailureOr<RepeatedTerm> read(Operation *op, TermReader &reader,
                               ArrayRef<RepeatedTerm> operands) const {
    return reader.readComputed(op, operands);
  }
  TermId makeTerm(Operation *op, Terms &terms, ArrayRef<TermId> operands, Type type) const {
    return terms.makeOp(op, operands, type);
  }
};

/// Model of ops without identities: the term has the op's name, attributes and operands.
template <typename OpT> struct TermModel : ComputedTerm<TermModel<OpT>, OpT> {};

/// Represents sums as multisets, and x - y as x + -y.
template <> struct TermModel<AddOp> : ComputedTerm<TermModel<AddOp>, AddOp> {
  TermId makeTerm(Operation *op, Terms &terms, ArrayRef<TermId> operands, Type type) const {
    return terms.makeSum(type, operands, op);
  }
};

template <> struct TermModel<SubOp> : ComputedTerm<TermModel<SubOp>, SubOp> {
  TermId makeTerm(Operation *op, Terms &terms, ArrayRef<TermId> operands, Type type) const {
    // Negation preserves the shape.
    TermId negated = terms.makeNamed<NegOp>(op, operands[1], terms[operands[1]].type);
    return terms.makeSum(type, {operands[0], negated}, op);
  }
};

template <> struct TermModel<NegOp> : ComputedTerm<TermModel<NegOp>, NegOp> {
  static TermId normalize(const Terms &terms, Term &term) {
    const Term &operand = terms[term.operands[0]];
    return operand.isOp(term.name) ? operand.operands[0] : -1;
  }
};

/// A sum over n elements times 1/n is their mean. In a dimension with a repetition, it is the mean
/// over the distinct elements, because each occurs equally often. The factor must be bit-exact.
template <> struct TermModel<MulOp> : ComputedTerm<TermModel<MulOp>, MulOp> {
  static constexpr StringLiteral mean = "mean";

  static DictionaryAttr getSum(const Term &term) {
    auto properties = dyn_cast_or_null<DictionaryAttr>(term.attributes);
    if (!term.isOp(ReduceOp::getOperationName()) || !properties)
      return {};
    auto function = properties.getAs<ReduceFunctionAttr>("function");
    return function && function.getValue() == ReduceFunction::Sum ? properties : DictionaryAttr();
  }

  /// Returns whether a term is the constant 1/n, rounded to its type.
  static bool isInverse(const Term &term, int64_t n) {
    auto properties = dyn_cast_or_null<DictionaryAttr>(term.attributes);
    if (!term.isOp(ConstantOp::getOperationName()) || !properties)
      return false;
    auto splat = properties.getAs<SplatElementsAttr>("value");
    auto type = splat ? dyn_cast<FloatType>(splat.getElementType()) : FloatType();
    return type && splat.getSplatValue<Attribute>() == FloatAttr::get(type, 1.0 / double(n));
  }

  static TermId normalize(const Terms &terms, Term &term) {
    auto takeRepetitionOut = [&](ArrayRef<int64_t> dims) {
      auto repetition = terms.getRepetition(term.operands[0]);
      if (repetition && llvm::all_of(repetition->second, [&](const auto &repeat) {
            return llvm::is_contained(dims, int64_t(repeat.first));
          }))
        term.operands[0] = repetition->first;
    };
    if (term.isOp(mean)) {
      takeRepetitionOut(
          cast<DictionaryAttr>(term.attributes).getAs<DenseI64ArrayAttr>("dims").asArrayRef());
      return -1;
    }
    for (int side : {0, 1}) {
      const Term &sum = terms[term.operands[side]];
      DictionaryAttr properties = getSum(sum);
      if (!properties || sum.type != term.type)
        continue;
      auto dims = properties.getAs<DenseI64ArrayAttr>("dims");
      ::tpc::SymExpr count(1);
      for (int64_t dim : dims.asArrayRef())
        count = count * getSizes(terms[sum.operands[0]].type)[dim];
      std::optional<int64_t> n = count.asConstant();
      if (!n || *n < 1 || !isInverse(terms[term.operands[1 - side]], *n))
        continue;
      term.name = mean;
      term.attributes = properties;
      term.isCommutative = false;
      term.operands = {sum.operands[0]};
      takeRepetitionOut(dims.asArrayRef());
      return -1;
    }
    return -1;
  }
};

/// Represents the bias as an addition after the matmul.
template <> struct TermModel<MatmulOp> : ComputedTerm<TermModel<MatmulOp>, MatmulOp> {
  TermId makeTerm(Operation *op, Terms &terms, ArrayRef<TermId> operands, Type type) const {
    TermId product = terms.makeNamed<MatmulOp>(op, operands.take_front(2), type);
    return operands.size() > 2 ? terms.makeSum(type, {product, operands[2]}, op) : product;
  }
};

/// A reshape of a reshape is one reshape; a reshape to the operand's type is the operand.
template <> struct TermModel<ReshapeOp> : ComputedTerm<TermModel<ReshapeOp>, ReshapeOp> {
  static TermId normalize(const Terms &terms, Term &term) {
    if (const Term &operand = terms[term.operands[0]]; operand.isOp(term.name))
      term.operands[0] = TermId(operand.operands[0]);
    return terms[term.operands[0]].type == term.type ? term.operands[0] : -1;
  }
};

/// A slice that extracts one operand of a concatenation is that operand.
template <> struct TermModel<SliceOp> : ComputedTerm<TermModel<SliceOp>, SliceOp> {
  static TermId normalize(const Terms &terms, Term &term) {
    const Term &concat = terms[term.operands[0]];
    if (!concat.isOp(ConcatOp::getOperationName()))
      return -1;
    auto properties = dyn_cast_or_null<DictionaryAttr>(term.attributes);
    auto joint = dyn_cast_or_null<DictionaryAttr>(concat.attributes);
    if (!properties || !joint || properties.get("dim") != joint.get("dim"))
      return -1;
    auto step = properties.getAs<IntegerAttr>("step");
    auto start = properties.getAs<SymExprAttr>("start");
    auto dim = joint.getAs<IntegerAttr>("dim");
    if (!start || !dim || (step && step.getInt() != 1))
      return -1;
    ::tpc::SymExpr offset(0);
    for (TermId operand : concat.operands) {
      Type type = terms[operand].type;
      if (start.getExpr() == offset && type == term.type)
        return operand;
      offset = offset + getSizes(type)[dim.getInt()];
    }
    return -1;
  }
};

/// A lookup of 0, 0, 1, 1, … repeats a dimension.
template <> struct TermModel<GatherOp> : ComputedTerm<TermModel<GatherOp>, GatherOp> {
  FailureOr<RepeatedTerm> read(Operation *op, TermReader &reader,
                               ArrayRef<RepeatedTerm> operands) const {
    if (operands[0].repeats.empty())
      if (Repeats repeats = getRepeats(cast<GatherOp>(op)); !repeats.empty())
        return RepeatedTerm{operands[0].term, repeats};
    return reader.readComputed(op, operands);
  }
};

/// A parameter's term has its weight and its view; repetitions by the view are separate.
struct ParameterTerm : ComputedTerm<ParameterTerm, ParameterOp> {
  FailureOr<RepeatedTerm> read(Operation *op, TermReader &reader, ArrayRef<RepeatedTerm>) const {
    auto parameter = cast<ParameterOp>(op);
    Type type = getWholeType(parameter.getType());
    if (!parameter.getWeightOp())
      return RepeatedTerm{reader.getTerms().makeParameter(parameter, {}, type)};
    ViewAttr view = parameter.getViewOrDense();
    Repeats repeats = takeRepeats(view);
    return RepeatedTerm{
        reader.getTerms().makeParameter(parameter, view, removeRepeats(type, repeats)), repeats};
  }
};

//===----------------------------------------------------------------------===//
// Ops that move slices between ranks
//===----------------------------------------------------------------------===//

template <typename OpT> struct MovedTerm : TermOpInterface::ExternalModel<MovedTerm<OpT>, OpT> {
  FailureOr<RepeatedTerm> read(Operation *op, TermReader &reader,
                               ArrayRef<RepeatedTerm> operands) const {
    return reader.readMoved(op, operands);
  }
  TermId makeTerm(Operation *, Terms &, ArrayRef<TermId> operands, Type) const {
    return operands[0];
  }
};

/// A permute with a shift has the term of tpc.roll.
template <>
struct MovedTerm<CollectivePermuteOp>
    : TermOpInterface::ExternalModel<MovedTerm<CollectivePermuteOp>, CollectivePermuteOp> {
  FailureOr<RepeatedTerm> read(Operation *op, TermReader &reader,
                               ArrayRef<RepeatedTerm> operands) const {
    auto permute = cast<CollectivePermuteOp>(op);
    FailureOr<RepeatedTerm> moved = reader.readMoved(op, operands);
    if (failed(moved) || !permute.getFrom())
      return moved;
    Terms &terms = reader.getTerms();
    TermId operand = reader.complete(operands[0], permute.getOperand(), op);
    terms.noteUse(operand, op);
    return RepeatedTerm{makeTerm(op, terms, operand, getWholeType(permute.getType()))};
  }
  TermId makeTerm(Operation *op, Terms &terms, ArrayRef<TermId> operands, Type type) const {
    auto permute = cast<CollectivePermuteOp>(op);
    Builder builder(op->getContext());
    Attribute attributes =
        builder.getDictionaryAttr({builder.getNamedAttr("dim", permute.getDimAttr()),
                                   builder.getNamedAttr("from", permute.getFromAttr()),
                                   builder.getNamedAttr("every", permute.getEveryAttr())});
    return terms.makeNamed<RollOp>(op, operands, type, attributes);
  }
};
} // namespace

void equivalence::attachTermModels(MLIRContext *context) {
  attachToScalarOps<TermModel>(context);
  attachModels<TermModel, MatmulOp, DequantizeOp, MoeOp, AttentionOp, AttentionGradOp, LayerNormOp,
               RmsNormOp, SoftmaxOp, ReduceOp, CumSumOp, TriluOp, ReshapeOp, TransposeOp, ExpandOp,
               SliceOp, ConcatOp, RollOp, EmbeddingOp, ScatterAddOp, GatherOp, GatherNDOp, RotaryOp,
               AppendOp, IotaOp, ConstantOp, SizeOp>(context);
  ParameterOp::attachInterface<ParameterTerm>(*context);
  attachModels<MovedTerm, ReshardOp, LocalSliceOp, AllReduceOp, AllGatherOp, ReduceScatterOp,
               AllToAllOp, CollectivePermuteOp, ExchangeOp, BroadcastOp, AllReduceStartOp, WaitOp,
               DispatchOp, CombineOp>(context);
}
