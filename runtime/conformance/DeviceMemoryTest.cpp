//===- DeviceMemoryTest.cpp - Lifetime tests of device memory -------------===//

#include "DeviceTest.h"
#include <thread>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

TEST_P(DeviceTest, SharedTensorsStayUntilReleased) {
  // A later step reuses the memory of released tensors only.
  std::vector<const void *> shared;
  std::vector<std::vector<float>> values;
  auto share = [&](int seed) {
    values.push_back(numbers(3, seed));
    shared.push_back(device->share(values.back().data(), 12));
  };
  values.reserve(8);
  for (int seed : {1, 2, 3})
    share(seed);
  device->unshare(shared[0]);
  device->unshare(shared[2]);
  share(4);
  share(5);
  for (size_t i : {1, 3, 4}) {
    float *a = tensor(numbers(3, 6));
    device->beginStep({3, 0});
    launch(Twice, {const_cast<void *>(shared[i]), a}, 3);
    device->endStep();
    std::vector<float> expected = values[i];
    for (float &v : expected)
      v *= 2;
    EXPECT_EQ(valuesOf(a, 3), expected) << i;
    device->unshare(shared[i]);
  }
}

TEST_P(DeviceTest, ConsecutiveSharedTensors) {
  device->beginStep({3000, 0});
  std::vector<float *> outs;
  for (int i = 0; i < 8; ++i) {
    std::vector<float> x = numbers(3000, i);
    outs.push_back(tensor(numbers(3000, 9)));
    const void *shared = device->share(x.data(), 12000);
    launch(Twice, {const_cast<void *>(shared), outs.back()}, 3000);
    device->unshare(shared);
  }
  device->endStep();
  for (int i = 0; i < 8; ++i) {
    std::vector<float> expected = numbers(3000, i);
    for (float &v : expected)
      v *= 2;
    EXPECT_EQ(valuesOf(outs[static_cast<size_t>(i)], 3000), expected) << i;
  }
}

TEST_P(DeviceTest, ConsecutiveAccesses) {
  std::vector<float *> tensors;
  for (int i = 0; i < 8; ++i)
    tensors.push_back(tensor(numbers(3000, 9)));
  for (int i = 0; i < 8; ++i) {
    std::vector<float> x = numbers(3000, i);
    device->beginAccess();
    std::memcpy(device->map(tensors[static_cast<size_t>(i)], 12000, Device::Use::Write), x.data(),
                12000);
    device->endAccess();
  }
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(valuesOf(tensors[static_cast<size_t>(i)], 3000), numbers(3000, i)) << i;
}

TEST_P(DeviceTest, CallsFromAnyThread) {
  // Ranks are created on one thread, run on others, and end on the thread that ends the world.
  auto elsewhere = [](auto call) { std::thread(call).join(); };
  std::vector<float> x = numbers(40, 1), found(40);
  float *a = nullptr, *b = nullptr;
  const void *shared = nullptr;
  std::shared_ptr<Matrix> matrix;
  elsewhere([&] { a = static_cast<float *>(device->allocate(160)); });
  elsewhere([&] { b = static_cast<float *>(device->allocate(160)); });
  elsewhere([&] { shared = device->share(x.data(), 160); });
  elsewhere([&] {
    std::memcpy(device->beginWrite(a, 160), x.data(), 160);
    device->endWrite();
  });
  elsewhere([&] { matrix = device->makeMatrix(1, 1); });
  elsewhere([&] { device->setRows(*matrix, 0, 1, x.data()); });
  elsewhere([&] { device->beginStep({40, 1}); });
  elsewhere([&] { device->setEnv(1, 0); });
  elsewhere([&] { launch(Twice, {const_cast<void *>(shared), b}, 40); });
  elsewhere([&] { device->copy(a, b, 80); });
  elsewhere([&] {
    Product product{matrix.get(), nullptr, nullptr, b, TPC_EPILOGUE_NONE};
    device->multiply({a, 1, 1, {&product, 1}});
  });
  elsewhere([&] { device->batchProduct({a, a, b + 1, 1, 1, 1, 1, 0, 0}); });
  elsewhere([&] {
    device->beginAccess();
    found[0] = *static_cast<float *>(device->map(b, 4, Device::Use::Read));
    device->endAccess();
  });
  elsewhere([&] {
    device->deliver(a, 80, [&](const std::byte *data) { std::memcpy(&found[20], data, 80); });
  });
  elsewhere([&] { device->endStep(); });
  EXPECT_EQ(found[0], 2 * x[0] * x[0]);
  for (size_t i = 0; i < 20; ++i)
    EXPECT_EQ(found[20 + i], 2 * x[i]);
  elsewhere([&] {
    Reading reading(*device, b, 160);
    std::memcpy(found.data(), reading.data, 160);
  });
  EXPECT_EQ(found[1], 4 * x[0] * x[0]);
  EXPECT_EQ(found[39], 2 * x[39]);
  elsewhere([&] { device->unshare(shared); });
  elsewhere([&] { matrix.reset(); });
  elsewhere([&] { device->release(a); });
  elsewhere([&] { device->release(b); });
}

TEST_P(DeviceTest, MemoryMovesInvalidateRecordings) {
  if (!device->canRecord())
    return;
  auto movesMemory = [&](auto call) {
    uint64_t before = device->memoryVersion();
    call();
    return device->memoryVersion() != before;
  };
  void *memory = device->allocate(64);
  EXPECT_FALSE(movesMemory([&] { valuesOf(static_cast<uint8_t *>(memory), 0); }));
  EXPECT_TRUE(movesMemory([&] { device->release(memory); }));
  auto step = [&](std::vector<int64_t> env, int64_t bytes) {
    float *a = tensor(numbers(bytes / 4, 1));
    bool moved = movesMemory([&] {
      device->beginStep(env);
      device->deliver(a, bytes, [](const std::byte *) {});
      device->endStep();
    });
    this->memory.pop_back();
    return moved;
  };
  step({1, 0}, 64);
  EXPECT_FALSE(step({1, 0}, 64));
  EXPECT_TRUE(step(std::vector<int64_t>(1000), 64)) << "env";
  EXPECT_FALSE(step({1, 0}, 64));
  // Outputs are in an arena, which frees blocks that were too small.
  step({1, 0}, 1 << 22);
  EXPECT_TRUE(step({1, 0}, 1 << 24) || step({1, 0}, 1 << 26)) << "outputs";
}

TEST_P(DeviceTest, MemoryIsReleasedAfterWorkThatNeedsIt) {
  float *out = tensor(numbers(5000, 1));
  std::vector<float> x = numbers(5000, 2);
  device->beginStep({5000, 0});
  for (int i = 0; i < 20; ++i) {
    float *a = tensor(x);
    launch(Twice, {a, out}, 5000);
    memory.pop_back();
    tensor(numbers(5000, 3));
    memory.pop_back();
  }
  device->endStep();
  for (float &v : x)
    v *= 2;
  EXPECT_EQ(valuesOf(out, 5000), x);
}
