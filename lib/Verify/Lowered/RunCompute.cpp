//===- RunCompute.cpp - Interpretation of library calls -------------------===//

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
struct AttentionRun : RunModel<AttentionRun, buffer::AttentionOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &machine, Frame &frame) const {
    auto op = cast<buffer::AttentionOp>(base);
    for (int rank : frame.active)
      if (failed(runOnRank(op, machine, frame, rank)))
        return failure();
    return success();
  }

  static LogicalResult runOnRank(buffer::AttentionOp op, BufferMachine &machine, Frame &frame,
                                 int rank) {
    auto size = [&](buffer::ExprAttr expr) { return machine.evaluate(expr, rank); };
    int64_t batch = size(op.getBatch()), queries = size(op.getQueries()), keys = size(op.getKeys());
    int64_t heads = size(op.getHeads()), kvHeads = size(op.getKvHeads());
    int64_t d = size(op.getHeadSize()), dv = size(op.getValueSize());
    SmallVector<int64_t> strides = machine.evaluate(op.getStrides(), rank);
    if (strides.size() != 4)
      return machine.fail(op, rank) << "does not have four strides";
    // Strides of sequences and heads: dense, or the cache's strides if there are lengths.
    SmallVector<int64_t> outer{keys * strides[1], d, keys * strides[2], dv};
    if (op.getCacheStrides())
      outer = machine.evaluate(*op.getCacheStrides(), rank);
    if (outer.size() != 4)
      return machine.fail(op, rank) << "does not have four strides of a cache";
    if (heads > 0 && (kvHeads < 1 || heads % kvHeads != 0))
      return machine.fail(op, rank) << heads << " heads cannot share " << kvHeads << " kv heads";
    int64_t group = heads > 0 ? heads / kvHeads : 1;
    // Reads all elements of a buffer.
    auto whole = [&](Value value) -> FailureOr<Numbers> {
      if (!value)
        return Numbers();
      return machine.readSpan(op, frame, value, rank);
    };
    auto q = whole(op.getQ()), k = whole(op.getK()), v = whole(op.getV());
    auto keyMask = whole(op.getKeyMask()), mask = whole(op.getMask()), bias = whole(op.getBias());
    auto slopes = whole(op.getSlopes()), sinks = whole(op.getSinks()),
         lengths = whole(op.getLengths());
    if (failed(q) || failed(k) || failed(v) || failed(keyMask) || failed(mask) || failed(bias) ||
        failed(slopes) || failed(sinks) || failed(lengths))
      return failure();
    if (failed(
            expectApart(op, machine, frame, rank, op.getTo(), {op.getQ(), op.getK(), op.getV()})))
      return failure();
    SmallVector<int64_t> maskStrides{0, 0}, biasStrides{0, 0};
    if (op.getMaskStrides())
      maskStrides = machine.evaluate(*op.getMaskStrides(), rank);
    if (op.getBiasStrides())
      biasStrides = machine.evaluate(*op.getBiasStrides(), rank);
    std::string wrong;
    auto at = [&](const Numbers &numbers, int64_t i, const char *what) {
      if (i >= 0 && i < int64_t(numbers.size()))
        return numbers[i];
      wrong = std::string("reads element ") + std::to_string(i) + " of " + what + ", which has " +
              std::to_string(numbers.size());
      return Scalar();
    };
    double scale = op.getScale().convertToDouble(), softcap = op.getSoftcap().convertToDouble();
    Numbers out(batch * queries * strides[3]);
    std::vector<double> scores(keys);
    std::vector<bool> visible(keys);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < queries; ++i) {
          double top = -INFINITY, total = 0;
          bool any = false;
          int64_t position = i + (op.getLengths() ? at(*lengths, b, "the lengths").i : 0);
          for (int64_t j = 0; j < keys; ++j) {
            double score = 0;
            for (int64_t c = 0; c < d; ++c)
              score += at(*q, (b * queries + i) * strides[0] + h * d + c, "q").f *
                       at(*k, b * outer[0] + h / group * outer[1] + j * strides[1] + c, "k").f;
            score *= scale;
            if (softcap != 0)
              score = softcap * std::tanh(score / softcap);
            bool sees = !op.getCausalAttr() || j <= position + size(op.getCausalAttr());
            if (op.getAfterAttr())
              sees &= j > position + size(op.getAfterAttr());
            if (op.getKeyMask())
              sees &= at(*keyMask, b * keys + j, "the key mask").i != 0;
            int64_t element = i * keys + j;
            if (op.getMask())
              sees &=
                  at(*mask, b * maskStrides[0] + h * maskStrides[1] + element, "the mask").i != 0;
            if (op.getBias())
              score += at(*bias, b * biasStrides[0] + h * biasStrides[1] + element, "the bias").f;
            if (op.getSlopes())
              score += at(*slopes, h, "the slopes").f *
                       double(j - position - size(op.getSlopesAtAttr()));
            sees &= score != -INFINITY; // a bias of -inf hides the key
            scores[j] = score;
            visible[j] = sees;
            any |= sees;
            top = sees ? std::max(top, score) : top;
          }
          bool uniform = !any && op.getUniformRows();
          double sink = op.getSinks() ? at(*sinks, h, "the sinks").f : -INFINITY;
          if (sink != -INFINITY) {
            top = std::max(top, sink);
            total += std::exp(sink - top);
          }
          for (int64_t j = 0; j < keys; ++j)
            total += scores[j] = uniform ? 1 : visible[j] ? std::exp(scores[j] - top) : 0;
          for (int64_t c = 0; c < dv; ++c) {
            double sum = 0;
            for (int64_t j = 0; j < keys; ++j)
              if (scores[j] != 0)
                sum += scores[j] / total *
                       at(*v, b * outer[2] + h / group * outer[3] + j * strides[2] + c, "v").f;
            int64_t element = (b * queries + i) * strides[3] + h * dv + c;
            if (element >= int64_t(out.size()))
              wrong = "writes past the end of its result";
            else
              out[element] = number(sum);
          }
        }
    if (!wrong.empty())
      return machine.fail(op, rank) << wrong;
    return machine.write(op, frame, op.getTo(), rank, out);
  }
};

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
  buffer::AttentionOp::attachInterface<AttentionRun>(*context);
  buffer::ExpertsOp::attachInterface<ExpertsRun>(*context);
}
