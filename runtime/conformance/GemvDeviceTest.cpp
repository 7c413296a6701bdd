//===- GemvDeviceTest.cpp - GEMV kernels of GPUs --------------------------===//

#include "DeviceTest.h"
#include "core/DType.h"
#include "core/Half.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>

#if !__has_feature(thread_sanitizer) // leaves no terabyte of addresses for simulated devices

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

/// A simulated GPU that is created under a value of TPC_GEMV.
class OneGpu {
public:
  explicit OneGpu(const char *use) {
    setenv("TPC_CUDA_LIBS", TPC_SIMULATOR, /*overwrite=*/0);
    setenv("TPC_GEMV", use, /*overwrite=*/1);
    std::string problem;
    const DeviceKind *kind = cudaDevices(problem);
    EXPECT_TRUE(kind) << problem;
    selectDevices(*kind);
    world = World::threads(Grid({{"tp", 1}}), 1);
    device = world->local(0).device.get();
    loadKernels(*device);
  }
  OneGpu(const OneGpu &) = delete;
  OneGpu &operator=(const OneGpu &) = delete;
  ~OneGpu() {
    memory.clear();
    world.reset();
    selectDevices(cpuDevices());
    unsetenv("TPC_GEMV");
  }

  /// Uploads values, rounded to a type.
  void *tensor(const std::vector<float> &values, int32_t dtype) {
    std::vector<uint16_t> halves;
    for (float value : values)
      halves.push_back(dtype == TPC_F16 ? floatToHalf(value) : floatToBfloat(value));
    size_t bytes = values.size() * static_cast<size_t>(sizeOf(dtype));
    const void *from = dtype == TPC_F32 ? static_cast<const void *>(values.data()) : halves.data();
    void *data = memory.emplace_back(*device, static_cast<int64_t>(bytes)).data();
    std::memcpy(device->beginWrite(data, static_cast<int64_t>(bytes)), from, bytes);
    device->endWrite();
    return data;
  }

  std::unique_ptr<World> world;
  Device *device;
  std::vector<DeviceMemory> memory;
};

struct Sizes {
  int64_t m, k, n;
  bool transposed;
  int32_t dtype, outDtype;
};

std::vector<float> transpose(const std::vector<float> &w, int64_t k, int64_t n) {
  std::vector<float> columns(w.size());
  for (int64_t i = 0; i < k * n; ++i)
    columns[static_cast<size_t>(i % n * k + i / n)] = w[static_cast<size_t>(i)];
  return columns;
}

/// Returns x w + bias + residual, and checks it. The residual is overwritten.
std::vector<float> multiply(OneGpu &gpu, const Sizes &s) {
  std::vector<float> x = numbers(s.m * s.k, 1), w = numbers(s.k * s.n, 2), bias = numbers(s.n, 3),
                     residual = numbers(s.m * s.n, 4);
  Device &device = *gpu.device;
  std::shared_ptr<Matrix> matrix = device.transposeOf(
      gpu.tensor(s.transposed ? transpose(w, s.k, s.n) : w, s.dtype), s.k, s.n, s.dtype);
  if (!s.transposed) {
    matrix = device.makeMatrix(s.k, s.n, s.dtype);
    std::vector<uint16_t> halves;
    for (float value : w)
      halves.push_back(s.dtype == TPC_F16 ? floatToHalf(value) : floatToBfloat(value));
    device.setRows(*matrix, 0, s.k,
                   s.dtype == TPC_F32 ? static_cast<const void *>(w.data()) : halves.data());
  }
  auto *out = static_cast<float *>(gpu.tensor(residual, s.outDtype));
  Product product = {
      matrix.get(), static_cast<float *>(gpu.tensor(bias, s.outDtype)), out, out, TPC_EPILOGUE_NONE,
      s.outDtype};
  auto *from = static_cast<float *>(gpu.tensor(x, s.dtype));
  device.beginStep({0, 0});
  device.multiply({from, s.m, s.k, {&product, 1}, s.dtype});
  device.endStep();
  std::vector<float> result;
  Reading reading(device, out, s.m * s.n * sizeOf(s.outDtype));
  for (int64_t i = 0; i < s.m * s.n; ++i) {
    auto at = static_cast<size_t>(i);
    float value = 0;
    if (s.outDtype == TPC_F32) {
      std::memcpy(&value, reading.data + at * 4, 4);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, reading.data + at * 2, 2);
      value = s.outDtype == TPC_F16 ? halfToFloat(bits) : bfloatToFloat(bits);
    }
    result.push_back(value);
    double sum = bias[static_cast<size_t>(i % s.n)] + residual[at];
    for (int64_t l = 0; l < s.k; ++l)
      sum += static_cast<double>(x[static_cast<size_t>(i / s.n * s.k + l)]) *
             w[static_cast<size_t>(l * s.n + i % s.n)];
    double unit = s.outDtype == TPC_F32 ? 0 : s.outDtype == TPC_F16 ? 0x1p-10 : 0x1p-7;
    EXPECT_NEAR(value, sum, std::abs(sum) * unit + 1e-4) << i;
  }
  return result;
}

