//===- RunMatmuls.cpp - Interpretation of matmuls on buffers --------------===//

#include "RunBuffers.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

namespace {
struct ProductRun : RunModel<ProductRun, buffer::ProductOp> {
  using MatmulCall = buffer::ProductOp::Matmul;

  LogicalResult runOnBuffers(Operation *base, BufferMachine &machine, Frame &frame) const {
    auto op = cast<buffer::ProductOp>(base);
    SmallVector<MatmulCall> calls = op.getMatmuls();
    for (int rank : frame.active) {
      // Matmuls may run in any order, or at the same time.
      for (auto [i, call] : llvm::enumerate(calls)) {
        SmallVector<Value> others{op.getX()};
        for (auto [j, other] : llvm::enumerate(calls)) {
          if (other.bias)
            others.push_back(other.bias);
          if (i != j)
            others.push_back(other.to);
          if (i != j && other.residual)
            others.push_back(other.residual);
        }
        if (failed(expectApart(op, machine, frame, rank, call.to, others)))
          return failure();
      }
      for (const MatmulCall &call : calls)
        if (failed(runMatmul(op, call, machine, frame, rank)))
          return failure();
    }
    return success();
  }

  static LogicalResult runMatmul(buffer::ProductOp op, const MatmulCall &call,
                                 BufferMachine &machine, Frame &frame, int rank) {
    int64_t m = machine.evaluate(op.getM(), rank), k = machine.evaluate(op.getK(), rank);
    auto x = machine.read(op, frame, op.getX(), rank, m * k);
    if (failed(x))
      return failure();
    FailureOr<Numbers> out = multiply(op, call, machine, frame, rank, *x);
    return failure(failed(out) || failed(machine.write(op, frame, call.to, rank, *out)));
  }

