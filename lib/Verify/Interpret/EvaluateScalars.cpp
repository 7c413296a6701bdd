//===- EvaluateScalars.cpp - Evaluation of element-wise ops ---------------===//
//
// With doubles, ops are evaluated by their method in ScalarOpInterface. Over the field, linear ops
// and ops on integers and booleans are exact; all other ops are hashes, keyed by name and
// attributes.
//
//===----------------------------------------------------------------------===//

#include "Models.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

using E = ArrayRef<uint64_t>;
using InField = Scalar<uint64_t>;

static bool isInteger(Operation *op) {
  return op->getNumOperands() && isa<IntegerType>(getElementTypeOrSelf(op->getOperand(0)));
}

static uint64_t makeKey(Operation *op) {
  std::string text;
  llvm::raw_string_ostream(text) << op->getName() << op->getPropertiesAsAttribute();
  return hashText(text);
}

static InField hashAll(Operation *op) {
  return [key = makeKey(op)](E x) {
    uint64_t result = key % prime;
    for (uint64_t each : x)
      result = hash(key, Field::add(each, result));
    return result;
  };
}

//===----------------------------------------------------------------------===//
// Over the field
//===----------------------------------------------------------------------===//

static InField inField(ScalarOpInterface op) { return hashAll(op); }

static InField inField(NegOp) {
  return [](E x) { return Field::negate(x[0]); };
}

static InField inField(AbsOp op) {
  if (!isInteger(op))
    return hashAll(op);
  return [](E x) { return Field::fromInteger(std::abs(Field::toInteger(x[0]))); };
}

static InField inField(ReluOp) {
  return [](E x) { return Field::toInteger(x[0]) < 0 ? 0 : x[0]; };
}

static InField inField(NotOp) {
  return [](E x) -> uint64_t { return x[0] == 0; };
}

static InField inField(IsNanOp op) {
  return [all = hashAll(op)](E x) { return all(x) & 1; };
}

static InField inField(CastOp op) {
  if (getElementTypeOrSelf(op.getType()).isInteger(1))
    return [](E x) -> uint64_t { return x[0] != 0; };
  return [](E x) { return x[0]; };
}

static InField inField(AddOp) {
  return [](E x) { return Field::add(x[0], x[1]); };
}

static InField inField(SubOp) {
  return [](E x) { return Field::add(x[0], Field::negate(x[1])); };
}

static InField inField(MulOp) {
  return [](E x) { return Field::multiply(x[0], x[1]); };
}

static InField inField(DivOp op) {
  if (!isInteger(op))
    return [key = makeKey(op)](E x) { return Field::multiply(x[0], hash(key, x[1])); };
  return [](E x) {
    int64_t a = Field::toInteger(x[0]), b = Field::toInteger(x[1]);
    return b == 0 ? 0 : Field::fromInteger(a / b);
  };
}

