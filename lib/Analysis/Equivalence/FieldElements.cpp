//===- FieldElements.cpp - Element-wise ops over a prime field ------------===//

#include "Field.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

uint64_t equivalence::hashText(StringRef text) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (char c : text)
    h = (h ^ uint8_t(c)) * 0x100000001B3ull;
  return h ^ h >> 31;
}

static bool isInteger(Value value) {
  return isa<IntegerType>(cast<RankedTensorType>(value.getType()).getElementType());
}

static bool compare(Predicate predicate, Element x, Element y) {
  int64_t a = toInteger(x), b = toInteger(y);
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

static Element divide(Element x, Element y) {
  int64_t a = toInteger(x), b = toInteger(y);
  return b == 0 ? 0 : fromInteger(a / b);
}

static Element modulo(Element x, Element y) {
  int64_t a = toInteger(x), b = toInteger(y);
  if (b == 0)
    return 0;
  int64_t r = a % b;
  return fromInteger(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

using Scalar = std::function<Element(const Element *)>;
using E = const Element *;

/// What an op computes for one element; null if it is not element-wise. Functions of one number
/// that are not linear are hashes with the op's name and attributes as the key.
static Scalar getScalar(Operation *op) {
  bool integer = op->getNumOperands() && isInteger(op->getOperand(0));
  std::string text = op->getName().getStringRef().str();
  if (auto gelu = dyn_cast<GeluOp>(op))
    text += stringifyGeluApproximation(gelu.getApproximate());
  uint64_t key = hashText(text);
  auto larger = [](E x) { return toInteger(x[0]) < toInteger(x[1]) ? x[1] : x[0]; };
  auto smaller = [](E x) { return toInteger(x[1]) < toInteger(x[0]) ? x[1] : x[0]; };
  return llvm::TypeSwitch<Operation *, Scalar>(op)
      .Case([](NegOp) { return [](E x) { return negate(x[0]); }; })
      .Case([=](AbsOp) {
        return
            [=](E x) { return integer ? fromInteger(std::abs(toInteger(x[0]))) : hash(key, x[0]); };
      })
      .Case<ExpOp, LogOp, SqrtOp, RsqrtOp, ReciprocalOp, TanhOp, ErfOp, SigmoidOp, SinOp, CosOp,
            FloorOp, CeilOp, SiluOp, GeluOp>(
          [=](Operation *) { return [=](E x) { return hash(key, x[0]); }; })
      .Case([](ReluOp) { return [](E x) { return toInteger(x[0]) < 0 ? 0 : x[0]; }; })
      .Case([](NotOp) { return [](E x) -> Element { return x[0] == 0; }; })
      .Case([=](IsNanOp) { return [=](E x) -> Element { return hash(key, x[0]) & 1; }; })
      .Case([](CastOp c) -> Scalar {
        Type to = cast<RankedTensorType>(c.getType()).getElementType();
        if (to.isInteger(1))
          return [](E x) -> Element { return x[0] != 0; };
        return [](E x) { return x[0]; };
      })
      .Case([](AddOp) { return [](E x) { return addMod(x[0], x[1]); }; })
      .Case([](SubOp) { return [](E x) { return addMod(x[0], negate(x[1])); }; })
      .Case([](MulOp) { return [](E x) { return multiply(x[0], x[1]); }; })
      .Case([=](DivOp) {
        return [=](E x) { return integer ? divide(x[0], x[1]) : multiply(x[0], hash(key, x[1])); };
      })
      .Case([=](PowOp) { return [=](E x) { return hash(key, addMod(x[0], hash(key, x[1]))); }; })
      .Case([=](MaxOp) { return larger; })
      .Case([=](MinOp) { return smaller; })
      .Case([=](ModOp) {
        return [=](E x) {
          return integer ? modulo(x[0], x[1]) : hash(key, addMod(x[0], hash(key, x[1])));
        };
      })
      .Case([](AndOp) { return [](E x) -> Element { return x[0] != 0 && x[1] != 0; }; })
      .Case([](OrOp) { return [](E x) -> Element { return x[0] != 0 || x[1] != 0; }; })
      .Case([](XorOp) { return [](E x) -> Element { return (x[0] != 0) != (x[1] != 0); }; })
      .Case([](CmpOp c) {
        return [predicate = c.getPredicate()](E x) -> Element {
          return compare(predicate, x[0], x[1]);
        };
      })
      .Case([](SelectOp) { return [](E x) { return x[0] != 0 ? x[1] : x[2]; }; })
      .Default([](Operation *) { return Scalar(); });
}

std::optional<FailureOr<Tensor>> equivalence::evaluateElements(Operation *op,
                                                               ArrayRef<const Tensor *> operands,
                                                               ArrayRef<int64_t> shape) {
  Scalar scalar = getScalar(op);
  if (!scalar)
    return std::nullopt;
  for (const Tensor *operand : operands) {
    bool fits = operand->shape.size() <= shape.size();
    if (fits)
      for (auto [own, size] : llvm::zip(operand->shape, shape.take_back(operand->shape.size())))
        fits &= own == 1 || own == size;
    if (!fits)
      return FailureOr<Tensor>(op->emitError()
                               << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                               << "): run at small sizes, parts on a rank do not fit");
  }
  Tensor result(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    Element x[3] = {};
    for (auto [i, operand] : llvm::enumerate(operands)) {
      ArrayRef<int64_t> own = index.take_back(operand->shape.size());
      int64_t at = 0;
      for (auto [position, size] : llvm::zip(own, operand->shape))
        at = at * size + (size == 1 ? 0 : position);
      x[i] = operand->data[at];
    }
    result.data[next++] = scalar(x);
  });
  return FailureOr<Tensor>(std::move(result));
}
