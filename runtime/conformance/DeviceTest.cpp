//===- DeviceTest.cpp - what every device must do -------------------------===//

#include "DeviceTest.h"
#include "GpuKernels.h"
#include "LateDevice.h"
#include "core/DType.h"
#include "core/Half.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

//===--- kernels -----------------------------------------------------------===//
//
// operands: as each says. Rows are as many as env[0].

int64_t clip(const int64_t *env, int64_t hi) { return std::min(hi, env[0]); }

/// out[i] = 2 * x[i] + env[1]
void twice(const int64_t *env, tpc_status *, void *const *operands, int64_t lo, int64_t hi) {
  auto *x = static_cast<const float *>(operands[0]);
  auto *out = static_cast<float *>(operands[1]);
  for (int64_t i = lo; i < clip(env, hi); ++i)
    out[i] = 2 * x[i] + static_cast<float>(env[1]);
}

/// seen[i] += 1
void count(const int64_t *env, tpc_status *, void *const *operands, int64_t lo, int64_t hi) {
  for (int64_t i = lo; i < clip(env, hi); ++i)
    ++static_cast<int32_t *>(operands[0])[i];
}

/// Looks up 100 + i of 7, for odd i, as node 1.
void lookUp(const int64_t *env, tpc_status *status, void *const *, int64_t lo, int64_t hi) {
  for (int64_t i = lo; i < clip(env, hi); ++i)
    if (i % 2 && !__atomic_exchange_n(&status->missing, 1, __ATOMIC_RELAXED)) {
      status->node = 1;
      status->index = 100 + i;
      status->size = 7;
    }
}

constexpr tpc_kernel kernels[] = {{"twice", twice}, {"count", count}, {"look_up", lookUp}};
alignas(64) constexpr float constant[] = {3, 1, 4};
alignas(64) constexpr float anotherConstant[] = {7, 5, 2, 3};
constexpr tpc_data constants[] = {{constant, sizeof constant},
                                  {anotherConstant, sizeof anotherConstant}};

tpc_program makeProgram() {
  tpc_program program = {};
  program.num_kernels = std::size(kernels);
  program.kernels = kernels;
  program.num_constants = std::size(constants);
  program.constants = constants;
  program.gpu_code = &conformance::gpuKernels();
  return program;
}
const tpc_program program = makeProgram();

} // namespace

void conformance::loadKernels(Device &device) { device.load(program); }

std::vector<float> conformance::numbers(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] =
        static_cast<float>((i * 7919 + int64_t(seed) * 104729) % 201 - 100) / 64;
  return values;
}

TEST_P(DeviceTest, MemoryIsAlignedAndKeepsWhatIsWritten) {
  std::vector<std::vector<float>> values;
  std::vector<float *> tensors;
  for (int64_t size : {0, 1, 3, 1000, 70000}) {
    values.push_back(numbers(size, static_cast<int>(size)));
    tensors.push_back(tensor(values.back()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back()) % 64, 0u);
  }
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(valuesOf(tensors[i], values[i].size()), values[i]);
  EXPECT_EQ(device->allocate(-1), nullptr);
}

TEST_P(DeviceTest, WorkSeesWhatWorkBeforeItHasDone) {
  std::vector<float> x = numbers(100, 1);
  float *a = tensor(x), *b = tensor(numbers(100, 2)), *c = tensor(numbers(100, 3));
  device->beginStep({100, 1});
  launch(Twice, {a, b}, 100);
  device->copy(c, b, 400);
  device->setEnv(1, 5);
  launch(Twice, {c, b}, 100);
  device->setEnv(1, 7);
  device->copy(a, b + 50, 200);
  EXPECT_EQ(device->endStep().missing, 0);
  std::vector<float> once = valuesOf(c, 100), twice = valuesOf(b, 100), first = valuesOf(a, 100);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(once[i], 2 * x[i] + 1);
    EXPECT_EQ(twice[i], 2 * once[i] + 5);
    EXPECT_EQ(first[i], i < 50 ? twice[i + 50] : x[i]);
  }
}