  /// Returns the result of a matmul with this left operand.
  static FailureOr<Numbers> multiply(buffer::ProductOp op, const MatmulCall &call,
                                     BufferMachine &machine, Frame &frame, int rank,
                                     const Numbers &x) {
    int64_t m = machine.evaluate(op.getM(), rank), k = machine.evaluate(op.getK(), rank);
    int64_t n = machine.evaluate(call.n, rank);
    buffer::EntryOp entry = machine.get(frame, call.parameter, rank).entry;
    if (!entry || entry.getLoad().getUse() != buffer::ParameterUse::Packed)
      return machine.fail(op, rank) << "takes a parameter that is not packed";
    // The weight is loaded in the type of x.
    FailureOr<MemoryView> weight =
        machine.getParameter(op, entry, rank, machine.get(frame, op.getX(), rank).view.type);
    if (failed(weight))
      return failure();
    if (weight->elements != k * n)
      return machine.fail(op, rank) << "takes a parameter of " << weight->elements
                                    << " elements as [" << k << ", " << n << "]";
    FailureOr<Numbers> bias = Numbers(), residual = Numbers();
    if (call.bias && failed(bias = machine.read(op, frame, call.bias, rank, n)))
      return failure();
    if (call.residual && failed(residual = machine.read(op, frame, call.residual, rank, m * n)))
      return failure();
    Numbers out(m * n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += x[i * k + l].f * weight->load(l * n + j).f;
        if (call.bias)
          sum += (*bias)[j].f;
        sum = activate(call.epilogue, sum);
        if (call.residual)
          sum += (*residual)[i * n + j].f;
        out[i * n + j] = number(sum);
      }
    return out;
  }
};

/// Runs the body, computes the result of a fused kernel, and compares both.
struct FusedRun : RunModel<FusedRun, buffer::FusedOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &machine, Frame &frame) const {
    auto op = cast<buffer::FusedOp>(base);
    buffer::ProductOp product = op.getProduct();
    SmallVector<buffer::ProductOp::Matmul> parts = product.getMatmuls();
    std::vector<std::vector<Numbers>> wanted; // by rank, then by result
    for (int rank : frame.active) {
      for (const auto &part : parts) {
        SmallVector<Value> operands{op.getSource() ? op.getSource() : product.getX()};
        for (Value operand : {Value(op.getScale()), Value(op.getShift()), part.bias})
          if (operand)
            operands.push_back(operand);
        if (failed(
                expectApart(op, machine, frame, rank, op.getTo() ? op.getTo() : part.to, operands)))
          return failure();
      }
      FailureOr<std::vector<Numbers>> results = compute(op, machine, frame, rank);
      if (failed(results))
        return failure();
      wanted.push_back(std::move(*results));
    }
    if (failed(machine.runBlock(op.getBody().front(), frame)))
      return failure();
    for (auto [rank, results] : llvm::zip_equal(frame.active, wanted)) {
      for (auto [i, result] : llvm::enumerate(results)) {
        Value to = op.getTo() ? op.getTo() : parts[i].to;
        FailureOr<Numbers> found = machine.read(op, frame, to, rank, result.size());
        if (failed(found))
          return failure();
        if (!areClose(*found, result, machine.rounds() ? 0.05 : 1e-6))
          return machine.fail(op, rank) << "differs from its body";
      }
      // A fused kernel does not write the buffers of intermediate results.
      if (buffer::LaunchOp norm = op.getNormLaunch())
        for (Value value : norm.getWrites())
          machine.get(frame, value, rank).view.forget();
      if (op.getTo())
        for (const auto &part : parts)
          machine.get(frame, part.to, rank).view.forget();
    }
    return success();
  }

  /// Returns whether no two numbers differ by more than `tolerance` times the largest number.
  static bool areClose(const Numbers &a, const Numbers &b, double tolerance) {
    double largest = 0;
    for (const Scalar &number : b)
      if (std::isfinite(number.f))
        largest = std::max(largest, std::abs(number.f));
    for (auto [x, y] : llvm::zip_equal(a, b))
      if (std::isfinite(x.f) && std::isfinite(y.f) && std::abs(x.f - y.f) > tolerance * largest)
        return false;
    return true;
  }

  static FailureOr<std::vector<Numbers>> compute(buffer::FusedOp op, BufferMachine &machine,
                                                 Frame &frame, int rank) {
    buffer::ProductOp product = op.getProduct();
    int64_t m = machine.evaluate(product.getM(), rank), k = machine.evaluate(product.getK(), rank);
    Value from = op.getSource() ? op.getSource() : product.getX();
    FailureOr<Numbers> x = machine.read(op, frame, from, rank, m * k), scale = Numbers(),
                       shift = Numbers();
    if (failed(x) ||
        (op.getScale() && failed(scale = machine.read(op, frame, op.getScale(), rank, k))) ||
        (op.getShift() && failed(shift = machine.read(op, frame, op.getShift(), rank, k))))
      return failure();
    for (int64_t i = 0; i < m && op.getNorm() != buffer::Norm::None; ++i) {
      double mean = 0, squares = 0;
      auto at = [&](int64_t j) -> double & { return (*x)[i * k + j].f; };
      for (int64_t j = 0; j < k && op.getNorm() == buffer::Norm::Layer; ++j)
        mean += at(j) / double(k);
      for (int64_t j = 0; j < k; ++j)
        squares += (at(j) - mean) * (at(j) - mean);
      double root = std::sqrt(squares / double(k) + op.getEpsilon().convertToDouble());
      for (int64_t j = 0; j < k; ++j)
        at(j) = (at(j) - mean) / root * (*scale)[j].f + (op.getShift() ? (*shift)[j].f : 0);
    }
    std::vector<Numbers> results;
    for (const buffer::ProductOp::Matmul &part : product.getMatmuls()) {
      auto result = ProductRun::multiply(product, part, machine, frame, rank, *x);
      if (failed(result))
        return failure();
      results.push_back(std::move(*result));
    }
    if (op.getActivation() == buffer::Epilogue::None)
      return results;
    for (Scalar &number : results[0])
      number.f = activate(op.getActivation(), number.f);
    if (op.getGated() && results[0].size() == results[1].size())
      for (auto [number, gate] : llvm::zip_equal(results[0], results[1]))
        number.f *= gate.f;
    results.resize(1);
    return results;
  }
};