static InField inField(ModOp op) {
  if (!isInteger(op))
    return hashAll(op);
  return [](E x) -> uint64_t {
    int64_t a = Field::toInteger(x[0]), b = Field::toInteger(x[1]);
    if (b == 0)
      return 0;
    int64_t r = a % b;
    return Field::fromInteger(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  };
}

static InField inField(MaxOp) {
  return [](E x) { return Field::less(x[0], x[1]) ? x[1] : x[0]; };
}

static InField inField(MinOp) {
  return [](E x) { return Field::less(x[1], x[0]) ? x[1] : x[0]; };
}

/// Booleans are 0 and 1.
template <typename F> static InField inFieldOfBits(F combine) {
  return [combine](E x) {
    return Field::fromInteger(combine(Field::toInteger(x[0]), Field::toInteger(x[1])));
  };
}

static InField inField(AndOp) { return inFieldOfBits(std::bit_and<int64_t>()); }

static InField inField(OrOp) { return inFieldOfBits(std::bit_or<int64_t>()); }

static InField inField(XorOp) { return inFieldOfBits(std::bit_xor<int64_t>()); }

static bool compare(Predicate predicate, int64_t a, int64_t b) {
  switch (predicate) {
  case Predicate::EQ:
    return a == b;
  case Predicate::NE:
    return a != b;
  case Predicate::LT:
    return a < b;
  case Predicate::LE:
    return a <= b;
  case Predicate::GT:
    return a > b;
  case Predicate::GE:
    return a >= b;
  }
  return false;
}

static InField inField(CmpOp op) {
  return [predicate = op.getPredicate()](E x) -> uint64_t {
    return compare(predicate, Field::toInteger(x[0]), Field::toInteger(x[1]));
  };
}

static InField inField(SelectOp) {
  return [](E x) { return x[0] != 0 ? x[1] : x[2]; };
}

//===----------------------------------------------------------------------===//
// Facts that elements exercise
//===----------------------------------------------------------------------===//

// All facts of an op, and the facts that elements `x` of its operands exercise.
static Facts getFacts(ScalarOpInterface) { return {}; }
template <typename E> static Facts getSeen(ScalarOpInterface, ArrayRef<E>, E) { return {}; }
/// Returns the magnitude of a capped or clipped number, relative to the cap.
template <typename A, typename E> static double measure(ScalarOpInterface, A, ArrayRef<E>) {
  return 0;
}

static Facts getFacts(CmpOp) { return {Fact::True, Fact::False}; }
template <typename E> static Facts getSeen(CmpOp, ArrayRef<E>, E result) {
  return {result != 0 ? Fact::True : Fact::False};
}

static Facts getFacts(SelectOp) { return {Fact::FirstOperand, Fact::SecondOperand}; }
template <typename E> static Facts getSeen(SelectOp, ArrayRef<E> x, E) {
  return {x[0] != 0 ? Fact::FirstOperand : Fact::SecondOperand};
}

// If the operands are equal, it is unknown which operand was selected.
template <typename E> static Facts getChosen(ArrayRef<E> x, E result) {
  if (x[0] == x[1])
    return {};
  return {result == x[0] ? Fact::FirstOperand : Fact::SecondOperand};
}
/// Returns the magnitude of a number relative to the constant that clips it.
template <typename A, typename E> static double measureClipped(Operation *op, A, ArrayRef<E> x) {
  for (unsigned i : {0, 1})
    if (op->getOperand(i).getDefiningOp<ConstantOp>() && x[i] != 0)
      return A::measure(x[1 - i]) / A::measure(x[i]);
  return 0;
}

static Facts getFacts(MaxOp) { return {Fact::FirstOperand, Fact::SecondOperand}; }
template <typename E> static Facts getSeen(MaxOp, ArrayRef<E> x, E result) {
  return getChosen(x, result);
}
template <typename A, typename E> static double measure(MaxOp op, A a, ArrayRef<E> x) {
  return measureClipped(op, a, x);
}
static Facts getFacts(MinOp) { return {Fact::FirstOperand, Fact::SecondOperand}; }
template <typename E> static Facts getSeen(MinOp, ArrayRef<E> x, E result) {
  return getChosen(x, result);
}
template <typename A, typename E> static double measure(MinOp op, A a, ArrayRef<E> x) {
  return measureClipped(op, a, x);
}

static Facts getFacts(TanhOp) { return {Fact::Capped}; }
template <typename A, typename E> static double measure(TanhOp, A, ArrayRef<E> x) {
  return A::measure(x[0]);
}

/// Runs `evaluateElements` and records the exercised facts.
template <typename OpT, typename A, typename F>
static Result<A> evaluateNoting(OpT op, Evaluation<A> &e, F scalar) {
  Facts all = getFacts(op), seen;
  Magnitudes magnitudes;
  if (all.isEmpty() || !e.world.coverage)
    return e.evaluateElements(scalar);
  using E = typename A::Element;
  Result<A> result = e.evaluateElements([&](ArrayRef<E> x) {
    E y = scalar(x);
    seen = seen | getSeen(op, x, y);
    magnitudes.ofCap = std::max(magnitudes.ofCap, measure(op, A(), x));
    return y;
  });
  seen.add(Fact::Capped, magnitudes.ofCap > 0.5); // where tanh is not linear
  e.note(all, seen, magnitudes);
  return result;
}

namespace {
template <typename OpT>
struct ScalarEvaluation : EvaluatedOpInterface::ExternalModel<ScalarEvaluation<OpT>, OpT> {
  Result<Doubles> evaluateDoubles(Operation *op, Evaluation<Doubles> &e) const {
    auto scalar = cast<ScalarOpInterface>(op);
    return evaluateNoting(cast<OpT>(op), e,
                          [&](ArrayRef<double> x) { return scalar.evaluateScalar(x); });
  }
  Result<Field> evaluateField(Operation *op, Evaluation<Field> &e) const {
    return evaluateNoting(cast<OpT>(op), e, inField(cast<OpT>(op)));
  }
  double countWork(Operation *, llvm::function_ref<double(DimAttr)>) const { return 4; }
};
} // namespace

void interpret::attachScalarEvaluations(MLIRContext *context) {
  attachToScalarOps<ScalarEvaluation>(context);
}
