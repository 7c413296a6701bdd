//===- Conv.cpp - Convolutions as matmuls and sums ------------------------===//
//
// The dialect has no convolution. Vision and speech models convolve once, before the transformer:
//
//   patches    stride = kernel: each patch is a row, [batch, patches, channels * kernel]
//   windows    small kernels, such as 3 in Whisper: a row consists of one shifted slice per element
//              of the kernel, [batch, positions, kernel * channels]
//
// Rows are multiplied with the kernel as a matrix. A depthwise convolution (one group per channel)
// is a sum of shifted slices, each times a column of the kernel; channels are then a parallel
// dimension.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "OpTable.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Maximum number of slices of a row.
static constexpr int64_t kMaxSlices = 64;

namespace {
/// Sizes of a convolution; one element per spatial dimension.
struct Window {
  SmallVector<int64_t> kernel, strides, dilations, begin, end;

  int64_t rank() const { return kernel.size(); }
  int64_t count() const {
    int64_t product = 1;
    for (int64_t size : kernel)
      product *= size;
    return product;
  }
  bool isPatch() const { return kernel == strides && llvm::all_equal(dilations) && !dilates(); }
  bool dilates() const {
    return llvm::any_of(dilations, [](int64_t dilation) { return dilation != 1; });
  }
};
} // namespace

static LogicalResult readPads(Node &n, const Sizes &sizes, Window &window) {
  int64_t rank = window.rank();
  std::string mode = n.getString("auto_pad", "NOTSET");
  auto pads = n.getInts("pads");
  window.begin.assign(rank, 0);
  window.end.assign(rank, 0);
  if (n.failed())
    return failure();
  if (mode == "NOTSET") {
    if (!pads)
      return success();
    if ((int64_t)pads->size() != 2 * rank || llvm::any_of(*pads, [](int64_t p) { return p < 0; }))
      return n.error() << "needs " << 2 * rank << " pads that are not negative";
    window.begin.assign(pads->begin(), pads->begin() + rank);
    window.end.assign(pads->begin() + rank, pads->end());
    return success();
  }
  if (mode == "VALID")
    return success();
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return n.error() << "has auto_pad = '" << mode
                     << "'; it must be NOTSET, VALID, SAME_UPPER or SAME_LOWER";
  for (int64_t i = 0; i < rank; ++i) {
    std::optional<int64_t> size = sizes[2 + i].asConstant();
    int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    if (!size && window.strides[i] != 1)
      return n.error() << "has auto_pad = '" << mode << "' on a dimension of size "
                       << sizes[2 + i].str() << "; export the model with pads";
    int64_t stride = window.strides[i];
    int64_t total =
        size ? std::max<int64_t>(0, ((*size + stride - 1) / stride - 1) * stride + reach - *size)
             : reach - 1;
    window.begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    window.end[i] = total - window.begin[i];
  }
  return success();
}

/// Adds zeros around a spatial dimension.
static Value pad(Node &n, Value v, int64_t dim, int64_t begin, int64_t end) {
  auto zeros = [&](int64_t count) {
    Sizes sizes = getSizes(v);
    sizes[dim] = SymExpr(count);
    return n.expand(n.constant(elementOf(v), 0), sizes);
  };
  SmallVector<Value> parts;
  if (begin)
    parts.push_back(zeros(begin));
  parts.push_back(v);
  if (end)
    parts.push_back(zeros(end));
  return n.concat(parts, dim);
}

/// Returns rows [batch, positions, channels * kernel] of patches that do not overlap.
static Value makePatches(Node &n, Value x, const Window &window, ArrayRef<SymExpr> positions) {
  Sizes divided = {getSizes(x)[0], getSizes(x)[1]};
  SmallVector<int64_t> permutation = {0};
  for (int64_t i = 0; i < window.rank(); ++i) {
    x = n.slice(x, 2 + i, SymExpr(0), positions[i] * SymExpr(window.kernel[i]));
    divided.push_back(positions[i]);
    divided.push_back(SymExpr(window.kernel[i]));
    permutation.push_back(2 + 2 * i);
  }
  permutation.push_back(1);
  for (int64_t i = 0; i < window.rank(); ++i)
    permutation.push_back(3 + 2 * i);
  SymExpr columns = divided[1] * SymExpr(window.count());
  return n.reshape(n.transpose(n.reshape(x, divided), permutation),
                   {divided[0], product(positions), columns});
}

/// Calls `body` for each kernel element with its slice of `x`: [batch, channels, positions...].
static void forEachShift(Node &n, Value x, const Window &window, ArrayRef<SymExpr> positions,
                         llvm::function_ref<void(int64_t element, Value slice)> body) {
  for (int64_t element = 0; element < window.count(); ++element) {
    Value slice = x;
    int64_t rest = element;
    for (int64_t i = window.rank(); i-- > 0; rest /= window.kernel[i])
      slice = n.slice(slice, 2 + i, SymExpr(rest % window.kernel[i] * window.dilations[i]),
                      positions[i], window.strides[i]);
    body(element, slice);
  }
}