TEST_P(DeviceTest, EachRowRunsOnce) {
  for (int64_t rows : {1, 2, 7, 64, 1001})
    for (int64_t grain : {1, 10, 5000}) {
      auto *seen = tensor(std::vector<int32_t>(static_cast<size_t>(rows) + 9, 0));
      device->beginStep({rows, 0});
      launch(Count, {seen}, rows, grain);
      device->endStep();
      std::vector<int32_t> expected(static_cast<size_t>(rows) + 9, 0);
      std::fill_n(expected.begin(), rows, 1);
      EXPECT_EQ(valuesOf(seen, expected.size()), expected) << rows << " rows by " << grain;
    }
}

TEST_P(DeviceTest, ALaunchMayCoverMoreRowsThanEnvSays) {
  for (int64_t first : {64, 0}) {
    auto *seen = tensor(std::vector<int32_t>(64, 0));
    device->beginStep({first, 0});
    for (int64_t length : {3, 64, 0, 10}) {
      device->setEnv(0, length);
      launch(Count, {seen}, 64);
    }
    device->endStep();
    std::vector<int32_t> counts = valuesOf(seen, 64);
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(counts[i], (i < 3) + 1 + (i < 10)) << i;
  }
}

TEST_P(DeviceTest, StatusIsTheFirstOfItsStep) {
  for (int step = 0; step < 3; ++step) {
    device->beginStep({step == 1 ? 0 : 50, 0});
    launch(LookUp, {}, 50);
    launch(LookUp, {}, 50);
    tpc_status status = device->endStep();
    EXPECT_EQ(status.missing, step == 1 ? 0 : 1);
    if (step == 1)
      continue;
    EXPECT_EQ(status.node, 1);
    EXPECT_EQ(status.size, 7);
    EXPECT_TRUE(status.index > 100 && status.index < 150 && status.index % 2) << status.index;
  }
}

TEST_P(DeviceTest, ConstantsAndSharedTensorsAreThere) {
  std::vector<float> x = numbers(3, 4);
  const void *shared = device->share(x.data(), 12);
  float *a = tensor(numbers(3, 5)), *b = tensor(numbers(3, 6)), *c = tensor(numbers(3, 7));
  device->beginStep({3, 0});
  launch(Twice, {const_cast<void *>(shared), a}, 3);
  launch(Twice, {const_cast<void *>(device->constant(0)), b}, 3);
  launch(Twice, {const_cast<void *>(device->constant(1)), c}, 3);
  device->unshare(shared);
  std::fill(x.begin(), x.end(), 0.0f);
  device->endStep();
  std::vector<float> expected = numbers(3, 4);
  for (float &v : expected)
    v *= 2;
  EXPECT_EQ(valuesOf(a, 3), expected);
  EXPECT_EQ(valuesOf(b, 3), (std::vector<float>{6, 2, 8}));
  EXPECT_EQ(valuesOf(c, 3), (std::vector<float>{14, 10, 4}));
}

TEST_P(DeviceTest, TransportsSeeWhatWorkHasDoneAndWorkWhatTheyHave) {
  float *a = tensor(std::vector<float>{1, 2, 3}), *b = tensor(std::vector<float>{0, 0, 0});
  device->beginStep({3, 0});
  launch(Twice, {a, b}, 3);
  device->beginAccess();
  auto *host = static_cast<float *>(device->map(b, 12, Device::Use::ReadWrite));
  EXPECT_EQ(host[2], 6);
  host[2] = 10;
  device->endAccess();
  launch(Twice, {b, a}, 3);
  device->endStep();
  EXPECT_EQ(valuesOf(a, 3), (std::vector<float>{4, 8, 20}));
}

