//===- Field.cpp - Programs run over a prime field ------------------------===//

#include "Arithmetic.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/fnv1a.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

uint64_t interpret::hashText(StringRef text) {
  uint64_t h = ::tpc::fnv1a(text);
  return h ^ h >> 31;
}

static uint64_t hashNumber(uint64_t key, double x) {
  return hash(key, llvm::bit_cast<uint64_t>(x) % prime);
}

uint64_t Field::fromNumber(double x) {
  static const uint64_t key = hashText("number");
  return x == 0 ? 0 : hashNumber(key, x);
}

uint64_t Field::inverse(int64_t n) {
  static const uint64_t key = hashText("inverse");
  return hash(key, fromInteger(n));
}

/// Weights are hashes of the scores, times a hash of their sum.
void Field::softmax(MutableArrayRef<uint64_t> row, ArrayRef<char> visible, bool uniform) {
  static const uint64_t key = hashText("softmax");
  bool none = !llvm::is_contained(visible, char(true));
  uint64_t total = 0;
  for (auto [x, sees] : llvm::zip(row, visible))
    total = add(total, x = none ? uniform : sees ? hash(key, x) : 0);
  uint64_t factor = hash(key + 1, total);
  for (uint64_t &x : row)
    x = multiply(x, factor);
}

uint64_t Field::cap(uint64_t score, double limit) {
  static const uint64_t key = hashText("cap");
  return limit == 0 ? score : hash(hashNumber(key, limit), score);
}

/// (x - f(sum of x)) g(sum of x, sum of x^2).
void Field::normalize(MutableArrayRef<uint64_t> row, double epsilon, bool center) {
  static const uint64_t text = hashText("norm");
  uint64_t key = hashNumber(text + center, epsilon);
  Sum sum, squares;
  for (uint64_t x : row) {
    sum.add(x, 1);
    squares.add(x, x);
  }
  uint64_t mean = center ? hash(key + 1, sum.get()) : 0;
  uint64_t factor = hash(key + 2, add(squares.get(), hash(key + 3, mean)));
  for (uint64_t &x : row)
    x = multiply(add(x, negate(mean)), factor);
}

//===----------------------------------------------------------------------===//
// Element-wise ops
//===----------------------------------------------------------------------===//

static bool isInteger(Value value) {
  return isa<IntegerType>(cast<RankedTensorType>(value.getType()).getElementType());
}

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

static uint64_t divide(uint64_t x, uint64_t y) {
  int64_t a = Field::toInteger(x), b = Field::toInteger(y);
  return b == 0 ? 0 : Field::fromInteger(a / b);
}

static uint64_t modulo(uint64_t x, uint64_t y) {
  int64_t a = Field::toInteger(x), b = Field::toInteger(y);
  if (b == 0)
    return 0;
  int64_t r = a % b;
  return Field::fromInteger(r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

/// What is neither linear nor about integers is a hash, with the op's name and attributes as the
/// key.
Scalar<uint64_t> Field::getScalar(Operation *op) {
  using E = ArrayRef<uint64_t>;
  using Result = Scalar<uint64_t>;
  if (!isa<ScalarOpInterface>(op))
    return {};
  bool integer = op->getNumOperands() && isInteger(op->getOperand(0));
  std::string text;
  llvm::raw_string_ostream(text) << op->getName() << op->getPropertiesAsAttribute();
  uint64_t key = hashText(text);
  auto hashAll = [key](E x) {
    uint64_t result = key % prime;
    for (uint64_t each : x)
      result = hash(key, add(each, result));
    return result;
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([](NegOp) { return [](E x) { return negate(x[0]); }; })
      .Case([=](AbsOp) {
        return [=](E x) { return integer ? fromInteger(std::abs(toInteger(x[0]))) : hashAll(x); };
      })
      .Case([](ReluOp) { return [](E x) { return toInteger(x[0]) < 0 ? 0 : x[0]; }; })
      .Case([](NotOp) { return [](E x) -> uint64_t { return x[0] == 0; }; })
      .Case([=](IsNanOp) { return [=](E x) { return hashAll(x) & 1; }; })
      .Case([](CastOp c) -> Result {
        if (cast<RankedTensorType>(c.getType()).getElementType().isInteger(1))
          return [](E x) -> uint64_t { return x[0] != 0; };
        return [](E x) { return x[0]; };
      })
      .Case([](AddOp) { return [](E x) { return add(x[0], x[1]); }; })
      .Case([](SubOp) { return [](E x) { return add(x[0], negate(x[1])); }; })
      .Case([](MulOp) { return [](E x) { return multiply(x[0], x[1]); }; })
      .Case([=](DivOp) {
        return [=](E x) { return integer ? divide(x[0], x[1]) : multiply(x[0], hash(key, x[1])); };
      })
      .Case([](MaxOp) { return [](E x) { return less(x[0], x[1]) ? x[1] : x[0]; }; })
      .Case([](MinOp) { return [](E x) { return less(x[1], x[0]) ? x[1] : x[0]; }; })
      .Case([=](ModOp) { return [=](E x) { return integer ? modulo(x[0], x[1]) : hashAll(x); }; })
      .Case([](AndOp) { return [](E x) -> uint64_t { return x[0] != 0 && x[1] != 0; }; })
      .Case([](OrOp) { return [](E x) -> uint64_t { return x[0] != 0 || x[1] != 0; }; })
      .Case([](XorOp) { return [](E x) -> uint64_t { return (x[0] != 0) != (x[1] != 0); }; })
      .Case([](CmpOp c) {
        return [predicate = c.getPredicate()](E x) -> uint64_t {
          return compare(predicate, toInteger(x[0]), toInteger(x[1]));
        };
      })
      .Case([](SelectOp) { return [](E x) { return x[0] != 0 ? x[1] : x[2]; }; })
      .Default([=](Operation *) { return hashAll; });
}