/// Returns rows [batch, positions, kernel * channels] of windows, which may overlap.
static Value makeWindows(Node &n, Value x, const Window &window, ArrayRef<SymExpr> positions) {
  SmallVector<Value> slices;
  SymExpr batch = getSizes(x)[0], channels = getSizes(x)[1];
  SmallVector<int64_t> channelsLast = {0};
  for (int64_t i = 0; i < window.rank(); ++i)
    channelsLast.push_back(2 + i);
  channelsLast.push_back(1);
  forEachShift(n, x, window, positions, [&](int64_t, Value slice) {
    slices.push_back(
        n.reshape(n.transpose(slice, channelsLast), {batch, product(positions), channels}));
  });
  return n.concat(slices, 2);
}

/// Returns [batch, channels, positions...], summed in f32 for 16-bit operands. `kernel` is
/// [channels, 1, k...], `bias` [channels] or null.
static Value convolveDepthwise(Node &n, Value x, Value kernel, Value bias, const Window &window,
                               ArrayRef<SymExpr> positions) {
  if (!x || !kernel)
    return {};
  Type element = elementOf(x);
  auto widen = [&](Value v) {
    return v && element.getIntOrFloatBitWidth() == 16 ? n.cast(v, n.b.getF32Type()) : v;
  };
  Sizes perChannel(1 + window.rank(), SymExpr(1));
  perChannel[0] = getSizes(x)[1];
  kernel = n.reshape(widen(kernel), {perChannel[0], SymExpr(window.count())});
  Value sum;
  forEachShift(n, widen(x), window, positions, [&](int64_t i, Value slice) {
    Value column = n.reshape(n.slice(kernel, 1, SymExpr(i), SymExpr(1)), perChannel);
    Value term = n.binary<MulOp>(slice, column);
    sum = sum ? n.binary<AddOp>(sum, term) : term;
  });
  if (bias)
    sum = n.binary<AddOp>(sum, n.reshape(widen(bias), perChannel));
  return sum && elementOf(sum) != element ? n.cast(sum, element) : sum;
}