TEST_P(DeviceTest, CopiesThatMeetAreDoneInOrder) {
  constexpr int64_t size = 257;
  std::vector<float> expected = numbers(size, 5);
  float *data = tensor(expected);
  std::mt19937 random(7);
  device->beginStep({0, 0});
  for (int i = 0; i < 400; ++i) {
    auto from = static_cast<int64_t>(random() % size), to = static_cast<int64_t>(random() % size);
    int64_t count = std::min<int64_t>(
        {static_cast<int64_t>(random() % 40), std::abs(to - from), size - from, size - to});
    if (count == 0)
      continue;
    device->copy(data + to, data + from, count * static_cast<int64_t>(sizeof(float)));
    std::copy_n(expected.begin() + from, count, expected.begin() + to);
  }
  device->endStep();
  EXPECT_EQ(valuesOf(data, size), expected);
}

TEST_P(DeviceTest, ProductsAreSums) {
  for (auto [m, k, n] :
       {std::array<int64_t, 3>{1, 5, 3}, {7, 33, 40}, {20, 0, 9}, {13, 64, 100}, {150, 70, 400}})
    for (bool transposed : {false, true})
      for (bool more : {false, true}) {
        int32_t epilogue =
            more && GetParam().hasActivations ? TPC_EPILOGUE_RELU : TPC_EPILOGUE_NONE;
        std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                           residual = numbers(m * n, 4);
        std::shared_ptr<Matrix> matrix;
        if (transposed) {
          std::vector<float> rows(w.size());
          for (int64_t i = 0; i < k * n; ++i)
            rows[i % n * k + i / n] = w[i];
          matrix = device->transposeOf(tensor(rows), k, n, TPC_F32);
        } else {
          matrix = device->makeMatrix(k, n);
          for (int64_t row = 0; row < k; row += 3)
            device->setRows(*matrix, row, std::min(k, row + 3), w.data() + row * n);
        }
        // The result lies where the residual is.
        float *out = tensor(residual), *biasData = tensor(bias), *xData = tensor(x);
        device->beginStep({0, 0});
        Product product = {matrix.get(), more ? biasData : nullptr, more ? out : nullptr, out,
                           epilogue};
        device->multiply({xData, m, k, {&product, 1}});
        device->endStep();
        std::vector<float> result = valuesOf(out, residual.size());
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = more ? bias[j] : 0;
            for (int64_t l = 0; l < k; ++l)
              sum += static_cast<double>(x[i * k + l]) * w[l * n + j];
            if (epilogue == TPC_EPILOGUE_RELU)
              sum = std::max(sum, 0.0);
            if (more)
              sum += residual[i * n + j];
            EXPECT_NEAR(result[i * n + j], sum, 1e-4) << m << " " << k << " " << n;
          }
      }
}

