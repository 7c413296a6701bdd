//===- Harness.cpp - Harness of the transport conformance tests -----------===//

#include "Harness.h"
#include "LateDevice.h"
#include "core/Context.h"
#include "core/Transport.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ostream>

namespace tpc::rt::conformance {

namespace {

std::shared_ptr<Session> theSession;

/// Prints only failures; used on ranks other than 0.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult &result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", theSession->rank(),
                   result.file_name() ? result.file_name() : "?", result.line_number(),
                   result.summary());
  }
};

} // namespace

/// Whether the test runner selected this level: "quick", "default" or "long".
static bool isLevel(const char *level) {
  const char *value = std::getenv("TPC_TESTS");
  return value && std::string(value) == level;
}

Session *session() { return theSession.get(); }

std::vector<Grid> grids(int maximum) {
  using Axes = std::vector<Grid::Axis>;
  const Axes all[] = {
      {{"tp", 1}},
      {{"tp", 2}},
      {{"tp", 1}, {"dp", 2}, {"pp", 1}},
      {{"tp", 3}},
      {{"tp", 4}},
      {{"tp", 2}, {"dp", 2}},
      {{"dp", 2}, {"tp", 2}},
      {{"tp", 3}, {"cp", 1}, {"pp", 2}},
      {{"pp", 2}, {"tp", 3}},
      {{"tp", 8}},
      {{"tp", 2}, {"dp", 2}, {"pp", 2}},
      {{"tp", 4}, {"pp", 2}},
      {{"tp", 2}, {"cp", 2}, {"ep", 1}, {"dp", 3}, {"pp", 1}},
      {{"tp", 8}, {"pp", 4}},
  };
  if (isLevel("quick"))
    maximum = std::min(maximum, 4);
  std::vector<Grid> grids;
  for (const Axes &axes : all)
    if (Grid grid(axes);
        grid.numRanks() <= maximum && (!theSession || theSession->size() == grid.numRanks()))
      grids.push_back(grid);
  return grids;
}

std::string nameOf(const Grid &grid) {
  std::string name;
  for (const Grid::Axis &axis : grid.axes())
    name += (name.empty() ? "" : "_") + axis.name + std::to_string(axis.size);
  return name;
}

std::unique_ptr<World> makeWorld(const Grid &grid) {
  return theSession ? World::processes(grid, 1, theSession) : World::threads(grid, 1);
}

std::vector<uint32_t> masksOf(const Grid &grid) {
  uint32_t single = 0;
  for (int32_t axis = 0; axis < grid.numAxes(); ++axis)
    if (grid.axes()[axis].size == 1)
      single |= uint32_t(1) << axis;
  std::vector<uint32_t> masks;
  for (uint32_t axes = 0; axes <= grid.allAxes(); ++axes)
    // Masks with no axis of size one, the mask of exactly these axes, and the mask of all axes.
    if (isLevel("long") || !(axes & single) || axes == single || axes == grid.allAxes())
      masks.push_back(axes);
  return masks;
}

bool sumsInRankOrder(const tpc_context &ctx) { return !ctx.transport->isOnDevice(); }

void WorldTest::TearDown() {
  if (theSession && theSession->agree(HasFailure()).failed && !HasFailure())
    ADD_FAILURE() << "this test failed on another rank";
}

void WorldTest::onAllRanks(const std::function<void(tpc_context &)> &fn) {
  std::optional<std::string> error = makeWorld(GetParam())->run(fn);
  EXPECT_FALSE(error) << *error;
}

} // namespace tpc::rt::conformance

namespace tpc::rt {
void PrintTo(const Grid &grid, std::ostream *os) { *os << conformance::nameOf(grid); }
} // namespace tpc::rt

int main(int argc, char **argv) {
  using namespace tpc::rt;
  using namespace tpc::rt::conformance;
  const char *value = std::getenv("TPC_CONFORMANCE");
  std::string devices = value ? value : "", problem;
  // Must run before GoogleTest enumerates the grids.
  if (Launcher launcher = detectLauncher(); launcher.present()) {
    std::string error;
    theSession = joinLauncher(launcher, error);
    if (!theSession) {
      std::fprintf(stderr, "error: %s\n", error.c_str());
      return 1;
    }
  }
  const DeviceKind *kind = devices == "late"    ? &lateDevices()
                           : devices == "links" ? &linkedLateDevices()
                           : devices == "cuda"  ? cudaDevices(problem)
                                                : nullptr;
  if (kind) {
    Placement placement;
    placement.threads = !theSession;
    placement.first = theSession ? theSession->rank() : 0;
    placement.onHost = theSession ? theSession->ranksOnHost() : 8;
    problem = kind->assign(placement);
    if (std::string note = problem.empty() ? kind->setSharing(/*shared=*/false) : ""; !note.empty())
      std::fprintf(stderr, "note: %s\n", note.c_str());
    selectDevices(*kind);
  } else if (value && problem.empty()) {
    problem = "TPC_CONFORMANCE must be 'late', 'links' or 'cuda'";
  }
  if (!problem.empty()) {
    std::fprintf(stderr, "error: %s\n", problem.c_str());
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  if (theSession && theSession->rank() != 0) {
    // GoogleTest creates the report's writer when it parses flags: two ranks must not write the
    // same file.
    auto &listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_xml_generator());
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  int status = RUN_ALL_TESTS();
  theSession.reset();
  return status;
}
