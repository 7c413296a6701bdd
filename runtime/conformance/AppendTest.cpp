//===- AppendTest.cpp - Device tests of cache appends ---------------------===//
//
// Compares appends of all types, sizes, strides and alignments with a loop over elements.
//
//===----------------------------------------------------------------------===//

#include "DeviceTest.h"
#include "core/DType.h"
#include <limits>
#include <random>

using namespace tpc::rt;
using namespace tpc::rt::conformance;

namespace {

/// Layout of the new rows. Padded: the rows of a head are padded to a multiple of 8 elements.
enum class Order : uint8_t { TokensFirst, HeadsFirst, PartOfRows, Padded };

struct AppendCase {
  int32_t dtype = TPC_F32;
  int64_t batch = 1, heads = 1, sequence = 1, capacity = 1, size = 1;
  Order order = Order::TokensFirst;
  int64_t cacheShift = 0, freshShift = 0; ///< offsets of the data, in elements
  std::vector<int64_t> lengths;

  /// Generates a random case. In one of 8 cases, the first length is out of range.
  static AppendCase draw(unsigned seed) {
    std::mt19937 random(seed);
    auto from = [&](std::initializer_list<int64_t> list) {
      return list.begin()[random() % list.size()];
    };
    AppendCase made;
    made.dtype = static_cast<int32_t>(from({TPC_F32, TPC_F16, TPC_BF16}));
    made.batch = from({1, 2, 3, 5});
    made.heads = from({1, 2, 3, 8});
    made.sequence = from({1, 1, 2, 3, 17});
    made.capacity = from({1, 2, 7, 40, 64});
    made.size = from({1, 2, 3, 4, 8, 10, 16, 33, 64, 128});
    made.order = static_cast<Order>(random() % 4);
    made.cacheShift = from({0, 0, 0, 1, 2, 4});
    made.freshShift = from({0, 0, 0, 1, 2, 4});
    for (int64_t b = 0; b < made.batch; ++b)
      made.lengths.push_back(static_cast<int64_t>(random() % uint64_t(made.capacity + 1)));
    if (random() % 8 == 0)
      made.lengths[0] = from({-1, made.capacity + 1, std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()});
    return made;
  }

  std::string str() const {
    std::string text = std::string(spellType(dtype)) + " [" + std::to_string(batch) + ", " +
                       std::to_string(heads) + ", " + std::to_string(capacity) + ", " +
                       std::to_string(size) + "], " + std::to_string(sequence) + " each, order " +
                       std::to_string(static_cast<int>(order)) + ", shifts " +
                       std::to_string(cacheShift) + " " + std::to_string(freshShift) + ", lengths";
    for (int64_t length : lengths)
      text += " " + std::to_string(length);
    return text;
  }
};

/// Pseudorandom bytes.
std::vector<std::byte> bytes(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> made(static_cast<size_t>(count));
  for (std::byte &byte : made)
    byte = static_cast<std::byte>(random());
  return made;
}

} // namespace