TEST_P(DeviceTest, ProductsOfHalvesAreRoundedOnce) {
  for (int32_t dtype : {TPC_F16, TPC_BF16}) {
    if (!device->computes(dtype))
      continue; // programs for it have none
    auto encode = [&](const std::vector<float> &values) {
      std::vector<uint16_t> bits;
      for (float value : values)
        bits.push_back(dtype == TPC_F16 ? floatToHalf(value) : floatToBfloat(value));
      return bits;
    };
    auto decode = [&](uint16_t bits) {
      return dtype == TPC_F16 ? halfToFloat(bits) : bfloatToFloat(bits);
    };
    for (auto [m, k, n] : {std::array<int64_t, 3>{1, 5, 3}, {7, 33, 41}, {3, 0, 9}, {20, 64, 100}})
      for (bool transposed : {false, true})
        for (int more : {0, 1, 2}) { // and a bias, and a residual
          std::vector<float> x = numbers(m * k, 1), w = numbers(k * n, 2), bias = numbers(n, 3),
                             residual = numbers(m * n, 4);
          std::vector<float> rows(w.size());
          for (int64_t i = 0; i < k * n; ++i)
            rows[i % n * k + i / n] = w[i];
          std::shared_ptr<Matrix> matrix;
          if (transposed) {
            matrix = device->transposeOf(tensor(encode(rows)), k, n, dtype);
          } else {
            matrix = device->makeMatrix(k, n, dtype);
            device->setRows(*matrix, 0, k, encode(w).data());
          }
          auto place = [](uint16_t *data) { return reinterpret_cast<float *>(data); };
          float *out = place(tensor(encode(residual))), *xData = place(tensor(encode(x)));
          Product product = {matrix.get(),
                             more ? place(tensor(encode(bias))) : nullptr,
                             more > 1 ? out : nullptr,
                             out,
                             TPC_EPILOGUE_NONE,
                             dtype};
          device->beginStep({0, 0});
          device->multiply({xData, m, k, {&product, 1}, dtype});
          device->endStep();
          auto result = valuesOf(reinterpret_cast<uint16_t *>(out), residual.size());
          for (int64_t i = 0; i < m * n; ++i) {
            double sum = (more ? bias[i % n] : 0) + (more > 1 ? residual[i] : 0);
            for (int64_t l = 0; l < k; ++l)
              sum += static_cast<double>(x[i / n * k + l]) * w[l * n + i % n];
            // Half a unit in the last place, and once more where a bias has no epilogue.
            double unit = std::abs(sum) * (dtype == TPC_F16 ? 0x1p-10 : 0x1p-7) + 0x1p-20;
            EXPECT_NEAR(decode(result[static_cast<size_t>(i)]), sum,
                        unit * (more > 1 ? 2.01 : 0.51))
                << m << " " << k << " " << n << " " << spellType(dtype) << " " << more;
          }
        }
  }
}

/// Neither sums nor what is added to them are rounded to 16 bits.
TEST_P(DeviceTest, ProductsOfHalvesInSingle) {
  for (int32_t dtype : {TPC_F16, TPC_BF16}) {
    if (!device->computes(dtype))
      continue; // programs for it have none
    auto encode = [&](const std::vector<float> &values) {
      std::vector<uint16_t> bits;
      for (float value : values)
        bits.push_back(dtype == TPC_F16 ? floatToHalf(value) : floatToBfloat(value));
      return bits;
    };
    // Numbers that 16 bits have.
    auto exact = [](std::vector<float> values) {
      for (float &value : values)
        value = std::round(value * 8) / 8;
      return values;
    };
    for (auto [m, k, n] : {std::array<int64_t, 3>{1, 5, 3}, {7, 33, 41}, {3, 0, 9}, {20, 64, 100}})
      for (bool transposed : {false, true})
        for (int more : {0, 1, 2, 3}) { // a bias, a residual, both
          std::vector<float> x = exact(numbers(m * k, 1)), w = exact(numbers(k * n, 2)),
                             bias = numbers(n, 3), residual = numbers(m * n, 4);
          std::vector<float> rows(w.size());
          for (int64_t i = 0; i < k * n; ++i)
            rows[i % n * k + i / n] = w[i];
          std::shared_ptr<Matrix> matrix;
          if (transposed) {
            matrix = device->transposeOf(tensor(encode(rows)), k, n, dtype);
          } else {
            matrix = device->makeMatrix(k, n, dtype);
            device->setRows(*matrix, 0, k, encode(w).data());
          }
          float *out = tensor(residual);
          auto *xData = reinterpret_cast<float *>(tensor(encode(x)));
          Product product = {matrix.get(),
                             more & 1 ? tensor(bias) : nullptr,
                             more & 2 ? out : nullptr,
                             out,
                             TPC_EPILOGUE_NONE,
                             TPC_F32};
          device->beginStep({0, 0});
          device->multiply({xData, m, k, {&product, 1}, dtype});
          device->endStep();
          std::vector<float> result = valuesOf(out, residual.size());
          for (int64_t i = 0; i < m * n; ++i) {
            double sum = (more & 1 ? bias[i % n] : 0) + (more & 2 ? residual[i] : 0);
            for (int64_t l = 0; l < k; ++l)
              sum += static_cast<double>(x[i / n * k + l]) * w[l * n + i % n];
            EXPECT_NEAR(result[i], sum, 1e-5 * (1 + std::abs(sum)))
                << m << " " << k << " " << n << " " << spellType(dtype) << " " << more;
          }
        }
  }
}

