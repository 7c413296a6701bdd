//===- DeviceOrderTest.cpp - Program-order tests of devices ---------------===//

#include "DeviceTest.h"
#include <functional>
#include <initializer_list>
#include <span>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

/// An operation, with the memory that it reads and writes.
struct Work {
  std::vector<std::span<std::byte>> reads;
  std::span<std::byte> out;
  std::function<void()> call;
};

std::span<std::byte> bytesOf(const void *data, int64_t bytes) {
  return {static_cast<std::byte *>(const_cast<void *>(data)), static_cast<size_t>(bytes)};
}

/// Runs the operation many times, with copies just before and after it. The copies before it write
/// its inputs and spoil its output buffer. The copies after it spoil both. Spoiling overwrites
/// alternately the whole buffer and only its last element.
void expectInOrder(Device &device, const Work &work) {
  constexpr int64_t element = 4;
  auto size = [](std::span<std::byte> part) { return static_cast<int64_t>(part.size()); };
  auto contents = [&](std::span<std::byte> part) {
    Reading reading(device, part.data(), size(part));
    return std::vector<std::byte>(reading.data, reading.data + part.size());
  };
  device.beginStep({1, 0});
  work.call();
  device.endStep();
  std::vector<std::byte> expected = contents(work.out);

  std::vector<DeviceMemory> kept;
  int64_t maxBytes = size(work.out);
  device.beginStep({1, 0});
  for (std::span<std::byte> part : work.reads) {
    maxBytes = std::max(maxBytes, size(part));
    kept.emplace_back(device, size(part));
    device.copy(kept.back().data(), part.data(), size(part));
  }
  device.endStep();
  DeviceMemory garbage(device, maxBytes), result(device, size(work.out));
  std::memset(device.beginWrite(garbage.data(), maxBytes), 0x42, static_cast<size_t>(maxBytes));
  device.endWrite();
  for (int round = 0; round < 24; ++round) {
    auto spoil = [&](std::span<std::byte> part) {
      int64_t bytes = round % 2 ? element : size(part);
      device.copy(part.data() + part.size() - bytes, garbage.data(), bytes);
    };
    device.beginStep({1, 0});
    for (size_t i = 0; i < work.reads.size(); ++i)
      device.copy(work.reads[i].data(), kept[i].data(), size(work.reads[i]));
    spoil(work.out);
    work.call();
    device.copy(result.data(), work.out.data(), size(work.out));
    spoil(work.out);
    for (std::span<std::byte> part : work.reads)
      spoil(part);
    device.endStep();
    EXPECT_EQ(contents(bytesOf(result.data(), size(work.out))), expected) << "in round " << round;
  }
}

} // namespace

TEST_P(DeviceTest, ProductsAreDoneInOrder) {
  int64_t m = 3, k = 5, n = 7;
  const float *x = tensor(numbers(m * k, 1)), *bias = tensor(numbers(n, 2));
  float *residual = tensor(numbers(m * n, 3)), *out = tensor(numbers(m * n, 4));
  std::shared_ptr<Matrix> matrix = device->makeMatrix(k, n);
  device->setRows(*matrix, 0, k, numbers(k * n, 5).data());
  expectInOrder(*device,
                {{bytesOf(x, m * k * 4), bytesOf(bias, n * 4), bytesOf(residual, m * n * 4)},
                 bytesOf(out, m * n * 4),
                 [&] {
                   Product product = {matrix.get(), bias, residual, out, TPC_EPILOGUE_NONE};
                   device->multiply({x, m, k, {&product, 1}});
                 }});
  const float *a = tensor(numbers(2 * m * k, 6)), *b = tensor(numbers(2 * k * n, 7));
  float *products = tensor(numbers(2 * m * n, 8));
  expectInOrder(*device,
                {{bytesOf(a, 2 * m * k * 4), bytesOf(b, 2 * k * n * 4)},
                 bytesOf(products, 2 * m * n * 4),
                 [&] { device->batchProduct({a, b, products, 2, m, k, n, m * k, k * n}); }});
}

