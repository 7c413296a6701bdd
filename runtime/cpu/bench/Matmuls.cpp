//===- Matmuls.cpp - Benchmark of matmuls, compared with oneDNN ----------===//
//
//   tpc-products-bench [THREADS]
//
// Measures f32 matmuls of GPT-2's shapes: tpc's, and, if libdnnl.so.3 is found, those of
// --products=onednn. Both alternate, so that other load on the machine affects both. Then measures
// how fast matmuls of one row read weights: f32, f16 and bf16, packed and as a transposed table,
// and 8 and 4 bits in blocks of 32.
//
//===----------------------------------------------------------------------===//

#include "core/World.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

using namespace tpc::rt;

namespace {

double secondsOf(const std::function<void()> &work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A rank with its device, and one matmul.
struct Rank {
  Rank(const DeviceKind &kind, int threads) {
    selectDevices(kind);
    world = World::threads(Grid({{"tp", 1}}), threads);
    ctx = &world->local(0);
  }
  void load(const std::vector<float> &w, int64_t k, int64_t n) {
    std::shared_ptr<Matrix> matrix = ctx->device->makeMatrix(k, n);
    ctx->device->setRows(*matrix, 0, k, w.data());
    ctx->data.matrices = {matrix};
  }
  double seconds(const std::vector<float> &x, std::vector<float> &out, int64_t m, int64_t k,
                 int64_t n) const {
    tpc_product product = {n,       n,      nullptr, nullptr, out.data(), 0, TPC_EPILOGUE_NONE,
                           TPC_F32, TPC_F32};
    return secondsOf([&] { tpc_products(ctx, x.data(), m, k, &product, 1); });
  }
  std::unique_ptr<World> world;
  tpc_context *ctx;
};

/// Returns the bytes of weights per second that matmuls of one row read, from [k, n] matrices of
/// 400 MB in total.
double readingRate(int threads, int32_t dtype, bool isTable, int64_t k, int64_t n) {
  selectDevices(cpuDevices());
  std::unique_ptr<World> world = World::threads(Grid({{"tp", 1}}), threads);
  tpc_context *ctx = &world->local(0);
  int64_t bytes = k * n * (dtype == TPC_F32 ? 4 : 2), count = 400000000 / bytes + 1;
  std::vector<std::byte> weights(static_cast<size_t>(bytes * (isTable ? count : 1)));
  for (int64_t i = 0; i < count; ++i)
    if (isTable) {
      ctx->data.matrices.push_back(
          ctx->device->transposeOf(weights.data() + i * bytes, k, n, dtype));
    } else {
      ctx->data.matrices.push_back(ctx->device->makeMatrix(k, n, dtype));
      ctx->device->setRows(*ctx->data.matrices.back(), 0, k, weights.data());
    }
  std::vector<float> x(static_cast<size_t>(k), 0.5f), out(static_cast<size_t>(n));
  double best = 1e9;
  for (int round = 0; round < 7; ++round)
    best = std::min(best, secondsOf([&] {
                      for (int32_t i = 0; i < count; ++i) {
                        tpc_product product = {n,          n, nullptr,           nullptr,
                                               out.data(), i, TPC_EPILOGUE_NONE, TPC_F32,
                                               TPC_F32};
                        tpc_products(ctx, x.data(), 1, k, &product, 1);
                      }
                    }));
  return static_cast<double>(bytes * count) / best;
}

/// Matmuls of one row by many quantized matrices [k, n].
class QuantizedRow {
public:
  QuantizedRow(tpc_context *ctx, int32_t bits, int64_t k, int64_t n, int64_t weights)
      : ctx(ctx), count(weights / (k * n) + 1), numbers(count * k * n * bits / 8, 0x37),
        scales(count * k * n / 32, 0.1f), x(k, 0.5f), out(n) {
    args.x = x.data();
    args.out = out.data();
    args.m = 1;
    args.k = k;
    args.n = n;
    args.bits = bits;
    args.zero_point = 1 << (bits - 1);
    args.row_bytes = k * bits / 8;
    args.block = 32;
    args.scale_column_stride = k / 32;
    args.scale_block_stride = 1;
  }
  /// Returns the seconds per weight.
  double measure() {
    double seconds = secondsOf([&] {
      for (int64_t i = 0; i < count; ++i) {
        args.packed = numbers.data() + i * args.n * args.row_bytes;
        args.scale = scales.data() + i * args.n * args.scale_column_stride;
        tpc_quantized_product(ctx, &args);
      }
    });
    return seconds / static_cast<double>(count * args.k * args.n);
  }

private:
  tpc_context *ctx;
  int64_t count;
  std::vector<uint8_t> numbers;
  std::vector<float> scales, x, out;
  tpc_quantized_args args = {};
};

/// Matmuls of one row by many float matrices [k, n].
class FloatRow {
public:
  FloatRow(tpc_context *ctx, int32_t dtype, int64_t k, int64_t n, int64_t weights)
      : ctx(ctx), count(static_cast<int32_t>(weights / (k * n) + 1)), k(k), n(n),
        first(static_cast<int32_t>(ctx->data.matrices.size())), x(k, 0.5f), out(n) {
    std::vector<float> rows(k * n, 0.5f);
    for (int32_t i = 0; i < count; ++i) {
      ctx->data.matrices.push_back(ctx->device->makeMatrix(k, n, dtype));
      ctx->device->setRows(*ctx->data.matrices.back(), 0, k, rows.data());
    }
  }
  double measure() {
    double seconds = secondsOf([&] {
      for (int32_t i = 0; i < count; ++i) {
        tpc_product product = {
            n, n, nullptr, nullptr, out.data(), first + i, TPC_EPILOGUE_NONE, TPC_F32, TPC_F32};
        tpc_products(ctx, x.data(), 1, k, &product, 1);
      }
    });
    return seconds / (static_cast<double>(count) * static_cast<double>(k * n));
  }

private:
  tpc_context *ctx;
  int32_t count;
  int64_t k, n;
  int32_t first;
  std::vector<float> x, out;
};

/// All types alternate, so that other load on the machine affects all.
void printQuantizedRates(int threads) {
  std::printf("one row: times as fast as f32\n%6s %6s %12s %8s %8s %8s\n", "K", "N", "f32 GB/s",
              "bf16", "8 bits", "4 bits");
  for (auto [k, n] :
       {std::pair<int64_t, int64_t>{768, 3072}, {2048, 2048}, {2048, 5632}, {5632, 2048}}) {
    selectDevices(cpuDevices());
    std::unique_ptr<World> world = World::threads(Grid({{"tp", 1}}), threads);
    tpc_context *ctx = &world->local(0);
    constexpr int64_t weights = 100000000;
    FloatRow single(ctx, TPC_F32, k, n, weights), half(ctx, TPC_BF16, k, n, weights);
    QuantizedRow bytes(ctx, 8, k, n, weights), nibbles(ctx, 4, k, n, weights);
    double best[4] = {1, 1, 1, 1};
    for (int round = 0; round < 9; ++round) {
      best[0] = std::min(best[0], single.measure());
      best[1] = std::min(best[1], half.measure());
      best[2] = std::min(best[2], bytes.measure());
      best[3] = std::min(best[3], nibbles.measure());
    }
    std::printf("%6lld %6lld %12.1f %8.2f %8.2f %8.2f\n", static_cast<long long>(k),
                static_cast<long long>(n), 4e-9 / best[0], best[0] / best[1], best[0] / best[2],
                best[0] / best[3]);
  }
}

void printReadingRates(int threads) {
  std::printf("one row: GB/s of weights\n%6s %6s %10s %10s %10s %10s\n", "K", "N", "", "f32", "f16",
              "bf16");
  for (bool isTable : {false, true})
    for (auto [k, n] :
         {std::pair<int64_t, int64_t>{768, 768}, {768, 3072}, {3072, 768}, {768, 50257}}) {
      std::printf("%6lld %6lld %10s", static_cast<long long>(k), static_cast<long long>(n),
                  isTable ? "table" : "packed");
      for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16})
        std::printf(" %10.1f", readingRate(threads, dtype, isTable, k, n) / 1e9);
      std::printf("\n");
    }
}

} // namespace