TEST_P(DeviceTest, ProductsOfOneLeftSide) {
  int64_t m = 7, k = 5;
  std::vector<float> x = numbers(m * k, 1);
  float *xData = tensor(x);
  std::vector<std::shared_ptr<Matrix>> matrices;
  std::vector<std::vector<float>> weights;
  std::vector<Product> products;
  std::vector<int64_t> widths{3, 40, 0, 17};
  matrices = device->makeMatrices(k, widths, TPC_F32);
  for (size_t i = 0; i < widths.size(); ++i) {
    int64_t n = widths[i];
    weights.push_back(numbers(k * n, static_cast<int>(n)));
    device->setRows(*matrices[i], 0, k, weights.back().data());
    if (n == 0) // no product is empty
      continue;
    products.push_back(
        {matrices[i].get(), nullptr, nullptr, tensor(numbers(m * n, 2)),
         n == 17 && GetParam().hasActivations ? TPC_EPILOGUE_RELU : TPC_EPILOGUE_NONE});
  }
  device->beginStep({0, 0});
  device->multiply({xData, m, k, products});
  std::vector<Product> done = products;
  std::fill(products.begin(), products.end(), Product{}); // it was read before that returned
  device->endStep();
  for (size_t p = 0; p < done.size(); ++p) {
    int64_t n = done[p].matrix->n;
    const std::vector<float> &w = *std::find_if(weights.begin(), weights.end(), [&](auto &w) {
      return static_cast<int64_t>(w.size()) == k * n;
    });
    std::vector<float> result = valuesOf(done[p].out, static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(x[i / n * k + l]) * w[l * n + i % n];
      EXPECT_NEAR(result[i], done[p].epilogue == TPC_EPILOGUE_RELU ? std::max(sum, 0.0) : sum, 1e-4)
          << p;
    }
  }
}

TEST_P(DeviceTest, BatchProductsBroadcast) {
  int64_t batch = 3, m = 5, k = 9, n = 17;
  std::vector<float> a = numbers(batch * m * k, 1), b = numbers(batch * k * n, 2);
  float *aData = tensor(a), *bData = tensor(b), *out = tensor(numbers(batch * m * n, 3));
  for (int64_t aStride : {int64_t(0), m * k})
    for (int64_t bStride : {int64_t(0), k * n}) {
      device->beginStep({0, 0});
      device->batchProduct({aData, bData, out, batch, m, k, n, aStride, bStride});
      device->endStep();
      std::vector<float> result = valuesOf(out, static_cast<size_t>(batch * m * n));
      for (int64_t i = 0; i < batch * m * n; ++i) {
        int64_t p = i / (m * n), row = i / n % m, column = i % n;
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum +=
              static_cast<double>(a[p * aStride + row * k + l]) * b[p * bStride + l * n + column];
        EXPECT_NEAR(result[i], sum, 1e-4);
      }
    }
}