TEST_P(DeviceTest, AttentionIsDoneInOrder) {
  if (!GetParam().hasAttention)
    return;
  int64_t batch = 2, queries = 3, keys = 5, heads = 4, kvHeads = 2, size = 4, valueSize = 8;
  auto floats = [&](std::initializer_list<int64_t> sizes) {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return bytesOf(tensor(numbers(count, static_cast<int>(count))), count * 4);
  };
  auto bits = [&](std::initializer_list<int64_t> sizes) {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    std::vector<uint8_t> values(static_cast<size_t>(count), 1);
    for (size_t i = 0; i + 1 < values.size(); i += 3)
      values[i] = 0;
    return bytesOf(tensor(values), count);
  };
  std::vector<std::span<std::byte>> parts = {floats({batch, queries, heads, size}),
                                             floats({batch, keys, kvHeads, size}),
                                             floats({batch, keys, kvHeads, valueSize}),
                                             floats({batch, heads, queries, keys}),
                                             floats({heads}),
                                             bits({batch, keys}),
                                             bits({batch, heads, queries, keys})};
  tpc_attention_args args = {};
  auto at = [&](size_t i) { return reinterpret_cast<const float *>(parts[i].data()); };
  args.q = at(0);
  args.k = at(1);
  args.v = at(2);
  args.bias = at(3);
  args.slopes = at(4);
  args.key_mask = reinterpret_cast<const uint8_t *>(parts[5].data());
  args.mask = reinterpret_cast<const uint8_t *>(parts[6].data());
  std::span<std::byte> out = floats({batch, queries, heads, valueSize});
  args.out = reinterpret_cast<float *>(out.data());
  args.batch = batch;
  args.seq_q = queries;
  args.seq_k = keys;
  args.heads_q = heads;
  args.heads_kv = kvHeads;
  args.head_size = size;
  args.value_size = valueSize;
  args.q_row_stride = heads * size;
  args.k_row_stride = kvHeads * size;
  args.v_row_stride = kvHeads * valueSize;
  args.out_row_stride = heads * valueSize;
  args.bias_batch_stride = args.mask_batch_stride = heads * queries * keys;
  args.bias_head_stride = args.mask_head_stride = queries * keys;
  args.scale = 1;
  expectInOrder(*device, {parts, out, [&] { device->attention(args); }});
}

TEST_P(DeviceTest, AppendsAreDoneInOrder) {
  int64_t batch = 2, heads = 2, sequence = 3, capacity = 6, size = 4;
  // Cache entries without appended rows are inputs of the operation.
  std::vector<float> contents = numbers(batch * heads * capacity * size, 1);
  float *before = tensor(contents), *cache = tensor(contents);
  float *fresh = tensor(numbers(batch * sequence * heads * size, 2));
  tpc_append_args args = {};
  args.cache = cache;
  args.fresh = fresh;
  args.lengths = tensor(std::vector<int64_t>{1, 4});
  args.batch = batch;
  args.heads = heads;
  args.sequence = sequence;
  args.capacity = capacity;
  args.size = size;
  args.fresh_batch_stride = sequence * heads * size;
  args.fresh_head_stride = size;
  args.fresh_row_stride = heads * size;
  args.dtype = TPC_F32;
  int64_t bytes = batch * heads * capacity * size * 4;
  expectInOrder(*device,
                {{bytesOf(fresh, batch * sequence * heads * size * 4), bytesOf(before, bytes)},
                 bytesOf(cache, bytes),
                 [&] {
                   device->copy(cache, before, bytes);
                   device->append(args);
                 }});
}

TEST_P(DeviceTest, LaunchesAreDoneInOrder) {
  const float *x = tensor(numbers(1, 1));
  float *out = tensor(numbers(1, 2));
  expectInOrder(*device, {{bytesOf(x, 4)}, bytesOf(out, 4), [&] {
                            launch(Twice, {const_cast<float *>(x), out}, 1);
                          }});
}

// An error ends a step early: its pending outputs are dropped.
TEST_P(DeviceTest, UnfinishedStepsDeliverNothing) {
  const std::vector<float> values = numbers(4, 1);
  const float *x = tensor(values);
  bool isOver = false;
  int late = 0, again = 0;
  device->beginStep({4, 0});
  device->deliver(x, 16, [&](const std::byte *) { late += isOver ? 1 : 0; });
  isOver = true;
  device->beginStep({4, 0});
  device->deliver(x, 16, [&](const std::byte *data) {
    ++again;
    EXPECT_EQ(std::memcmp(data, values.data(), 16), 0);
  });
  device->endStep();
  EXPECT_EQ(late, 0);
  EXPECT_EQ(again, 1);
}

// A replay would not repeat reads by the host during a step.
TEST_P(DeviceTest, StepsInWhichTheHostReadsAreNotRecorded) {
  if (!device->canRecord())
    return;
  const std::vector<float> values = numbers(4, 1);
  const float *x = tensor(values);
  float *out = tensor(numbers(4, 2));
  for (bool reads : {false, true, false}) {
    device->beginStep({4, 0});
    launch(Twice, {const_cast<float *>(x), out}, 4);
    if (reads)
      EXPECT_EQ(valuesOf(out, 1)[0], 2 * values[0]);
    device->endStep();
    EXPECT_EQ(device->prepareRecording() == nullptr, reads);
  }
}
