//===- DeviceTest.cpp - Conformance tests of all devices ------------------===//

#include "DeviceTest.h"
#include "GpuKernels.h"
#include "LateDevice.h"
#include "core/DType.h"
#include <array>
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
// Each kernel lists its operands. The number of rows is env[0].

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

/// Reports for odd i that node 1 has the index 100 + i in a dimension of 7.
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

TEST_P(DeviceTest, MemoryIsAlignedAndKeepsData) {
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

TEST_P(DeviceTest, WorkIsDoneInOrder) {
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

TEST_P(DeviceTest, ALaunchMayCoverMoreRowsThanEnv) {
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

TEST_P(DeviceTest, EnvValuesMayExceed32Bits) {
  auto *x = tensor(std::vector<float>{1}), *out = tensor(std::vector<float>{0});
  device->beginStep({1, 0});
  for (int64_t size : {int64_t(70000), int64_t(1) << 31, int64_t(5) << 33, int64_t(-1)}) {
    device->setEnv(1, size);
    launch(Twice, {x, out}, 1);
    EXPECT_EQ(valuesOf(out, 1)[0], 2 + static_cast<float>(size));
  }
  device->endStep();
}

TEST_P(DeviceTest, TooLargeDimensionsAreRejected) {
  if (!GetParam().hasNarrowIndices)
    return;
  auto *seen = tensor(std::vector<int32_t>(1, 0));
  device->beginStep({int64_t(INT32_MAX) + 1, 0});
  EXPECT_THROW(launch(Count, {seen}, 1), std::runtime_error);
  device->endStep();
  EXPECT_EQ(valuesOf(seen, 1)[0], 0);
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

TEST_P(DeviceTest, ConstantsAndSharedTensorsAreReadable) {
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

TEST_P(DeviceTest, TransportsAndWorkAreOrdered) {
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

TEST_P(DeviceTest, OverlappingCopiesAreDoneInOrder) {
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

TEST_P(DeviceTest, RowsAreCopiedToOtherStrides) {
  for (auto [count, width, from, to] : {std::array<int64_t, 4>{1, 5, 5, 5},
                                        {7, 3, 11, 4},
                                        {7, 3, 3, 19},
                                        {0, 4, 4, 4},
                                        {3, 0, 2, 2}}) {
    std::vector<float> x = numbers(100, 1), expected = numbers(120, 2);
    float *source = tensor(x), *data = tensor(expected);
    device->beginStep({0, 0});
    device->copyRows({data + 2, source + 1, to * 4, from * 4, width * 4, count});
    device->endStep();
    for (int64_t row = 0; row < count; ++row)
      std::copy_n(x.begin() + 1 + row * from, width, expected.begin() + 2 + row * to);
    EXPECT_EQ(valuesOf(data, expected.size()), expected) << count << " " << width;
  }
}

TEST_P(DeviceTest, AttentionIsAMeanOfVisibleValues) {
  if (!GetParam().hasAttention)
    return; // generated kernels compute it: see test_cuda_programs.py
  // Scores differ only by slopes: a query's result is the mean of the visible values, each weighted
  // by 2^(slope * distance).
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
/// oneDNN, or its fake.
static const DeviceKind &oneDnnDevices() {
  std::string problem;
  const DeviceKind *kind = cpuDevices().withProducts("onednn", problem);
  EXPECT_TRUE(kind) << problem;
  return kind ? *kind : cpuDevices();
}
INSTANTIATE_TEST_SUITE_P(OneDnn, DeviceTest, testing::Values(Candidate{&oneDnnDevices}));
#if !__has_feature(thread_sanitizer) // address space limits exclude simulated devices
/// GPUs: simulated ones, unless TPC_CUDA_LIBS names others.
static const DeviceKind &gpuDevices() {
  setenv("TPC_CUDA_LIBS", TPC_SIMULATOR, /*overwrite=*/0);
  std::string problem;
  const DeviceKind *kind = cudaDevices(problem);
  EXPECT_TRUE(kind) << problem;
  return kind ? *kind : cpuDevices();
}
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTest,
                         testing::Values(Candidate{&gpuDevices, /*hasActivations=*/false,
                                                   /*hasAttention=*/false,
                                                   /*hasNarrowIndices=*/true}));
#endif
INSTANTIATE_TEST_SUITE_P(Late, DeviceTest, testing::Values(Candidate{&conformance::lateDevices}));

// Checks the late device itself: it reorders independent work, and only that.
TEST(LateDevice, ReordersIndependentWork) {
  selectDevices(conformance::lateDevices());
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
    EXPECT_EQ(copies(16), 0); // each reads the output of the one before it
  }
  selectDevices(cpuDevices());
}

// Checks the late device itself: host code that accesses a tensor is detected.
TEST(LateDeviceDeathTest, HostAccessCrashes) {
  selectDevices(conformance::lateDevices());
  auto world = World::threads(Grid({{"tp", 1}}), 1);
  DeviceMemory memory(*world->local(0).device, 64);
  EXPECT_DEATH(*static_cast<volatile float *>(memory.data()) = 1, "");
  selectDevices(cpuDevices());
}