TEST_P(DeviceTest, AttentionIsAMeanOfWhatIsVisible) {
  if (!GetParam().hasAttention)
    return; // a program's own kernels compute it: see test_cuda_programs.py
  // All scores alike but for slopes: a query's result is the mean of the values that it sees, each
  // times 2^(slope * distance).
  int64_t tokens = 6, heads = 4, kvHeads = 2, size = 8, window = 3;
  std::vector<float> slopes = {0, 1, -1, 2};
  for (float &slope : slopes)
    slope *= static_cast<float>(std::log(2.0));
  std::vector<float> v = numbers(tokens * kvHeads * size, 1);
  tpc_attention_args args = {};
  args.q = tensor(std::vector<float>(static_cast<size_t>(tokens * heads * size), 0.0f));
  args.k = tensor(numbers(tokens * kvHeads * size, 2));
  args.v = tensor(v);
  args.out = tensor(numbers(tokens * heads * size, 3));
  args.batch = 1;
  args.seq_q = args.seq_k = tokens;
  args.heads_q = heads;
  args.heads_kv = kvHeads;
  args.head_size = args.value_size = size;
  args.q_row_stride = args.out_row_stride = heads * size;
  args.k_row_stride = args.v_row_stride = kvHeads * size;
  args.scale = 1;
  args.causal = 1;
  args.windowed = 1;
  args.window_offset = -window;
  args.slopes = tensor(slopes);
  device->beginStep({0, 0});
  device->attention(args);
  const float *out = args.out;
  args = {};
  device->endStep();
  std::vector<float> result = valuesOf(out, static_cast<size_t>(tokens * heads * size));
  for (int64_t i = 0; i < tokens; ++i)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t d = 0; d < size; ++d) {
        double sum = 0, all = 0;
        for (int64_t j = std::max<int64_t>(0, i - window + 1); j <= i; ++j) {
          double weight = std::exp(static_cast<double>(slopes[h]) * static_cast<double>(j - i));
          sum += weight * v[(j * kvHeads + h / 2) * size + d];
          all += weight;
        }
        EXPECT_NEAR(result[(i * heads + h) * size + d], sum / all, 1e-5);
      }
}

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceTest, testing::Values(Candidate{&cpuDevices}));
/// oneDNN, or what stands in for it.
static const DeviceKind &oneDnnDevices() {
  std::string problem;
  const DeviceKind *kind = cpuDevices().withProducts("onednn", problem);
  EXPECT_TRUE(kind) << problem;
  return kind ? *kind : cpuDevices();
}
INSTANTIATE_TEST_SUITE_P(OneDnn, DeviceTest, testing::Values(Candidate{&oneDnnDevices}));
#if !__has_feature(thread_sanitizer) // it leaves no terabyte of addresses for simulated devices
/// GPUs: simulated ones, unless others are named.
static const DeviceKind &gpuDevices() {
  setenv("TPC_CUDA_LIBS", TPC_SIMULATOR, /*overwrite=*/0);
  std::string problem;
  const DeviceKind *kind = cudaDevices(problem);
  EXPECT_TRUE(kind) << problem;
  return kind ? *kind : cpuDevices();
}
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTest,
                         testing::Values(Candidate{&gpuDevices, /*hasActivations=*/false,
                                                   /*hasAttention=*/false}));
#endif
INSTANTIATE_TEST_SUITE_P(Late, DeviceTest, testing::Values(Candidate{&conformance::lateDevices}));

// What the others rely on: work is done in another order where it may be, and where only that.
TEST(LateDevice, WhatIsIndependentIsDoneInAnyOrder) {
  chooseDevices(conformance::lateDevices());
  {
    auto world = World::threads(Grid({{"tp", 1}}), 1);
    Device &device = *world->local(0).device;
    DeviceMemory memory(device, 4096);
    auto *data = static_cast<float *>(memory.data());
    auto copies = [&](int64_t stride) {
      device.beginStep({0});
      Reading begun(device, data, 4);
      int64_t before = conformance::countOvertakings();
      for (int64_t i = 0; i < 12; ++i)
        device.copy(data + (i + 1) * 16, data + i * stride, 64);
      device.endStep();
      return conformance::countOvertakings() - before;
    };
    EXPECT_GT(copies(0), 0);
    EXPECT_EQ(copies(16), 0); // each reads what the one before it writes
  }
  chooseDevices(cpuDevices());
}

// What the others rely on: host code that touches a tensor is found out.
TEST(LateDeviceDeathTest, TensorsAreNotTheHosts) {
  chooseDevices(conformance::lateDevices());
  auto world = World::threads(Grid({{"tp", 1}}), 1);
  DeviceMemory memory(*world->local(0).device, 64);
  EXPECT_DEATH(*static_cast<volatile float *>(memory.data()) = 1, "");
  chooseDevices(cpuDevices());
}
