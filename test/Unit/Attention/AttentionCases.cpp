//===- AttentionCases.cpp - Attention cases for CPU and PTX ---------------===//

#include "AttentionCases.h"

#include "core/World.h"
#include "tpc/runtime.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace attention;

namespace {

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

size_t bytesOf(int32_t dtype) { return dtype == TPC_F32 ? 4 : 2; }

/// Rounds to nearest, ties to even. No number of the tests is large enough to overflow.
uint16_t toBfloat(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void pack(int32_t dtype, float x, uint8_t *to) {
  if (dtype == TPC_F32) {
    std::memcpy(to, &x, 4);
  } else if (dtype == TPC_F16) {
    auto half = _Float16(x);
    std::memcpy(to, &half, 2);
  } else {
    uint16_t half = toBfloat(x);
    std::memcpy(to, &half, 2);
  }
}

float unpack(int32_t dtype, const uint8_t *from) {
  if (dtype == TPC_F32) {
    float x;
    std::memcpy(&x, from, 4);
    return x;
  }
  if (dtype == TPC_F16) {
    _Float16 half;
    std::memcpy(&half, from, 2);
    return float(half);
  }
  uint16_t half;
  std::memcpy(&half, from, 2);
  return std::bit_cast<float>(uint32_t(half) << 16);
}

float rounded(int32_t dtype, float x) {
  uint8_t bytes[4];
  pack(dtype, x, bytes);
  return unpack(dtype, bytes);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// A case's operands on the host, in f32, with values that the element type represents.
struct Host {
  std::vector<float> q, k, v, out, bias, slopes, sinks;
  std::vector<uint8_t> mask, keyMask;
  std::vector<int64_t> lengths;
  tpc_attention_args args = {};

  /// Returns the offset of a key or a value of a kv head, in elements.
  int64_t keyAt(int64_t batch, int64_t kvHead, int64_t key) const {
    const tpc_attention_args &a = args;
    return a.lengths ? batch * a.k_batch_stride + kvHead * a.k_head_stride + key * a.k_row_stride
                     : (batch * a.seq_k + key) * a.k_row_stride + kvHead * a.head_size;
  }
  int64_t valueAt(int64_t batch, int64_t kvHead, int64_t key) const {
    const tpc_attention_args &a = args;
    return a.lengths ? batch * a.v_batch_stride + kvHead * a.v_head_stride + key * a.v_row_stride
                     : (batch * a.seq_k + key) * a.v_row_stride + kvHead * a.value_size;
  }
  /// Returns the number of keys that are written to a cache. Queries attend only to these.
  int64_t writtenKeys(int64_t batch) const {
    return std::min(args.seq_k, lengths[size_t(batch)] + args.seq_q);
  }
};

Host draw(const Variant &variant, const Case &made) {
  std::mt19937_64 random(made.seed * 7919 + 17);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform;
  Host host;
  auto numbers = [&](size_t count, int32_t dtype) {
    std::vector<float> list(count);
    for (float &x : list)
      x = rounded(dtype, normal(random));
    return list;
  };
  tpc_attention_args &a = host.args;
  a.batch = made.batch;
  a.seq_q = made.queries;
  a.seq_k = made.keys;
  a.heads_kv = made.kvHeads;
  a.heads_q = made.kvHeads * made.group;
  a.head_size = variant.headSize;
  a.value_size = variant.valueSize;
  a.q_row_stride = a.heads_q * a.head_size + made.padding;
  a.k_row_stride = a.heads_kv * a.head_size + made.padding;
  a.v_row_stride = a.heads_kv * a.value_size + made.padding;
  a.out_row_stride = a.heads_q * a.value_size;
  a.scale = (made.seed % 5 == 4 ? -1 : 1) / std::sqrt(float(a.head_size));
  if (variant.cached) {
    a.k_row_stride = a.head_size + made.padding, a.v_row_stride = a.value_size + made.padding;
    a.k_head_stride = a.seq_k * a.k_row_stride, a.v_head_stride = a.seq_k * a.v_row_stride;
    a.k_batch_stride = a.heads_kv * a.k_head_stride,
    a.v_batch_stride = a.heads_kv * a.v_head_stride;
    // Lengths are those before the step, so queries may be beyond the end of the cache.
    for (int64_t b = 0; b < a.batch; ++b)
      host.lengths.push_back(int64_t(random() % uint64_t(a.seq_k + 1)));
    a.lengths = host.lengths.data();
  }
  host.q = numbers(size_t(a.batch * a.seq_q * a.q_row_stride), variant.element);
  int64_t rows = a.batch * a.seq_k * (variant.cached ? a.heads_kv : 1);
  host.k = numbers(size_t(rows * a.k_row_stride), variant.element);
  host.v = numbers(size_t(rows * a.v_row_stride), variant.element);
  host.out.assign(size_t(a.batch * a.seq_q * a.out_row_stride), NAN);
  a.q = host.q.data(), a.k = host.k.data(), a.v = host.v.data(), a.out = host.out.data();
  a.masked_row = variant.uniformRows;
  if (variant.softcap)
    a.softcap = 3;
  a.causal = variant.causal;
  a.windowed = variant.windowed;
  a.causal_offset = made.offset;
  a.window_offset = made.offset - made.window;
  int64_t matrices = made.broadcast ? 1 : a.batch * a.heads_q, matrix = a.seq_q * a.seq_k;
  int64_t headStride = made.broadcast ? 0 : matrix, batchStride = headStride * a.heads_q;
  if (variant.bias >= 0) {
    host.bias = numbers(size_t(matrices * matrix), variant.bias);
    a.bias = host.bias.data();
    a.bias_head_stride = headStride, a.bias_batch_stride = batchStride;
  }
  if (variant.mask) {
    for (int64_t row = 0; row < matrices * a.seq_q; ++row) {
      bool hidden = uniform(random) < made.hiddenRows;
      for (int64_t j = 0; j < a.seq_k; ++j)
        host.mask.push_back(!hidden && uniform(random) < made.visible);
    }
    a.mask = host.mask.data();
    a.mask_head_stride = headStride, a.mask_batch_stride = batchStride;
  }
  if (variant.keyMask) {
    for (int64_t j = 0; j < a.batch * a.seq_k; ++j)
      host.keyMask.push_back(uniform(random) < made.visible);
    a.key_mask = host.keyMask.data();
  }
  if (variant.slopes >= 0) {
    for (int64_t h = 0; h < a.heads_q; ++h)
      host.slopes.push_back(
          rounded(variant.slopes, std::exp2(-8.0f * float(h + 1) / float(a.heads_q))));
    a.slopes = host.slopes.data();
    a.slopes_offset = made.offset;
  }
  if (variant.sinks >= 0) {
    host.sinks = numbers(size_t(a.heads_q), variant.sinks);
    a.sinks = host.sinks.data();
  }
  return host;
}

/// Removes all sequences but one. Requires a mask and a bias that all sequences share.
void keepSequence(Host &host, int64_t sequence) {
  tpc_attention_args &a = host.args;
  auto keep = [&](auto &list) {
    int64_t each = std::ssize(list) / a.batch;
    list = std::decay_t<decltype(list)>(list.begin() + sequence * each,
                                        list.begin() + (sequence + 1) * each);
  };
  keep(host.q), keep(host.k), keep(host.v), keep(host.out), keep(host.keyMask), keep(host.lengths);
  a.q = host.q.data(), a.k = host.k.data(), a.v = host.v.data(), a.out = host.out.data();
  a.key_mask = host.keyMask.empty() ? nullptr : host.keyMask.data();
  a.lengths = host.lengths.empty() ? nullptr : host.lengths.data();
  a.batch = 1;
}

//===----------------------------------------------------------------------===//
// Expected results
//===----------------------------------------------------------------------===//

/// Computes attention in f64 on the host. `spread` receives the maximum of sum(p |v|) over all
/// elements, where p are the weights, or 2.5 sqrt(sum((p v)^2)) if that is less: the error of an
/// element if each weight has a relative error of up to 1, with random signs.
std::vector<double> computeExact(const Host &host, double *spread = nullptr) {
  const tpc_attention_args &a = host.args;
  std::vector<double> out(size_t(a.batch * a.seq_q * a.out_row_stride));
  std::vector<double> score(size_t(a.seq_k));
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t i = 0; i < a.seq_q; ++i)
      for (int64_t h = 0; h < a.heads_q; ++h) {
        int64_t kv = h / (a.heads_q / a.heads_kv), position = i + (a.lengths ? a.lengths[b] : 0);
        double maximum = -INFINITY, total = 0;
        for (int64_t j = 0; j < a.seq_k; ++j) {
          double s = 0;
          for (int64_t d = 0; d < a.head_size; ++d)
            s += double(a.q[(b * a.seq_q + i) * a.q_row_stride + h * a.head_size + d]) *
                 a.k[host.keyAt(b, kv, j) + d];
          s *= a.scale;
          if (a.softcap != 0)
            s = a.softcap * std::tanh(s / a.softcap);
          int64_t at = i * a.seq_k + j;
          if (a.bias)
            s += a.bias[b * a.bias_batch_stride + h * a.bias_head_stride + at];
          if (a.slopes)
            s += double(a.slopes[h]) * double(j - position - a.slopes_offset);
          bool visible = !(a.causal && j > position + a.causal_offset) &&
                         !(a.windowed && j <= position + a.window_offset) &&
                         (!a.key_mask || a.key_mask[b * a.seq_k + j]) &&
                         (!a.mask || a.mask[b * a.mask_batch_stride + h * a.mask_head_stride + at]);
          score[size_t(j)] = visible ? s : -INFINITY;
          maximum = std::fmax(maximum, score[size_t(j)]);
        }
        if (a.sinks && a.sinks[h] != -INFINITY) {
          maximum = std::fmax(maximum, a.sinks[h]);
          total = std::exp(a.sinks[h] - maximum);
        }
        for (double &s : score) {
          s = maximum > -INFINITY ? std::exp(s - maximum) : a.masked_row;
          total += s;
        }
        for (int64_t d = 0; d < a.value_size; ++d) {
          double sum = 0, magnitude = 0, squares = 0;
          for (int64_t j = 0; j < a.seq_k; ++j) {
            double term = score[size_t(j)] * a.v[host.valueAt(b, kv, j) + d];
            sum += term;
            magnitude += std::abs(term);
            squares += term * term;
          }
          if (spread && total != 0)
            *spread = std::max(*spread, std::min(magnitude, 2.5 * std::sqrt(squares)) / total);
          out[size_t((b * a.seq_q + i) * a.out_row_stride + h * a.value_size + d)] =
              total != 0 ? sum / total : 0;
        }
      }
  return out;
}

void runOnCpu(const tpc_attention_args &args) {
  auto world = tpc::rt::World::threads(tpc::rt::Grid({{"tp", 1}}), 1);
  tpc_attention(&world->local(0), &args);
}

/// Returns a description of the first error, or nothing.
std::string compare(const Variant &variant, Host &host, const std::vector<float> &got, Way way) {
  double off = 0, bound = 0, largest = 0;
  size_t where = 0;
  auto consider = [&](size_t i, double expected) {
    double error = std::abs(double(got[i]) - expected);
    largest = std::max(largest, std::abs(expected));
    if (!std::isnan(off) && !(error <= off)) { // the first NaN, or the largest error
      off = error;
      where = i;
    }
  };
  if (variant.element == TPC_F32 && !variant.cached) {
    runOnCpu(host.args);
    for (size_t i = 0; i < got.size(); ++i)
      consider(i, host.out[i]);
    bound = 1e-5 * largest;
  } else {
    double spread = 0;
    std::vector<double> exact = computeExact(host, &spread);
    for (size_t i = 0; i < got.size(); ++i) {
      consider(i, exact[i]);
      bound = std::max(bound, 1.5 * std::abs(rounded(variant.element, float(exact[i])) - exact[i]));
    }
    // Tensor cores multiply weights that are rounded to the element type.
    if (way == Way::Tiles)
      bound += spread * (variant.element == TPC_BF16 ? 0x1p-9 : 0x1p-12);
    if (variant.element == TPC_F32)
      bound = 1e-5 * largest;
  }
  if (off <= bound)
    return {};
  return "element " + std::to_string(where) + " is " + std::to_string(got[where]) + ", off by " +
         std::to_string(off) + " where " + std::to_string(bound) + " is allowed";
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

class Device {
public:
  Device(const Variant &variant, const Case &made)
      : memory(made.seed), variant(variant), made(made) {}

  template <class T> T *give(const std::vector<T> &list, const char *name) {
    if (list.empty())
      return nullptr;
    uint64_t address = memory.allocate(list.size() * sizeof(T), name);
    memory.copyIn(address, list.data(), list.size() * sizeof(T));
    memory.setReadOnly(address);
    return reinterpret_cast<T *>(address);
  }
  /// Allocates operands of a type, `shift` elements off their alignment.
  float *give(const std::vector<float> &list, int32_t dtype, const char *name, int64_t shift = 0) {
    if (list.empty())
      return nullptr;
    std::vector<uint8_t> bytes((list.size() + size_t(shift)) * bytesOf(dtype));
    for (size_t i = 0; i < list.size(); ++i)
      pack(dtype, list[i], &bytes[(i + size_t(shift)) * bytesOf(dtype)]);
    auto address = reinterpret_cast<uint64_t>(give(bytes, name));
    return reinterpret_cast<float *>(address + uint64_t(shift) * bytesOf(dtype));
  }

  /// Allocates a cache; elements after a sequence's keys remain unwritten.
  float *giveCache(const Host &host, const std::vector<float> &list, bool isValue) {
    const tpc_attention_args &a = host.args;
    if (list.empty())
      return nullptr;
    int64_t size = isValue ? a.value_size : a.head_size;
    uint64_t bytes = bytesOf(variant.element), shift = uint64_t(made.shift) * bytes;
    uint64_t begin = memory.allocate(list.size() * bytes + shift, isValue ? "v" : "k") + shift;
    std::vector<uint8_t> row(size_t(size) * bytes);
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < a.heads_kv; ++h)
        for (int64_t j = 0; j < host.writtenKeys(b); ++j) {
          int64_t from = isValue ? host.valueAt(b, h, j) : host.keyAt(b, h, j);
          for (int64_t d = 0; d < size; ++d)
            pack(variant.element, list[size_t(from + d)], &row[size_t(d) * bytes]);
          memory.copyIn(begin + uint64_t(from) * bytes, row.data(), row.size());
        }
    memory.setReadOnly(begin - shift);
    return reinterpret_cast<float *>(begin);
  }

  ptx::Memory memory;
  const Variant &variant;
  const Case &made;
};

} // namespace

std::string Case::str() const {
  return "batch " + std::to_string(batch) + ", queries " + std::to_string(queries) + ", keys " +
         std::to_string(keys) + ", kv heads " + std::to_string(kvHeads) + " x " +
         std::to_string(group) + ", offset " + std::to_string(offset) + ", window " +
         std::to_string(window) + ", padding " + std::to_string(padding) + ", shift " +
         std::to_string(shift) + ", seed " + std::to_string(seed);
}

Case attention::drawCase(const Variant &variant, uint64_t seed) {
  constexpr int64_t lengths[] = {1, 64, 7, 130, 0, 65, 33, 128};
  constexpr int64_t paddings[] = {0, 0, 16, 0, 3};
  Case made;
  made.seed = seed;
  auto n = int64_t(seed);
  made.queries = lengths[n % 8];
  made.keys = n % 11 == 5 ? 300 : lengths[(n / 2 + 3) % 8];
  // Long cases have one sequence and one kv head, so that all are fast.
  bool isLong = made.queries * made.keys * variant.headSize > 64 * 64 * 64;
  made.batch = 1 + !isLong * (n % 2);
  made.kvHeads = 1 + !isLong * (n % 3 % 2);
  made.group = n % 4 == 3 && made.queries < 100 ? 3 : 1;
  made.offset = variant.cached ? 0 : n % 3 == 0 ? made.keys - made.queries : n % 3 == 1 ? 0 : -3;
  made.window = 1 + n * 7 % 90;
  made.padding = paddings[n % 5];
  made.shift = n % 7 == 6;
  made.broadcast = n % 2;
  made.hiddenRows = 0.1;
  made.visible = n % 9 == 8 ? 0 : 0.7;
  return made;
}

Outcome attention::run(const ptx::Module &module, const Kernels &kernels, const Case &made,
                       Way way) {
  const Variant &variant = kernels.variant;
  Outcome outcome;
  Host host = draw(variant, made);
  if (made.sequence >= 0)
    keepSequence(host, made.sequence);
  Device device(variant, made);
  tpc_attention_args args = host.args;
  args.q = device.give(host.q, variant.element, "q", made.shift);
  if (variant.cached) {
    args.k = device.giveCache(host, host.k, /*isValue=*/false);
    args.v = device.giveCache(host, host.v, /*isValue=*/true);
    args.lengths = device.give(host.lengths, "lengths");
  } else {
    args.k = device.give(host.k, variant.element, "k", made.shift);
    args.v = device.give(host.v, variant.element, "v", made.shift);
  }
  args.bias = device.give(host.bias, variant.bias, "bias");
  args.slopes = device.give(host.slopes, variant.slopes, "slopes");
  args.sinks = device.give(host.sinks, variant.sinks, "sinks");
  args.mask = device.give(host.mask, "mask");
  args.key_mask = device.give(host.keyMask, "key_mask");
  size_t bytes = host.out.size() * bytesOf(variant.element);
  uint64_t shift = uint64_t(made.shift) * bytesOf(variant.element);
  uint64_t out = device.memory.allocate(std::max<size_t>(bytes + shift, 1), "out") + shift;
  args.out = reinterpret_cast<float *>(out);
  uint64_t onDevice = device.memory.allocate(sizeof(args), "args");
  device.memory.copyIn(onDevice, &args, sizeof(args));
  device.memory.setReadOnly(onDevice);
  uint64_t workspace = 0, counters = 0;
  const std::vector<uint8_t> zeros(
      size_t(std::max<int64_t>(tpc::attention::getCounterBytes(args), 4)));
  if (way == Way::Split) {
    workspace = device.memory.allocate(
        uint64_t(std::max<int64_t>(tpc::attention::getWorkspaceBytes(args), 1)), "workspace");
    counters = device.memory.allocate(zeros.size(), "counters");
    device.memory.copyIn(counters, zeros.data(), zeros.size());
  }

  auto launch = [&](Kernel kernel, const Entry &entry) {
    ptx::LaunchConfig config;
    // Fewer blocks than work items, equally many, and more.
    int64_t blocks = made.blocks;
    if (!blocks)
      blocks = tpc::attention::getItems(kernel, args) + int64_t(made.seed % 3) - 1;
    config.grid.x = uint32_t(std::max<int64_t>(blocks, 1));
    config.block.x = entry.threads;
    config.sharedBytes = entry.dynamicShared;
    config.seed = made.seed;
    std::vector<ptx::Argument> arguments{ptx::Argument::pointer(onDevice)};
    if (kernel == Kernel::Split) {
      arguments.push_back(ptx::Argument::pointer(workspace));
      arguments.push_back(ptx::Argument::pointer(counters));
    }
    ptx::Result result = ptx::launch(module, entry.name, arguments, device.memory, config);
    outcome.counters += result.counters;
    if (!result.clean() && outcome.problem.empty())
      outcome.problem = "findings:\n" + result.str();
  };
  if (way == Way::Tiles) {
    launch(Kernel::Tiles, kernels.tiles);
  } else {
    launch(Kernel::Split, kernels.split);
  }
  if (!outcome.problem.empty())
    return outcome;
  if (way == Way::Split) {
    std::vector<uint8_t> left(zeros.size());
    device.memory.copyOut(left.data(), counters, left.size());
    if (left != zeros)
      outcome.problem = "counters are not zero after the launch";
  }
  if (uint64_t missing = bytes ? device.memory.countUnwritten(out, bytes) : 0) {
    outcome.problem = std::to_string(missing) + " bytes of the result are not written";
    return outcome;
  }
  std::vector<uint8_t> raw(bytes);
  if (bytes)
    device.memory.copyOut(raw.data(), out, bytes);
  std::vector<float> got(host.out.size());
  for (size_t i = 0; i < got.size(); ++i)
    got[i] = unpack(variant.element, &raw[i * bytesOf(variant.element)]);
  outcome.problem = compare(variant, host, got, way);
  outcome.bits = std::move(raw);
  return outcome;
}

SlopeErrors attention::measureSlopes(int64_t keys) {
  // The last queries of a sequence, with ALiBi's steepest and flattest slopes.
  Variant variant{.slopes = TPC_F32, .headSize = 64, .valueSize = 64, .causal = true};
  Case made{.queries = 16, .keys = keys, .kvHeads = 8, .offset = keys - 16, .seed = 3};
  Host host = draw(variant, made);
  std::vector<double> exact = computeExact(host);
  runOnCpu(host.args);
  std::vector<float> slopes = host.out;
  tpc_attention_args args = host.args;
  for (int64_t h = 0; h < args.heads_q; ++h)
    for (int64_t i = 0; i < args.seq_q; ++i)
      for (int64_t j = 0; j < args.seq_k; ++j)
        host.bias.push_back(host.slopes[size_t(h)] * float(j));
  args.slopes = nullptr;
  args.bias = host.bias.data();
  args.bias_head_stride = args.seq_q * args.seq_k;
  runOnCpu(args);
  SlopeErrors errors{};
  double largest = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    errors.slopes = std::max(errors.slopes, std::abs(slopes[i] - exact[i]));
    errors.bias = std::max(errors.bias, std::abs(host.out[i] - exact[i]));
    errors.difference = std::max(errors.difference, std::abs(double(host.out[i]) - slopes[i]));
  }
  return {errors.slopes / largest, errors.bias / largest, errors.difference / largest};
}
