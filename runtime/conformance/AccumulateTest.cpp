//===- AccumulateTest.cpp - Device tests of sums over micro-batches -------===//

#include "tpc/accumulate.h"
#include "DeviceTest.h"

using namespace tpc::rt;
using namespace tpc::rt::conformance;

/// The first micro-batch sets the sum, whatever it was. Sums begin at any element of an allocation,
/// and the elements around them do not change. Sums are in the order of micro-batches.
TEST_P(DeviceTest, SumsOverMicroBatches) {
  constexpr int64_t microBatches = 3;
  for (int64_t count : {0, 1, 3, 255, 256, 257, 1025}) {
    for (int64_t shift : {0, 1, 4}) {
      SCOPED_TRACE(std::to_string(count) + " elements from element " + std::to_string(shift));
      const int64_t all = shift + count + 3;
      std::vector<float> before = numbers(all, 1), expected = before;
      float *sum = tensor(before);
      std::vector<const float *> parts;
      for (int64_t m = 0; m < microBatches; ++m) {
        std::vector<float> part = numbers(all, static_cast<int>(m) + 2);
        for (float &x : part)
          x = x / 3 + 1e-3f; // so that sums are rounded
        parts.push_back(tensor(part));
        for (int64_t i = shift; i < shift + count; ++i) {
          auto at = static_cast<size_t>(i);
          expected[at] = m == 0 ? part[at] : expected[at] + part[at];
        }
      }
      device->beginStep({1, 0});
      for (int64_t m = 0; m < microBatches; ++m)
        tpc_accumulate(&world->local(0), sum + shift, parts[static_cast<size_t>(m)] + shift, count,
                       m);
      device->endStep();
      EXPECT_EQ(valuesOf(sum, before.size()), expected);
      memory.clear();
    }
  }
}
