//===- RunCompute.cpp - Interpretation of experts and activations ---------===//

#include "RunAttention.h"
#include "RunBuffers.h"

#include <cmath>
#include <set>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

double lowered::activate(buffer::Epilogue epilogue, double x) {
  switch (epilogue) {
  case buffer::Epilogue::None:
    return x;
  case buffer::Epilogue::GeluErf:
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case buffer::Epilogue::GeluTanh:
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case buffer::Epilogue::Silu:
    return x / (1 + std::exp(-x));
  case buffer::Epilogue::Relu:
    return x > 0 || std::isnan(x) ? x : 0;
  }
  llvm_unreachable("all epilogues are listed");
}

/// Returns whether two buffers overlap. Results of library calls must not overlap operands.
static bool overlap(const MemoryView &a, const MemoryView &b) {
  if (a.memory != b.memory || a.elements <= 0 || b.elements <= 0 || a.begin >= b.getEnd() ||
      b.begin >= a.getEnd())
    return false;
  if (!a.width && !b.width)
    return true;
  // Columns of one buffer.
  std::set<int64_t> bytes;
  for (int64_t i = 0; i < a.elements; ++i)
    for (int64_t byte = 0; byte < a.type.getBytes(); ++byte)
      bytes.insert(a.byteOf(i) + byte);
  for (int64_t i = 0; i < b.elements; ++i)
    for (int64_t byte = 0; byte < b.type.getBytes(); ++byte)
      if (bytes.count(b.byteOf(i) + byte))
        return true;
  return false;
}

LogicalResult lowered::expectApart(Operation *op, BufferMachine &m, Frame &frame, int rank,
                                   Value to, ValueRange from) {
  for (Value value : from)
    if (overlap(m.get(frame, to, rank).view, m.get(frame, value, rank).view))
      return m.fail(op, rank) << "writes to a buffer that it reads";
  return success();
}

namespace {
struct ExpertsRun : RunModel<ExpertsRun, buffer::ExpertsOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &machine, Frame &frame) const {
    auto op = cast<buffer::ExpertsOp>(base);
    for (int rank : frame.active)
      if (failed(runOnRank(op, machine, frame, rank)))
        return failure();
    return success();
  }

  static double activate(buffer::ExpertsOp op, double z) {
    if (op.getActivation() == ExpertActivation::Silu)
      return z / (1 + std::exp(-op.getAlpha().convertToDouble() * z));
    return lowered::activate(buffer::Epilogue(int(op.getActivation())), z);
  }

  static LogicalResult runOnRank(buffer::ExpertsOp op, BufferMachine &machine, Frame &frame,
                                 int rank) {
    auto size = [&](buffer::ExprAttr expr) { return machine.evaluate(expr, rank); };
    int64_t tokens = size(op.getTokens()), hidden = size(op.getHidden());
    int64_t experts = size(op.getExperts()), all = size(op.getAll()), first = size(op.getFirst());
    int64_t inner = size(op.getInner()), outputs = size(op.getOutputs());
    if (first < 0 || first + experts > all)
      return machine.fail(op, rank) << "has experts from " << first << " to " << first + experts
                                    << ", but there are " << all;
    auto read = [&](Value value, int64_t count) -> FailureOr<Numbers> {
      return value ? machine.read(op, frame, value, rank, count) : FailureOr<Numbers>(Numbers());
    };
    int64_t matrix = experts * inner * hidden, vector = experts * inner;
    auto x = read(op.getX(), tokens * hidden), routing = read(op.getRouting(), tokens * all);
    auto up = read(op.getUp(), matrix), gate = read(op.getGate(), matrix);
    auto down = read(op.getDown(), experts * outputs * inner);
    auto upBias = read(op.getUpBias(), vector), gateBias = read(op.getGateBias(), vector);
    if (failed(x) || failed(routing) || failed(up) || failed(gate) || failed(down) ||
        failed(upBias) || failed(gateBias))
      return failure();
    SmallVector<Value> operands{op.getX(), op.getRouting(), op.getUp(), op.getDown()};
    for (Value value : {op.getGate(), op.getUpBias(), op.getGateBias()})
      if (value)
        operands.push_back(value);
    if (failed(expectApart(op, machine, frame, rank, op.getTo(), operands)))
      return failure();
    double beta = op.getBeta().convertToDouble(), limit = op.getLimit().convertToDouble();
    auto project = [&](const Numbers &w, const Numbers &bias, int64_t t, int64_t row) {
      double sum = bias.empty() ? 0 : bias[row].f;
      for (int64_t i = 0; i < hidden; ++i)
        sum += (*x)[t * hidden + i].f * w[row * hidden + i].f;
      return sum;
    };
    Numbers out(tokens * outputs, number(0));
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t e = 0; e < experts; ++e) {
        double weight = (*routing)[t * all + first + e].f;
        if (weight == 0)
          continue;
        for (int64_t f = 0; f < inner; ++f) {
          double h = project(*up, *upBias, t, e * inner + f);
          if (op.getGate()) {
            double v = project(*gate, *gateBias, t, e * inner + f);
            if (limit != 0) {
              h = h > limit ? limit : h < -limit ? -limit : h;
              v = v > limit ? limit : v;
            }
            h = activate(op, v) * (h + beta);
          } else {
            h = activate(op, h);
          }
          for (int64_t o = 0; o < outputs; ++o)
            out[t * outputs + o].f += weight * h * (*down)[(e * outputs + o) * inner + f].f;
        }
      }
    return machine.write(op, frame, op.getTo(), rank, out);
  }
};
} // namespace

void lowered::attachComputeRuns(MLIRContext *context) {
  attachMatmulRuns(context);
  attachAttentionRuns(context);
  buffer::ExpertsOp::attachInterface<ExpertsRun>(*context);
}