TEST_P(DeviceTest, AppendsOfAllLayouts) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    AppendCase made = AppendCase::draw(seed);
    int64_t element = sizeOf(made.dtype);
    tpc_append_args args = {};
    args.batch = made.batch;
    args.heads = made.heads;
    args.sequence = made.sequence;
    args.capacity = made.capacity;
    args.size = made.size;
    args.dtype = made.dtype;
    if (made.order == Order::HeadsFirst) {
      args.fresh_row_stride = made.size;
      args.fresh_head_stride = made.sequence * made.size;
      args.fresh_batch_stride = made.heads * args.fresh_head_stride;
    } else if (made.order == Order::Padded) {
      // All strides are multiples of 8, although the head size may be odd.
      constexpr int64_t multiple = 8;
      args.fresh_head_stride = (made.size + multiple - 1) / multiple * multiple;
      args.fresh_row_stride = made.heads * args.fresh_head_stride;
      args.fresh_batch_stride = made.sequence * args.fresh_row_stride;
    } else {
      // Queries, keys and values of a token may form one row, of possibly odd length.
      args.fresh_head_stride = made.size;
      args.fresh_row_stride = made.order == Order::PartOfRows
                                  ? 3 * made.heads * made.size + seed % 4
                                  : made.heads * made.size;
      args.fresh_batch_stride = made.sequence * args.fresh_row_stride;
    }
    int64_t rows = made.batch * made.heads * made.capacity;
    std::vector<std::byte> cache = bytes((made.cacheShift + rows * made.size) * element, seed);
    std::vector<std::byte> fresh =
        bytes((made.freshShift + made.batch * args.fresh_batch_stride) * element, seed + 1000);
    std::byte *cacheAt = tensor(cache), *freshAt = tensor(fresh);
    std::vector<std::byte> expected = cache;
    for (int64_t b = 0; b < made.batch; ++b)
      for (int64_t h = 0; h < made.heads; ++h)
        for (int64_t i = 0; i < made.sequence; ++i) {
          int64_t before = std::max<int64_t>(made.lengths[static_cast<size_t>(b)], 0);
          if (before >= made.capacity || before + i >= made.capacity)
            continue;
          int64_t to = ((b * made.heads + h) * made.capacity + before + i) * made.size;
          int64_t from =
              b * args.fresh_batch_stride + h * args.fresh_head_stride + i * args.fresh_row_stride;
          std::memcpy(expected.data() + (made.cacheShift + to) * element,
                      fresh.data() + (made.freshShift + from) * element,
                      static_cast<size_t>(made.size * element));
        }
    args.cache = cacheAt + made.cacheShift * element;
    args.fresh = freshAt + made.freshShift * element;
    args.lengths = tensor(made.lengths);
    device->beginStep({1, 0});
    device->append(args);
    device->endStep();
    EXPECT_EQ(valuesOf(cacheAt, cache.size()), expected) << "seed " << seed << ": " << made.str();
    memory.clear();
  }
}

TEST_P(DeviceTest, ReplayedStepsAppendAtCurrentLengths) {
  if (!device->canRecord())
    return;
  constexpr int64_t capacity = 9, size = 4;
  std::vector<float> zeros(capacity * size), fresh = numbers(size, 1);
  tpc_append_args args = {};
  auto *cache = tensor(zeros), *row = tensor(fresh);
  auto *length = tensor(std::vector<int64_t>{0});
  args.cache = cache;
  args.fresh = row;
  args.lengths = length;
  args.batch = args.heads = args.sequence = 1;
  args.capacity = capacity;
  args.size = args.fresh_row_stride = args.fresh_head_stride = args.fresh_batch_stride = size;
  args.dtype = TPC_F32;
  device->beginStep({1, 0});
  device->append(args);
  device->endStep();
  std::unique_ptr<Recording> recording = device->prepareRecording();
  ASSERT_TRUE(recording);
  std::vector<float> expected = zeros;
  std::copy(fresh.begin(), fresh.end(), expected.begin());
  for (int64_t at : {5, 2, 8, 9}) {
    std::memcpy(device->beginWrite(length, sizeof(at)), &at, sizeof(at));
    device->endWrite();
    std::vector<float> next = numbers(size, static_cast<int>(at));
    std::memcpy(device->beginWrite(row, size * 4), next.data(), size * 4);
    device->endWrite();
    device->beginStep({1, 0});
    if (at == 5) {
      device->beginRecording(*recording);
      device->append(args);
      device->endRecording(*recording);
    }
    device->replay(*recording);
    device->endStep();
    if (at < capacity)
      std::copy(next.begin(), next.end(), expected.begin() + at * size);
    EXPECT_EQ(valuesOf(cache, zeros.size()), expected) << at;
  }
}

TEST_P(DeviceTest, TooLargeAppendsAreRejected) {
  if (!device->canRecord())
    return; // only GPUs number vectors by thread indices
  tpc_append_args args = {};
  args.batch = args.heads = args.sequence = int64_t(1) << 10;
  args.capacity = args.size = 16;
  args.dtype = TPC_F32;
  try {
    device->append(args);
    ADD_FAILURE() << "2^32 vectors exceed 32-bit indices";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("too many for 32-bit indices"), std::string::npos)
        << error.what();
  }
}