struct QuantizedProductRun : RunModel<QuantizedProductRun, buffer::QuantizedProductOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &machine, Frame &frame) const {
    auto op = cast<buffer::QuantizedProductOp>(base);
    for (int rank : frame.active)
      if (failed(runOnRank(op, machine, frame, rank)))
        return failure();
    return success();
  }

  /// Returns element `index` of a row of packed numbers.
  static int64_t unpack(ArrayRef<Scalar> bytes, int64_t index, int64_t bits, bool isSigned) {
    int64_t each = 8 / bits, range = int64_t(1) << bits;
    int64_t q = (bytes[index / each].i & 255) >> index % each * bits & (range - 1);
    return isSigned && q >= range / 2 ? q - range : q;
  }

  static LogicalResult runOnRank(buffer::QuantizedProductOp op, BufferMachine &machine,
                                 Frame &frame, int rank) {
    auto size = [&](buffer::ExprAttr expr) { return machine.evaluate(expr, rank); };
    int64_t m = size(op.getM()), k = size(op.getK()), n = size(op.getN());
    int64_t row = size(op.getRowBytes()), block = size(op.getBlock()), bits = op.getBits();
    int64_t zeroBits = op.getZeroBits();
    bool byRows = op.getByRows();
    if (k * n > 0 && block < 1)
      return machine.fail(op, rank) << "has blocks of " << block << " rows";
    if (k * n > 0 && row * (8 / bits) < (byRows ? n : k))
      return machine.fail(op, rank) << "has rows of " << row << " bytes, which are too short";
    SmallVector<int64_t> scaleStrides = machine.evaluate(op.getScaleStrides(), rank),
                         zeroStrides{0, 0};
    if (op.getZeroStrides())
      zeroStrides = machine.evaluate(*op.getZeroStrides(), rank);
    auto count = [&](ArrayRef<int64_t> strides) {
      return k * n > 0 ? (n - 1) * strides[0] + (k - 1) / block * strides[1] + 1 : 0;
    };
    int64_t zeroCount = count(zeroStrides), each = zeroBits ? 8 / zeroBits : 1;
    bool isSigned = !isUnsigned(machine.get(frame, op.getPacked(), rank).view.type);
    auto x = machine.read(op, frame, op.getX(), rank, m * k);
    auto packed = machine.read(op, frame, op.getPacked(), rank, row * (byRows ? k : n));
    auto scale = machine.read(op, frame, op.getScale(), rank, count(scaleStrides));
    FailureOr<Numbers> zeros = Numbers(), bias = Numbers(), residual = Numbers();
    if (op.getZeros())
      zeros = machine.read(op, frame, op.getZeros(), rank, (zeroCount + each - 1) / each);
    if (op.getBias())
      bias = machine.read(op, frame, op.getBias(), rank, n);
    if (op.getResidual())
      residual = machine.read(op, frame, op.getResidual(), rank, m * n);
    if (failed(x) || failed(packed) || failed(scale) || failed(zeros) || failed(bias) ||
        failed(residual))
      return failure();
    SmallVector<Value> others{op.getX(), op.getPacked(), op.getScale()};
    for (Value value : {op.getZeros(), op.getBias()})
      if (value)
        others.push_back(value);
    if (failed(expectApart(op, machine, frame, rank, op.getTo(), others)))
      return failure();
    Numbers matrix(k * n), out(m * n);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < n; ++j) {
        ArrayRef<Scalar> bytes = ArrayRef(*packed).slice((byRows ? i : j) * row, row);
        auto at = [&](ArrayRef<int64_t> strides) {
          return j * strides[0] + i / block * strides[1];
        };
        double zero = double(int64_t(op.getZeroPoint()));
        if (op.getZeros())
          zero = zeroBits ? double(unpack(*zeros, at(zeroStrides), zeroBits, isSigned))
                          : (*zeros)[at(zeroStrides)].f;
        double q = double(unpack(bytes, byRows ? j : i, bits, isSigned));
        matrix[i * n + j] = number((q - zero) * (*scale)[at(scaleStrides)].f);
      }
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += (*x)[i * k + l].f * matrix[l * n + j].f;
        if (op.getBias())
          sum += (*bias)[j].f;
        sum = activate(op.getEpilogue(), sum);
        if (op.getResidual())
          sum += (*residual)[i * n + j].f;
        out[i * n + j] = number(sum);
      }
    return machine.write(op, frame, op.getTo(), rank, out);
  }
};

struct BatchProductRun : RunModel<BatchProductRun, buffer::BatchProductOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &machine, Frame &frame) const {
    auto op = cast<buffer::BatchProductOp>(base);
    for (int rank : frame.active) {
      auto size = [&](buffer::ExprAttr expr) { return machine.evaluate(expr, rank); };
      int64_t batch = size(op.getBatch()), m = size(op.getM()), k = size(op.getK());
      int64_t n = size(op.getN()), aStride = size(op.getAStride()), bStride = size(op.getBStride());
      auto count = [&](int64_t stride, int64_t each) {
        return batch == 0 ? 0 : (batch - 1) * stride + each;
      };
      auto a = machine.read(op, frame, op.getA(), rank, count(aStride, m * k));
      auto b = machine.read(op, frame, op.getB(), rank, count(bStride, k * n));
      if (failed(a) || failed(b) ||
          failed(expectApart(op, machine, frame, rank, op.getTo(), {op.getA(), op.getB()})))
        return failure();
      Numbers out(batch * m * n);
      for (int64_t matrix = 0; matrix < batch; ++matrix)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < k; ++l)
              sum += (*a)[matrix * aStride + i * k + l].f * (*b)[matrix * bStride + l * n + j].f;
            out[(matrix * m + i) * n + j] = number(sum);
          }
      if (failed(machine.write(op, frame, op.getTo(), rank, out)))
        return failure();
    }
    return success();
  }
};
} // namespace

void lowered::attachMatmulRuns(MLIRContext *context) {
  buffer::ProductOp::attachInterface<ProductRun>(*context);
  buffer::QuantizedProductOp::attachInterface<QuantizedProductRun>(*context);
  buffer::FusedOp::attachInterface<FusedRun>(*context);
  buffer::BatchProductOp::attachInterface<BatchProductRun>(*context);
}