TEST(GemvDevice, ComputesFewRowsOfAlignedSizes) {
  OneGpu gpu("always");
  // Some sizes are multiples of 8 only. The first case splits k over the simulated GPU's
  // multiprocessors.
  for (Sizes sizes : {Sizes{1, 1024, 64, false, TPC_F32, TPC_F32},
                      {4, 48, 136, false, TPC_BF16, TPC_F32},
                      {3, 64, 24, false, TPC_F16, TPC_F16},
                      {2, 40, 37, true, TPC_BF16, TPC_BF16},
                      {4, 36, 9, true, TPC_F32, TPC_F32}}) {
    multiply(gpu, sizes);
    EXPECT_TRUE(gpu.device->pendingTunings().empty()) << sizes.m << " " << sizes.k;
  }
  // cuBLASLt computes other sizes.
  size_t before = 0;
  for (Sizes sizes : {Sizes{5, 48, 136, false, TPC_F32, TPC_F32},
                      {1, 44, 136, false, TPC_F32, TPC_F32},
                      {1, 48, 137, false, TPC_F32, TPC_F32},
                      {1, 37, 9, true, TPC_F32, TPC_F32}}) {
    multiply(gpu, sizes);
    size_t now = gpu.device->pendingTunings().size();
    EXPECT_GT(now, before) << sizes.m << " " << sizes.k;
    before = now;
  }
}

TEST(GemvDevice, RowsHaveTheSameBitsAmongOthers) {
  OneGpu gpu("always");
  Sizes sizes{4, 512, 64, false, TPC_BF16, TPC_F32};
  std::vector<float> all = multiply(gpu, sizes);
  for (sizes.m = 1; sizes.m < 4; ++sizes.m) {
    std::vector<float> few = multiply(gpu, sizes);
    EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin())) << sizes.m;
  }
}

