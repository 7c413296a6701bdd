//===- RunAttention.cpp - Interpretation of attention and its gradient ----===//

#include "RunAttention.h"
#include "RunBuffers.h"

#include "tpc/Buffer/Training.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

namespace {
/// Sizes, strides and operands of a call on one rank, and the probabilities of its rows.
template <typename CallT> class AttentionRows {
public:
  static constexpr bool isGradient = std::is_same_v<CallT, buffer::AttentionGradOp>;

  AttentionRows(CallT op, BufferMachine &machine, int rank)
      : op(op), machine(machine), rank(rank), batch(size(op.getBatch())),
        queries(size(op.getQueries())), keys(size(op.getKeys())), heads(size(op.getHeads())),
        kvHeads(size(op.getKvHeads())), d(size(op.getHeadSize())), dv(size(op.getValueSize())) {}

  LogicalResult read(Frame &frame) {
    strides = machine.evaluate(op.getStrides(), rank);
    if (strides.size() != (isGradient ? 3 : 4))
      return machine.fail(op, rank) << "does not have a stride for each tensor";
    // Strides of sequences and heads: dense, or the cache's strides if there are lengths.
    outer = {keys * strides[1], d, keys * strides[2], dv};
    if constexpr (!isGradient)
      if (op.getCacheStrides())
        outer = machine.evaluate(*op.getCacheStrides(), rank);
    if (outer.size() != 4)
      return machine.fail(op, rank) << "does not have four strides of a cache";
    if (heads > 0 && (kvHeads < 1 || heads % kvHeads != 0))
      return machine.fail(op, rank) << heads << " heads cannot share " << kvHeads << " kv heads";
    group = heads > 0 ? heads / kvHeads : 1;
    // Reads all elements of a buffer.
    auto readAll = [&](Value value, Numbers &into) -> LogicalResult {
      if (!value)
        return success();
      auto numbers = machine.readSpan(op, frame, value, rank);
      if (succeeded(numbers))
        into = std::move(*numbers);
      return numbers;
    };
    if (failed(readAll(op.getQ(), q)) || failed(readAll(op.getK(), k)) ||
        failed(readAll(op.getV(), v)) || failed(readAll(op.getKeyMask(), keyMask)) ||
        failed(readAll(op.getMask(), mask)) || failed(readAll(op.getBias(), bias)) ||
        failed(readAll(op.getSlopes(), slopes)))
      return failure();
    if constexpr (isGradient) {
      if (failed(readAll(op.getCotangent(), cotangent)))
        return failure();
    } else if (failed(readAll(op.getSinks(), sinks)) || failed(readAll(op.getLengths(), lengths))) {
      return failure();
    }
    if (op.getMaskStrides())
      maskStrides = machine.evaluate(*op.getMaskStrides(), rank);
    if (op.getBiasStrides())
      biasStrides = machine.evaluate(*op.getBiasStrides(), rank);
    return success();
  }

  int64_t size(buffer::ExprAttr expr) { return machine.evaluate(expr, rank); }

  Scalar at(const Numbers &numbers, int64_t i, const char *what) {
    if (i >= 0 && i < int64_t(numbers.size()))
      return numbers[i];
    wrong = std::string("reads element ") + std::to_string(i) + " of " + what + ", which has " +
            std::to_string(numbers.size());
    return Scalar();
  }
  double getQuery(int64_t b, int64_t i, int64_t h, int64_t c) {
    return at(q, (b * queries + i) * strides[0] + h * d + c, "q").f;
  }
  double getKey(int64_t b, int64_t j, int64_t h, int64_t c) {
    return at(k, b * outer[0] + h / group * outer[1] + j * strides[1] + c, "k").f;
  }
  double getValue(int64_t b, int64_t j, int64_t h, int64_t c) {
    return at(v, b * outer[2] + h / group * outer[3] + j * strides[2] + c, "v").f;
  }

  /// Sets the probabilities of one row. `visible`: keys with a score; `slope`: derivatives of the
  /// softcap.
  void compute(int64_t b, int64_t h, int64_t i) {
    weights.assign(keys, 0);
    visible.assign(keys, false);
    slope.assign(keys, 1);
    double scale = op.getScale().convertToDouble(), softcap = op.getSoftcap().convertToDouble();
    double top = -INFINITY, total = 0;
    bool any = false;
    int64_t position = i + (lengths.empty() ? 0 : at(lengths, b, "the lengths").i);
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t c = 0; c < d; ++c)
        score += getQuery(b, i, h, c) * getKey(b, j, h, c);
      score *= scale;
      if (softcap != 0) {
        double y = std::tanh(score / softcap);
        score = softcap * y;
        slope[j] = 1 - y * y;
      }
      bool sees = !op.getCausalAttr() || j <= position + size(op.getCausalAttr());
      if (op.getAfterAttr())
        sees &= j > position + size(op.getAfterAttr());
      if (op.getKeyMask())
        sees &= at(keyMask, b * keys + j, "the key mask").i != 0;
      int64_t element = i * keys + j;
      if (op.getMask())
        sees &= at(mask, b * maskStrides[0] + h * maskStrides[1] + element, "the mask").i != 0;
      if (op.getBias())
        score += at(bias, b * biasStrides[0] + h * biasStrides[1] + element, "the bias").f;
      if (op.getSlopes())
        score += at(slopes, h, "the slopes").f * double(j - position - size(op.getSlopesAtAttr()));
      sees &= score != -INFINITY; // a bias of -inf hides the key
      weights[j] = score;
      visible[j] = sees;
      any |= sees;
      top = sees ? std::max(top, score) : top;
    }
    bool uniform = !any && op.getUniformRows();
    double sink = sinks.empty() ? -INFINITY : at(sinks, h, "the sinks").f;
    if (sink != -INFINITY) {
      top = std::max(top, sink);
      total += std::exp(sink - top);
    }
    for (int64_t j = 0; j < keys; ++j)
      total += weights[j] = uniform ? 1 : visible[j] ? std::exp(weights[j] - top) : 0;
    for (double &weight : weights)
      weight = weight != 0 ? weight / total : 0;
  }

  CallT op;
  BufferMachine &machine;
  int rank;
  int64_t batch, queries, keys, heads, kvHeads, d, dv, group = 1;
  SmallVector<int64_t> strides, outer, maskStrides{0, 0}, biasStrides{0, 0};
  Numbers q, k, v, cotangent, keyMask, mask, bias, slopes, sinks, lengths;
  std::vector<double> weights, slope;
  std::vector<bool> visible;
  std::string wrong; ///< error of the last computation
};

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
    AttentionRows<buffer::AttentionOp> rows(op, machine, rank);
    if (failed(rows.read(frame)) || failed(expectApart(op, machine, frame, rank, op.getTo(),
                                                       {op.getQ(), op.getK(), op.getV()})))
      return failure();
    Numbers out(rows.batch * rows.queries * rows.strides[3]);
    for (int64_t b = 0; b < rows.batch; ++b)
      for (int64_t h = 0; h < rows.heads; ++h)
        for (int64_t i = 0; i < rows.queries; ++i) {
          rows.compute(b, h, i);
          for (int64_t c = 0; c < rows.dv; ++c) {
            double sum = 0;
            for (int64_t j = 0; j < rows.keys; ++j)
              if (rows.weights[j] != 0)
                sum += rows.weights[j] * rows.getValue(b, j, h, c);
            int64_t element = (b * rows.queries + i) * rows.strides[3] + h * rows.dv + c;
            if (element >= int64_t(out.size()))
              rows.wrong = "writes past the end of its result";
            else
              out[element] = number(sum);
          }
        }
    if (!rows.wrong.empty())
      return machine.fail(op, rank) << rows.wrong;
    return machine.write(op, frame, op.getTo(), rank, out);
  }
};

