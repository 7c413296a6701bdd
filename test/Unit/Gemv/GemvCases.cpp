//===- GemvCases.cpp - Interpreted matrix-vector kernels ------------------===//

#include "GemvCases.h"

#include "cuda/library/GemvText.h"
#include "tpc/dependent_launch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

using namespace gemv;
using namespace tpc::gemv;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Returns the bits of the nearest number of a type.
static uint32_t round(int32_t dtype, double value) {
  auto single = static_cast<float>(value);
  if (dtype == TPC_F32)
    return std::bit_cast<uint32_t>(single);
  if (dtype == TPC_F16)
    return std::bit_cast<uint16_t>(static_cast<_Float16>(single));
  uint32_t bits = std::bit_cast<uint32_t>(single);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static double widen(int32_t dtype, uint32_t bits) {
  if (dtype == TPC_F32)
    return std::bit_cast<float>(bits);
  if (dtype == TPC_F16)
    return static_cast<double>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
  return std::bit_cast<float>(bits << 16);
}

namespace {
/// An operand, with values that its type represents exactly.
struct Operand {
  int32_t dtype;
  std::vector<double> values;
  std::vector<uint8_t> bytes;

  Operand(int32_t dtype, size_t count, uint64_t seed, double largest = 1) : dtype(dtype) {
    for (size_t i = 0; i < count; ++i) {
      auto random = static_cast<double>(mix(seed * 0x9e3779b97f4a7c15 + i) >> 40);
      uint32_t bits = round(dtype, (random * 0x1p-23 - 1) * largest);
      values.push_back(widen(dtype, bits));
      auto *from = reinterpret_cast<const uint8_t *>(&bits);
      bytes.insert(bytes.end(), from, from + getBytes(dtype));
    }
  }
  void append(const Operand &other) {
    values.insert(values.end(), other.values.begin(), other.values.end());
    bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Variants and cases
//===----------------------------------------------------------------------===//

std::vector<Variant> gemv::getVariants() {
  std::vector<Variant> all;
  for (int32_t element : {TPC_F32, TPC_F16, TPC_BF16})
    for (auto [transposed, fused] : {std::pair(false, false), {true, false}, {false, true}})
      for (int64_t m = 1; m <= kMaxRows; ++m)
        all.push_back({element, transposed, m, fused});
  return all;
}

static std::string getTypeName(int32_t dtype) {
  return dtype == TPC_F32 ? "f32" : dtype == TPC_F16 ? "f16" : "bf16";
}

std::string gemv::getName(const Variant &variant) {
  return "tpc_gemv_" + getTypeName(variant.element) + (variant.transposed ? "_nk_" : "_kn_") +
         (variant.fused ? "fused_" : "") + std::to_string(variant.m);
}

std::string gemv::getText(const Variant &variant) {
  return tpc::dependent_launch::enable(
      tpc::rt::cuda::gemvText(variant.element, variant.transposed, variant.fused));
}

const ptx::Module &gemv::getModule(const Variant &variant) {
  static std::map<std::tuple<int32_t, bool, bool>, ptx::Module> modules;
  auto [at, isNew] = modules.try_emplace({variant.element, variant.transposed, variant.fused});
  if (isNew) {
    std::string error;
    auto module = ptx::parse(getText(variant), error);
    if (module)
      at->second = *module;
    else
      std::fprintf(stderr, "%s\n", error.c_str());
  }
  return at->second;
}

std::string Case::str() const {
  return gemv::getName(variant) + " k=" + std::to_string(k) + " n=" + std::to_string(n) +
         (bias ? " bias" : "") + (residual ? aliased ? " residual in place" : " residual" : "") +
         (wide ? " wide" : "") +
         (norm ? " norm=" + std::to_string(norm) + (hasShift ? " shifted" : "") : "") +
         (wideX ? " wide x" : "") + (wideScale ? " wide scale" : "") +
         (activation ? " activation=" + std::to_string(activation) : "") + (gated ? " gated" : "") +
         " padding=" + std::to_string(wPadding) + "," + std::to_string(outPadding) +
         " multiprocessors=" + std::to_string(multiprocessors) + " shift=" + std::to_string(shift) +
         " seed=" + std::to_string(seed) + " order=" + std::to_string(order);
}

template <class Below> static void drawFusion(Case &made, Below below) {
  made.k = std::min(made.k, kMaxStagedBytes / kMaxRows / getBytes(made.variant.element));
  made.norm = static_cast<int32_t>(below(3));
  made.hasShift = made.norm == TPC_NORM_LAYER && below(3);
  made.wideX = made.norm && below(2);
  made.wideScale = made.norm && below(2);
  made.activation = static_cast<int32_t>(below(5));
  if (!made.activation)
    return;
  made.residual = made.aliased = false;
  // Activations differ by ranges of numbers.
  constexpr double largest[] = {0.25, 1, 8, 200};
  made.largestBias = largest[below(std::size(largest))];
  made.gated = below(2);
  if (made.gated)
    made.n = 2 * getVector(made.variant.element) * (1 + below(2 * kThreadsOfRow));
}

Case gemv::drawCase(const Variant &variant, uint64_t seed) {
  auto below = [state = seed * 0x9e3779b97f4a7c15 + 1](uint64_t end) mutable {
    state = mix(state + 0x9e3779b97f4a7c15);
    return static_cast<int64_t>(state % end);
  };
  Case made;
  made.variant = variant;
  int64_t vector = getVector(variant.element);
  if (variant.transposed) {
    // Number of accesses that a warp has in flight. Another loop computes the rest.
    const int64_t batch = kWarp * kLoads / getRowsOfWarp(variant.m);
    auto rest = [&] { return 1 + below(static_cast<uint64_t>(batch - 1)); };
    const int64_t lengths[] = {1, rest(), rest(), batch, batch + rest(), 3 * batch + rest()};
    made.k = vector * lengths[below(std::size(lengths))];
    made.n = 1 + below(40);
  } else {
    const int64_t lengths[] = {1,
                               1 + below(kRowsAtOnce),
                               kRowsAtOnce,
                               kRowsAtOnce + 1 + below(kRowsAtOnce),
                               3 * kRowsAtOnce,
                               5 * kRowsAtOnce - 1,
                               (9 + below(7)) * kRowsAtOnce -
                                   1}; // more splits than are added at once
    made.k = kRowsOfChunk * lengths[below(std::size(lengths))];
    made.n = vector * (1 + below(2 * kThreadsOfRow + 3));
    made.multiprocessors = 1 + below(12);
  }
  made.bias = below(2);
  made.residual = below(2);
  made.aliased = made.residual && below(2);
  made.wide = variant.element != TPC_F32 && below(2);
  made.shift = below(3);
  made.wPadding = below(2) * below(3) * vector;
  made.outPadding = below(2) * below(5);
  if (variant.fused)
    drawFusion(made, below);
  made.seed = made.order = seed;
  return made;
}

std::vector<Case> gemv::getSplitCases(const Variant &variant) {
  std::vector<Case> cases;
  for (int64_t splits = 2; splits <= 16 && !variant.transposed; ++splits) {
    Case made;
    made.variant = variant;
    made.k = splits * kRowsAtOnce * kRowsOfChunk;
    made.n = getVector(variant.element);
    made.wide = variant.element != TPC_F32;
    made.seed = made.order = static_cast<uint64_t>(splits);
    cases.push_back(made);
  }
  return cases;
}

std::vector<Case> gemv::getActivationCases(const Variant &variant) {
  std::vector<Case> cases;
  for (int32_t activation :
       {TPC_EPILOGUE_SILU, TPC_EPILOGUE_RELU, TPC_EPILOGUE_GELU_ERF, TPC_EPILOGUE_GELU_TANH})
    for (auto [splits, largest] : {std::pair(1, 1), {1, 6}, {1, 30}, {2, 1}, {2, 6}, {2, 30}}) {
      if (!variant.fused)
        break;
      Case made;
      made.variant = variant;
      made.k = splits * kRowsAtOnce * kRowsOfChunk;
      made.n = getColumns(variant.element);
      made.wide = variant.element != TPC_F32;
      made.bias = true;
      made.largestBias = largest;
      made.largestWeight = 0x1p-12; // small rounding errors of sums
      made.activation = activation;
      made.seed = made.order = cases.size();
      cases.push_back(made);
    }
  return cases;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

namespace {
constexpr float epsilon = 1e-5f;

struct Bounded {
  double number, bound;
};

double activate(int32_t kind, double x) {
  switch (kind) {
  case TPC_EPILOGUE_SILU:
    return x / (1 + std::exp(-x));
  case TPC_EPILOGUE_GELU_ERF:
    return x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
  case TPC_EPILOGUE_GELU_TANH:
    return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
  default:
    return std::max(x, 0.0);
  }
}

/// Returns the left operand of the matmul: x, or its norm, which is rounded to the element type.
/// Numbers next to a rounding boundary may be rounded to either side.
std::vector<Bounded> normalize(const Case &made, const Operand &x, const Operand &scale,
                               const Operand &shift) {
  std::vector<Bounded> left;
  auto k = static_cast<size_t>(made.k);
  for (size_t begin = 0; begin < x.values.size(); begin += k) {
    const double *row = &x.values[begin];
    double mean = 0, squares = 0;
    for (size_t j = 0; j < k && made.norm == TPC_NORM_LAYER; ++j)
      mean += row[j] / static_cast<double>(k);
    for (size_t j = 0; j < k; ++j)
      squares += (row[j] - mean) * (row[j] - mean);
    double root = std::sqrt(squares / static_cast<double>(k) + static_cast<double>(epsilon));
    for (size_t j = 0; j < k; ++j) {
      if (!made.norm) {
        left.push_back({row[j], 0});
        continue;
      }
      double moved = made.hasShift ? shift.values[j] : 0;
      double exact = (row[j] - mean) / root * scale.values[j] + moved;
      double error =
          0x1p-20 * ((std::abs(row[j]) + std::abs(mean)) / root * std::abs(scale.values[j]) +
                     std::abs(moved));
      int32_t type = made.variant.element;
      double low = widen(type, round(type, exact - error)),
             high = widen(type, round(type, exact + error));
      left.push_back({(low + high) / 2, (high - low) / 2});
    }
  }
  return left;
}
} // namespace

Outcome gemv::run(const ptx::Module &module, const Case &made) {
  const Variant &variant = made.variant;
  const int64_t m = variant.m, k = made.k, n = made.n;
  const int64_t columns = made.gated ? n / 2 : n; // of the result
  auto count = static_cast<size_t>(m * columns);
  const int32_t out = made.wide ? TPC_F32 : variant.element;
  const auto bytes = static_cast<uint64_t>(getBytes(out));
  const int32_t scaleType = made.wideScale ? TPC_F32 : variant.element;
  const int32_t xType = made.wideX ? TPC_F32 : variant.element;
  Operand scale(scaleType, static_cast<size_t>(k), made.seed + 3),
      moved(scaleType, static_cast<size_t>(k), made.seed + 4);
  Operand x(xType, 0, 0),
      w(variant.element, static_cast<size_t>(k * n), made.seed + 1, made.largestWeight);
  Operand bias(out, static_cast<size_t>(n), made.seed + 2, made.largestBias), residual(out, 0, 0);
  for (int64_t row = 0; row < m; ++row) {
    auto seed = made.seed + 100 * static_cast<uint64_t>(row + 1);
    x.append(Operand(xType, static_cast<size_t>(k), seed));
    residual.append(Operand(out, static_cast<size_t>(n), seed + 1));
  }

  ptx::Memory memory(made.order);
  const uint64_t shift = static_cast<uint64_t>(made.shift) * bytes;
  auto allocate = [&](uint64_t size, const char *name, bool isAligned) {
    return memory.allocate(size + (isAligned ? 0 : shift), name, made.alignment) +
           (isAligned ? 0 : shift);
  };
  // Memory between rows stays uninitialized.
  auto copyRows = [&](uint64_t to, const Operand &operand, int64_t rows, int64_t padding) {
    uint64_t row = operand.bytes.size() / static_cast<uint64_t>(rows);
    uint64_t stride = row + static_cast<uint64_t>(padding * getBytes(operand.dtype));
    for (int64_t i = 0; i < rows; ++i)
      memory.copyIn(to + static_cast<uint64_t>(i) * stride,
                    &operand.bytes[static_cast<uint64_t>(i) * row], row);
  };
  auto upload = [&](const Operand &operand, const char *name, bool isAligned, int64_t rows = 1,
                    int64_t padding = 0) {
    auto between = static_cast<uint64_t>((rows - 1) * padding * getBytes(operand.dtype));
    uint64_t at = allocate(operand.bytes.size() + between, name, isAligned);
    copyRows(at, operand, rows, padding);
    memory.setReadOnly(at - (isAligned ? 0 : shift));
    return at;
  };
  const Grid grid = getGrid(variant, k, n, made.multiprocessors);
  auto partialBytes = static_cast<uint64_t>(getPartialBytes(variant, grid));
  const uint64_t outRow = static_cast<uint64_t>(columns + made.outPadding) * bytes;
  const uint64_t rowBytes = static_cast<uint64_t>(columns) * bytes;
  const uint64_t outBytes = static_cast<uint64_t>(m - 1) * outRow + rowBytes;
  uint64_t result = allocate(outBytes, "out", false), residualAt = 0;
  if (made.aliased) {
    copyRows(result, residual, m, made.outPadding);
    residualAt = result;
  } else if (made.residual) {
    residualAt = upload(residual, "residual", false, m, made.outPadding);
  }
  uint64_t counters = memory.allocate(static_cast<uint64_t>(grid.ranges) * 4, "counters",
                                      kAccessBytes, ptx::Fill::Zero);
  auto pointer = ptx::Argument::pointer;
  const uint64_t weights = upload(w, "w", true, variant.transposed ? n : k, made.wPadding);
  auto integer = [](int64_t value) { return ptx::Argument::of(static_cast<uint32_t>(value)); };
  std::vector<ptx::Argument> arguments{
      pointer(weights),
      pointer(upload(x, "x", true)),
      pointer(result),
      pointer(made.bias ? upload(bias, "bias", false) : 0),
      pointer(residualAt),
      pointer(partialBytes ? memory.allocate(partialBytes, "partials", kAccessBytes) : 0),
      pointer(counters)};
  if (variant.fused) {
    arguments.push_back(pointer(made.norm ? upload(scale, "scale", true) : 0));
    arguments.push_back(pointer(made.hasShift ? upload(moved, "shift", true) : 0));
  }
  for (int64_t value : {k, n, grid.chunks, int64_t(made.wide),
                        (variant.transposed ? k : n) + made.wPadding, columns + made.outPadding})
    arguments.push_back(integer(value));
  if (variant.fused)
    for (int64_t value :
         {int64_t(made.norm), int64_t(made.wideX), int64_t(made.wideScale),
          int64_t(std::bit_cast<uint32_t>(epsilon)), int64_t(made.activation), int64_t(made.gated)})
      arguments.push_back(integer(value));
  Outcome outcome;
  ptx::Result launched = ptx::launch(
      module, getName(variant), arguments, memory,
      {.grid = {static_cast<uint32_t>(grid.blocks)},
       .block = {static_cast<uint32_t>(kThreads)},
       .sharedBytes = static_cast<uint32_t>(variant.fused ? getStagedBytes(variant, grid, k) : 0),
       .seed = made.order,
       .maxInstructions = 4000000,
       .dependent = module.target() == "sm_90"});
  outcome.counters = launched.counters;
  if (!launched.clean()) {
    outcome.problem = launched.str();
    return outcome;
  }
  for (const ptx::EarlyAccess &one : launched.early) {
    const ptx::Allocation *in = memory.find(one.from);
    if (one.written || !in || weights < in->base || weights >= in->end())
      outcome.problem = memory.describe(one.from) + " is accessed before griddepcontrol.wait";
  }
  std::vector<uint32_t> counts(static_cast<size_t>(grid.ranges));
  memory.copyOut(counts.data(), counters, counts.size() * 4);
  if (std::any_of(counts.begin(), counts.end(), [](uint32_t one) { return one != 0; }))
    outcome.problem = "a counter is not reset";
  std::vector<uint8_t> raw(count * bytes);
  uint64_t unwritten = 0;
  for (uint64_t row = 0; row < static_cast<uint64_t>(m); ++row) {
    unwritten += memory.countUnwritten(result + row * outRow, rowBytes);
    memory.copyOut(&raw[row * rowBytes], result + row * outRow, rowBytes);
  }
  if (unwritten)
    outcome.problem = std::to_string(unwritten) + " bytes of the result are not written";
  if (memory.countUnwritten(result, outBytes) != outBytes - count * bytes)
    outcome.problem = "memory between rows of the result is written";

  const std::vector<Bounded> left = normalize(made, x, scale, moved);
  auto sumOf = [&](int64_t row, int64_t column) {
    double sum = 0, magnitude = 0, bound = 0;
    auto add = [&](double term) {
      sum += term;
      magnitude += std::abs(term);
    };
    for (int64_t j = 0; j < k; ++j) {
      const Bounded &value = left[static_cast<size_t>(row * k + j)];
      double weight =
          w.values[static_cast<size_t>(variant.transposed ? column * k + j : j * n + column)];
      add(value.number * weight);
      bound += value.bound * std::abs(weight);
    }
    if (made.residual)
      add(residual.values[static_cast<size_t>(row * n + column)]);
    if (made.bias)
      add(bias.values[static_cast<size_t>(column)]);
    // The depth of the tree of sums is far below k.
    return Bounded{sum,
                   bound + magnitude * 0x1p-24 * std::min<double>(static_cast<double>(k) + 2, 64)};
  };
  auto expected = [&](int64_t row, int64_t column) {
    Bounded first = sumOf(row, column);
    if (!made.activation)
      return first;
    // Slopes of activations are at most 1.13.
    double value = activate(made.activation, first.number);
    Bounded result{value, 1.2 * first.bound + 0x1p-20 * (std::abs(value) + std::abs(first.number))};
    if (!made.gated)
      return result;
    Bounded gate = sumOf(row, column + columns);
    return Bounded{value * gate.number,
                   std::abs(gate.number) * result.bound + std::abs(value) * gate.bound +
                       result.bound * gate.bound + 0x1p-22 * std::abs(value * gate.number)};
  };
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &raw[i * bytes], bytes);
    outcome.bits.push_back(bits);
    auto row = static_cast<int64_t>(i) / columns, column = static_cast<int64_t>(i) % columns;
    auto [sum, bound] = expected(row, column);
    double low = widen(out, round(out, sum - bound)), high = widen(out, round(out, sum + bound));
    double found = widen(out, bits);
    if (!(found >= low && found <= high) && outcome.problem.empty())
      outcome.problem = "element " + std::to_string(i) + " is " + std::to_string(found) + ", not " +
                        std::to_string(sum) + " +- " + std::to_string(bound);
  }
  return outcome;
}
