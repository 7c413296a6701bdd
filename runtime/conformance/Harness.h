//===- Harness.h - Harness of the transport conformance tests -------------===//
//
// Without a launcher, the suite runs every grid with its ranks as threads. Under a launcher, each
// process is one rank, and the suite runs the grids of that many ranks; rank 0 prints and writes
// the report.
//
// TPC_CONFORMANCE selects the devices:
//   late    the device of LateDevice.h
//   links   the device of LateDevice.h with the collective backend of LateBackend.h
//   cuda    GPUs, one per rank
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CONFORMANCE_HARNESS_H
#define TPC_RT_CONFORMANCE_HARNESS_H

#include "core/World.h"
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace tpc::rt::conformance {

/// Returns the session of this process, or null if ranks are threads.
Session *session();

/// Returns the grids of at most `maximum` ranks. Under a launcher, returns only grids of its size.
std::vector<Grid> grids(int maximum);
/// "tp2_dp2": part of test names.
std::string nameOf(const Grid &grid);

/// Creates a world of the suite's transport. The grid must be one of `grids`.
std::unique_ptr<World> makeWorld(const Grid &grid);

/// Whether float sums add in ascending rank order, bit for bit. Otherwise the order is unspecified,
/// but the same in every run.
bool sumsInRankOrder(const tpc_context &ctx);

/// Returns the sets of axes to communicate over. Level long: all subsets. By default: all subsets
/// of the axes larger than one, and a few that also contain axes of size one, which do not change
/// groups.
std::vector<uint32_t> masksOf(const Grid &grid);

/// A test in which every rank takes part. A failure on one rank fails the test on all.
class WorldTest : public testing::TestWithParam<Grid> {
protected:
  void TearDown() override;
  /// Runs `fn` on all ranks; an error of a rank fails the test.
  void onAllRanks(const std::function<void(tpc_context &)> &fn);
};

} // namespace tpc::rt::conformance

#define TPC_INSTANTIATE_WORLDS(suite, maximum)                                                     \
  INSTANTIATE_TEST_SUITE_P(Worlds, suite, testing::ValuesIn(tpc::rt::conformance::grids(maximum)), \
                           [](const testing::TestParamInfo<tpc::rt::Grid> &info) {                 \
                             return tpc::rt::conformance::nameOf(info.param);                      \
                           })

#endif // TPC_RT_CONFORMANCE_HARNESS_H