int main(int argc, char **argv) {
  int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  Rank tpcRank(cpuDevices(), threads);
  std::string problem;
  std::unique_ptr<Rank> oneDnnRank;
  if (const DeviceKind *kind = cpuDevices().withProducts("onednn", problem))
    oneDnnRank = std::make_unique<Rank>(*kind, threads);
  else
    std::printf("%s\n", problem.c_str());
  std::printf("%s kernels%s%s, %d threads; GFLOP/s of the best of some runs\n", kernels().name,
              oneDnnRank ? " and " : "", oneDnnRank ? deviceKind().products().c_str() : "",
              threads);
  std::printf("%6s %6s %6s %10s %10s %8s\n", "M", "K", "N", "tpc", "oneDNN", "ratio");
  for (auto [k, n] : {std::pair<int64_t, int64_t>{768, 2304},
                      {768, 768},
                      {768, 3072},
                      {3072, 768},
                      {768, 50257}}) {
    std::vector<float> w(k * n);
    for (size_t i = 0; i < w.size(); ++i)
      w[i] = static_cast<float>(i % 7) - 3;
    tpcRank.load(w, k, n);
    if (oneDnnRank)
      oneDnnRank->load(w, k, n);
    for (int64_t m : {1, 8, 128, 512}) {
      std::vector<float> x(m * k, 0.5f), out(m * n);
      double flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
      double tpcSeconds = 1e9, oneDnnSeconds = 1e9;
      for (int i = std::clamp(static_cast<int>(3e9 / flops), 5, 200); i > 0; --i) {
        tpcSeconds = std::min(tpcSeconds, tpcRank.seconds(x, out, m, k, n));
        if (oneDnnRank)
          oneDnnSeconds = std::min(oneDnnSeconds, oneDnnRank->seconds(x, out, m, k, n));
      }
      std::printf("%6lld %6lld %6lld %10.1f", static_cast<long long>(m), static_cast<long long>(k),
                  static_cast<long long>(n), flops / tpcSeconds / 1e9);
      if (oneDnnRank)
        std::printf(" %10.1f %8.2f", flops / oneDnnSeconds / 1e9, oneDnnSeconds / tpcSeconds);
      std::printf("\n");
    }
  }
  printReadingRates(threads);
  printQuantizedRates(threads);
}