/// silu(norm(source) gate) * (norm(source) up), with widths of an MLP's shards.
void multiplyGated(OneGpu &gpu, int64_t m, int32_t dtype, bool isFused) {
  constexpr int64_t k = 64, f = 40;
  Device &device = *gpu.device;
  auto rounded = [&](double value) {
    auto single = static_cast<float>(value);
    return dtype == TPC_F32 ? single : bfloatToFloat(floatToBfloat(single));
  };
  std::vector<float> source = numbers(m * k, 1), scale = numbers(k, 2), w = numbers(2 * k * f, 3);
  for (std::vector<float> *operand : {&scale, &w})
    std::transform(operand->begin(), operand->end(), operand->begin(), rounded);
  const int64_t widths[] = {f, f};
  std::vector<std::shared_ptr<Matrix>> matrices = device.makeMatrices(k, widths, dtype);
  for (size_t i = 0; i < 2; ++i) {
    std::vector<float> half(w.begin() + static_cast<ptrdiff_t>(i) * k * f,
                            w.begin() + static_cast<ptrdiff_t>(i + 1) * k * f);
    std::vector<uint16_t> halves;
    for (float value : half)
      halves.push_back(floatToBfloat(value));
    device.setRows(*matrices[i], 0, k,
                   dtype == TPC_F32 ? static_cast<const void *>(half.data()) : halves.data());
  }
  const std::vector<float> unwritten(static_cast<size_t>(2 * m * f), 7);
  auto *x = static_cast<float *>(gpu.tensor(std::vector<float>(source.size(), NAN), dtype));
  auto *both = static_cast<char *>(gpu.tensor(unwritten, dtype));
  void *out = gpu.tensor(std::vector<float>(static_cast<size_t>(m * f), NAN), dtype);
  std::vector<Product> products;
  for (size_t i = 0; i < 2; ++i)
    products.push_back(
        {matrices[i].get(), nullptr, nullptr,
         reinterpret_cast<float *>(both + static_cast<int64_t>(i) * f * sizeOf(dtype)),
         TPC_EPILOGUE_NONE, dtype, 2 * f});
  tpc_fusion fusion{.source = gpu.tensor(source, TPC_F32),
                    .scale = gpu.tensor(scale, dtype),
                    .shift = nullptr,
                    .out = out,
                    .norm = TPC_NORM_RMS,
                    .epsilon = 1e-5f,
                    .source_dtype = TPC_F32,
                    .scale_dtype = dtype,
                    .activation = TPC_EPILOGUE_SILU,
                    .gated = 1};
  device.beginStep({0, 0});
  EXPECT_EQ(device.multiplyFused({x, m, k, products, dtype}, fusion), isFused);
  device.endStep();
  if (!isFused)
    return;
  auto valuesOf = [&](const void *data, int64_t count) {
    std::vector<float> values;
    Reading reading(device, data, count * sizeOf(dtype));
    for (int64_t i = 0; i < count; ++i) {
      float value = 0;
      uint16_t bits = 0;
      if (dtype == TPC_F32)
        std::memcpy(&value, reading.data + i * 4, 4);
      else
        std::memcpy(&bits, reading.data + i * 2, 2);
      values.push_back(dtype == TPC_F32 ? value : bfloatToFloat(bits));
    }
    return values;
  };
  EXPECT_EQ(valuesOf(both, 2 * m * f), unwritten);
  std::vector<float> found = valuesOf(out, m * f);
  for (int64_t row = 0; row < m; ++row) {
    double squares = 0;
    for (int64_t l = 0; l < k; ++l)
      squares += std::pow(source[static_cast<size_t>(row * k + l)], 2);
    for (int64_t j = 0; j < f; ++j) {
      double sums[2] = {};
      for (int64_t l = 0; l < k; ++l) {
        // In device memory, a norm's result would be rounded too.
        double x = rounded(source[static_cast<size_t>(row * k + l)] /
                           std::sqrt(squares / k + 1e-5) * scale[static_cast<size_t>(l)]);
        for (int64_t i = 0; i < 2; ++i)
          sums[i] += x * w[static_cast<size_t>((i * k + l) * f + j)];
      }
      double wanted = sums[0] / (1 + std::exp(-sums[0])) * sums[1];
      EXPECT_NEAR(found[static_cast<size_t>(row * f + j)], wanted,
                  (std::abs(wanted) + 0.2) * (dtype == TPC_F32 ? 1e-5 : 0.01))
          << row << " " << j;
    }
  }
}

TEST(GemvDevice, NormalizesAndActivates) {
  OneGpu gpu("always");
  multiplyGated(gpu, 1, TPC_F32, true);
  multiplyGated(gpu, 4, TPC_BF16, true);
  multiplyGated(gpu, 5, TPC_BF16, false); // too many rows
}

TEST(GemvDevice, FusesOnlyWhatGemvKernelsCompute) {
  OneGpu gpu("never");
  multiplyGated(gpu, 1, TPC_F32, false);
}

TEST(GemvDevice, IsUsedWhereItIsTuned) {
  OneGpu gpu("");
  Device &device = *gpu.device;
  const Sizes sizes{2, 512, 512, false, TPC_F32, TPC_F32},
      small{2, 64, 64, false, TPC_F32, TPC_F32};
  multiply(gpu, small);
  multiply(gpu, sizes);
  auto keyOf = [&](const std::string &shape) {
    for (const std::string &key : device.pendingTunings())
      if (key.find(shape) != std::string::npos)
        return key;
    ADD_FAILURE() << shape;
    return std::string();
  };
  std::string key = keyOf("f32 1 2 512 512 "), smallKey = keyOf("f32 1 2 64 64 ");
  DeviceMemory memory(device, device.tuningBytes(key));
  std::string tuning = device.tune(key, memory.data());
  EXPECT_TRUE(tuning == "own" || tuning.size() == 128) << tuning;
  EXPECT_TRUE(device.applyTuning(key, tuning));
  multiply(gpu, sizes);
  EXPECT_TRUE(device.applyTuning(key, "own"));
  multiply(gpu, sizes);
  EXPECT_FALSE(device.applyTuning(smallKey, "own")); // too few bytes for a GEMV kernel
  EXPECT_FALSE(device.applyTuning(key, "mine"));
}

TEST(GemvDevice, NeverIsNeverTuned) {
  OneGpu gpu("never");
  multiply(gpu, {1, 512, 512, false, TPC_F32, TPC_F32});
  std::vector<std::string> keys = gpu.device->pendingTunings();
  ASSERT_EQ(keys.size(), 1u);
  EXPECT_FALSE(gpu.device->applyTuning(keys[0], "own"));
}

} // namespace

#endif