/// Imports a causal depthwise convolution of [batch, channels, length] and its state, the last
/// k - 1 elements of each channel.
static LogicalResult importCausalConvWithState(Node &n) {
  if (failed(n.expectInputs(2, 4)) || failed(n.expectFloat(0)))
    return failure();
  std::string activation = n.getString("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.error() << "has activation '" << activation << "'; it must be none, silu or swish";
  const Tensor &x = n.in(0), &w = n.in(1);
  if (x.rank() != 3 || w.rank() != 3)
    return n.error() << "convolves " << str(x.shape) << " with " << str(w.shape)
                     << "; both must have three dimensions";
  std::optional<int64_t> taps = w.shape[2].asConstant();
  if (!taps || *taps < 1 || *taps > kMaxSlices)
    return n.error() << "has a kernel of shape " << str(w.shape) << "; its size must be 1 to "
                     << kMaxSlices;
  Window window{{*taps}, {1}, {1}, {0}, {0}};
  std::string shapes = "of " + str(x.shape) + " and of the kernel " + str(w.shape);
  if (!n.equate(w.shape[0], x.shape[1], "the channels " + shapes) ||
      !n.equate(w.shape[1], SymExpr(1), "the second dimension of the kernel " + str(w.shape)))
    return failure();
  if (n.has(2) && (n.in(2).rank() != 1 ||
                   !n.equate(n.in(2).shape[0], x.shape[1], "the bias " + str(n.in(2).shape))))
    return n.error() << "has a bias of shape " << str(n.in(2).shape) << "; it must be [channels]";
  Value padded = n.operand(0);
  if (n.has(3)) {
    const Tensor &past = n.in(3);
    if (past.rank() != 3)
      return n.error() << "has a state of shape " << str(past.shape)
                       << "; it must be [batch, channels, kernel - 1]";
    for (auto [have, want] : {std::pair(past.shape[0], x.shape[0]),
                              {past.shape[1], x.shape[1]},
                              {past.shape[2], SymExpr(*taps - 1)}})
      if (!n.equate(have, want, "the state " + str(past.shape) + ", the input " + str(x.shape)))
        return failure();
    padded = n.concat({n.operand(3), padded}, 2);
  } else {
    padded = pad(n, padded, 2, *taps - 1, 0);
  }
  Value result = convolveDepthwise(n, padded, n.operand(1), n.has(2) ? n.operand(2) : Value(),
                                   window, x.shape[2]);
  if (result && activation != "none")
    result = n.unary<SiluOp>(result);
  Value state = n.isUsed(1) ? n.slice(padded, 2, x.shape[2], SymExpr(*taps - 1)) : Value();
  if (n.isUsed(1) && failed(n.set(1, n.wrap(state))))
    return failure();
  return n.result(result);
}

static LogicalResult importConv(Node &n) {
  if (failed(n.expectInputs(2, 3)) || failed(n.expectFloat(0)))
    return failure();
  const Tensor &x = n.in(0), &w = n.in(1);
  Window window;
  if (x.rank() < 3 || w.rank() != x.rank())
    return n.error() << "convolves " << str(x.shape) << " with " << str(w.shape)
                     << "; both must have the same rank, of at least 3";
  int64_t rank = x.rank() - 2;
  for (const SymExpr &size : ArrayRef(w.shape).drop_front(2)) {
    std::optional<int64_t> known = size.asConstant();
    if (!known || *known < 1)
      return n.error() << "has a kernel of shape " << str(w.shape) << "; its size must be a number";
    window.kernel.push_back(*known);
  }
  auto read = [&](StringRef name, SmallVector<int64_t> &values) -> LogicalResult {
    values.assign(rank, 1);
    if (auto given = n.getInts(name))
      values.assign(given->begin(), given->end());
    if ((int64_t)values.size() != rank ||
        llvm::any_of(values, [](int64_t v) { return v < 1 || v > (1 << 20); }))
      return n.error() << "needs " << rank << " positive " << name;
    return success();
  };
  n.ignore("kernel_shape"); // that of the weight
  if (failed(read("strides", window.strides)) || failed(read("dilations", window.dilations)) ||
      failed(readPads(n, x.shape, window)))
    return failure();
  int64_t groups = n.getInt("group", 1);
  bool isDepthwise = groups != 1 && x.shape[1].isConstant(groups) && w.shape[0].isConstant(groups);
  if (groups != 1 && !isDepthwise)
    return n.error() << "has " << groups
                     << " groups; only one group, or one group for each of equally many input and "
                        "output channels, is imported";
  if (!n.equate(isDepthwise ? SymExpr(1) : x.shape[1], w.shape[1],
                "the channels of " + str(x.shape) + " and of the kernel " + str(w.shape)))
    return failure();
  if ((isDepthwise || !window.isPatch()) && window.count() > kMaxSlices)
    return n.error() << "has a kernel of " << window.count()
                     << " elements whose windows overlap or have one channel; at most "
                     << kMaxSlices
                     << " are imported, and any number if the stride is the kernel's size";

  Value v = n.operand(0);
  Sizes positions;
  for (int64_t i = 0; i < rank && v; ++i) {
    v = pad(n, v, 2 + i, window.begin[i], window.end[i]);
    if (!v)
      return failure();
    int64_t reach = (window.kernel[i] - 1) * window.dilations[i] + 1;
    SymExpr slack = getSizes(v)[2 + i] - SymExpr(reach);
    if (!n.assumeNonNegative(slack, "the kernel of node " + getSourceName(n.loc) + " covers " +
                                        Twine(reach) + " elements"))
      return n.error() << "has a kernel that covers " << reach
                       << " elements of a dimension of size " << getSizes(v)[2 + i].str()
                       << " after padding";
    SymExpr stride(window.strides[i]);
    // slack / stride + 1 as one quotient, whose sign follows from the terms of the dividend.
    positions.push_back(SymExpr::floorDiv(slack + stride, stride));
  }
  if (isDepthwise)
    return n.result(convolveDepthwise(n, v, n.operand(1), n.has(2) ? n.operand(2) : Value(), window,
                                      positions));
  bool isPatch = window.isPatch();
  Value rows =
      isPatch ? makePatches(n, v, window, positions) : makeWindows(n, v, window, positions);
  // The kernel [out, in, k..] as a matrix [in * k, out], or [k * in, out].
  Value kernel = n.operand(1);
  if (!isPatch) {
    SmallVector<int64_t> channelsLast = {0};
    for (int64_t i = 0; i < rank; ++i)
      channelsLast.push_back(2 + i);
    channelsLast.push_back(1);
    kernel = n.transpose(kernel, channelsLast);
  }
  SymExpr out = w.shape[0];
  kernel = n.transpose(n.reshape(kernel, {out, w.shape[1] * SymExpr(window.count())}), {1, 0});
  Value result = n.matmul(rows, kernel);
  if (result && n.has(2))
    result = n.binary<AddOp>(result, n.operand(2));
  Sizes sizes = {x.shape[0], out};
  llvm::append_range(sizes, positions);
  return n.result(n.reshape(n.transpose(result, {0, 2, 1}), sizes));
}

void mlir::tpc::frontend::addConvOps(OpTable &t) {
  t.add("Conv", {1, 11, 22}, importConv,
        "one group, or one per channel; the stride is the kernel's size, or the kernel has at most "
        "64 elements");
  t.add("CausalConvWithState", {27}, importCausalConvWithState,
        "kernel of at most 64 elements; --generate has no such states");
}
