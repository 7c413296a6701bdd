//===- Harness.h - one suite on every transport ---------------------------===//
//
// Started by itself, the suite runs every grid with its ranks as threads. Started by a launcher,
// each process is one rank, and the grids of that many ranks are run; rank 0 prints and writes the
// report.
//
// TPC_CONFORMANCE=late runs it on the device of LateDevice.h, links on the same with links of its
// own, cuda on GPUs, of which each rank has one.
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

/// Null when ranks are threads.
Session *session();

/// The grids to test: those of up to `most` ranks, and of the launcher's size if there is one.
std::vector<Grid> grids(int most);
/// "tp2_dp2": for the names of tests.
std::string nameOf(const Grid &grid);

/// A world of the suite's transport. The grid must be one of `grids`.
std::unique_ptr<World> makeWorld(const Grid &grid);

/// Whether sums of floats have the bits of additions in ascending rank order. Otherwise they are
/// additions in some order, the same in every run.
bool sumsInRankOrder(const tpc_context &ctx);

/// The sets of a grid's axes to communicate over: all subsets in the long run. By default, all of
/// the axes of more than one coordinate, and few with the others, which change no group.
std::vector<uint32_t> masksOf(const Grid &grid);

/// A test that every rank takes part in. What fails on one rank fails on all.
class WorldTest : public testing::TestWithParam<Grid> {
protected:
  void TearDown() override;
  /// Runs `fn` on all ranks; an error of a rank fails the test.
  void onAllRanks(const std::function<void(tpc_context &)> &fn);
};

} // namespace tpc::rt::conformance

#define TPC_INSTANTIATE_WORLDS(suite, most)                                                        \
  INSTANTIATE_TEST_SUITE_P(Worlds, suite, testing::ValuesIn(tpc::rt::conformance::grids(most)),    \
                           [](const testing::TestParamInfo<tpc::rt::Grid> &info) {                 \
                             return tpc::rt::conformance::nameOf(info.param);                      \
                           })

#endif // TPC_RT_CONFORMANCE_HARNESS_H