struct AttentionGradRun : RunModel<AttentionGradRun, buffer::AttentionGradOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &machine, Frame &frame) const {
    auto op = cast<buffer::AttentionGradOp>(base);
    for (int rank : frame.active)
      if (failed(runOnRank(op, machine, frame, rank)))
        return failure();
    return success();
  }

  static LogicalResult runOnRank(buffer::AttentionGradOp op, BufferMachine &machine, Frame &frame,
                                 int rank) {
    AttentionRows<buffer::AttentionGradOp> r(op, machine, rank);
    if (failed(r.read(frame)))
      return failure();
    for (Value to : op.getTo())
      if (failed(expectApart(op, machine, frame, rank, to,
                             {op.getQ(), op.getK(), op.getV(), op.getCotangent()})))
        return failure();
    double scale = op.getScale().convertToDouble();
    std::vector<double> dq(r.batch * r.queries * r.heads * r.d),
        dk(r.batch * r.keys * r.kvHeads * r.d), dv(r.batch * r.keys * r.kvHeads * r.dv);
    std::vector<double> gradWeights(r.keys);
    for (int64_t b = 0; b < r.batch; ++b)
      for (int64_t h = 0; h < r.heads; ++h)
        for (int64_t i = 0; i < r.queries; ++i) {
          r.compute(b, h, i);
          int64_t query = (b * r.queries + i) * r.heads + h;
          double mean = 0;
          for (int64_t j = 0; j < r.keys; ++j) {
            int64_t key = (b * r.keys + j) * r.kvHeads + h / r.group;
            gradWeights[j] = 0;
            for (int64_t c = 0; c < r.dv; ++c) {
              double out = r.at(r.cotangent, query * r.dv + c, "the cotangent").f;
              gradWeights[j] += out * r.getValue(b, j, h, c);
              dv[key * r.dv + c] += r.weights[j] * out;
            }
            mean += r.weights[j] * gradWeights[j];
          }
          for (int64_t j = 0; j < r.keys; ++j) {
            if (!r.visible[j])
              continue;
            int64_t key = (b * r.keys + j) * r.kvHeads + h / r.group;
            double gradScore = r.weights[j] * (gradWeights[j] - mean) * r.slope[j] * scale;
            for (int64_t c = 0; c < r.d; ++c) {
              dq[query * r.d + c] += gradScore * r.getKey(b, j, h, c);
              dk[key * r.d + c] += gradScore * r.getQuery(b, i, h, c);
            }
          }
        }
    if (!r.wrong.empty())
      return machine.fail(op, rank) << r.wrong;
    for (auto [number, to] : llvm::zip_equal(op.getOf(), op.getTo())) {
      const std::vector<double> &from = number == 0 ? dq : number == 1 ? dk : dv;
      Numbers out;
      for (double x : from)
        out.push_back(lowered::number(x));
      if (failed(machine.write(op, frame, to, rank, out)))
        return failure();
    }
    return success();
  }
};
} // namespace

void lowered::attachAttentionRuns(MLIRContext *context) {
  buffer::AttentionOp::attachInterface<AttentionRun>(*context);
  buffer::AttentionGradOp::attachInterface<AttentionGradRun>(*context);
}
