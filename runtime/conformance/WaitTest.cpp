//===- WaitTest.cpp - Tests of futex waits and wakeups --------------------===//

#include "core/Futex.h"
#include "core/SpinWait.h"
#include <chrono>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

using namespace tpc::rt;

TEST(Spin, IsDisabledWithoutSpareCores) {
  tpc_spin spin = tpc_spin_begin(false, 0);
  EXPECT_FALSE(tpc_spin_again(&spin));
  EXPECT_FALSE(tpc_spin_again(&spin));
}

TEST(Spin, YieldsTheCoreOnRequest) {
  tpc_spin spin = tpc_spin_begin(false, 3);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(tpc_spin_again(&spin));
  EXPECT_FALSE(tpc_spin_again(&spin));
}

TEST(Spin, Ends) {
  tpc_spin spin = tpc_spin_begin(true, 2);
  int64_t begin = tpc_spin_clock(), looks = 0;
  while (tpc_spin_again(&spin))
    ++looks;
  EXPECT_GE(tpc_spin_clock() - begin, TPC_SPIN_NANOSECONDS);
  EXPECT_GE(looks, 2 * TPC_SPIN_LOOKS_PER_YIELD);
  EXPECT_FALSE(tpc_spin_again(&spin));
}

TEST(Futex, GivesUpInTime) {
  Futex word;
  for (bool spin : {false, true})
    EXPECT_EQ(word.wait(spin, 0.01, [](uint32_t value) { return value != 0; }), std::nullopt);
}

TEST(Futex, LosesNoWakeup) {
  // All threads wait for each change, sleeping or spinning.
  constexpr uint32_t rounds = 2000, waiters = 3;
  for (bool spin : {false, true}) {
    Futex turn, arrived;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < waiters; ++i)
      threads.emplace_back([&] {
        for (uint32_t round = 1; round <= rounds; ++round) {
          turn.wait(spin, 0, [&](uint32_t value) { return value >= round; });
          arrived.value.fetch_add(1);
          arrived.wakeAll();
        }
      });
    for (uint32_t round = 1; round <= rounds; ++round) {
      turn.value.store(round);
      turn.wakeAll();
      EXPECT_EQ(arrived.wait(spin, 60, [&](uint32_t value) { return value >= round * waiters; }),
                round * waiters);
    }
    for (std::thread &thread : threads)
      thread.join();
  }
}
