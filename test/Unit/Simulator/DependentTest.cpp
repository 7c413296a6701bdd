//===- DependentTest.cpp - Programmatic dependent launches ----------------===//

#include "SimulatorTesting.h"

using namespace sim;

namespace {

// Each copies 4 bytes from `x` to `z`, and adds 4 bytes of `w`, which `early` and `cached` read
// before they wait.
const char *dependentText = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry early(.param .u64 w, .param .u64 x, .param .u64 z) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  griddepcontrol.launch_dependents;
  ld.param.u64 %rd1, [w];
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [z];
  ld.global.b32 %r1, [%rd1];
  griddepcontrol.wait;
  ld.global.b32 %r2, [%rd2];
  add.s32 %r3, %r1, %r2;
  st.global.b32 [%rd3], %r3;
  ret;
}
.visible .entry cached(.param .u64 w, .param .u64 x, .param .u64 z) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [w];
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [z];
  griddepcontrol.wait;
  ld.global.nc.b32 %r1, [%rd1];
  ld.global.b32 %r2, [%rd2];
  add.s32 %r3, %r1, %r2;
  st.global.b32 [%rd3], %r3;
  ret;
}
.visible .entry never(.param .u64 w, .param .u64 x, .param .u64 z) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [w];
  ld.global.b32 %r1, [%rd1];
  ret;
}
.visible .entry writes(.param .u64 w, .param .u64 x, .param .u64 z) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd3, [z];
  st.global.b32 [%rd3], 1;
  griddepcontrol.wait;
  ret;
}
)";

struct Chain : Device {
  DevicePointer constant = upload<int>({1}), a = upload<int>({10}), b = upload<int>({0}),
                c = upload<int>({0}), d = upload<int>({0});
  Stream *first = stream();
  bool inGraph;

  explicit Chain(bool inGraph) : inGraph(inGraph) {
    module = load();
    if (inGraph)
      EXPECT_EQ(cuStreamBeginCapture_v2(first, CaptureThreadLocal), SUCCESS);
  }
  std::map<std::string, Function *> load() {
    std::map<std::string, Function *> made;
    for (const char *name : {"early", "cached", "never", "writes"}) {
      made[name] = function(dependentText, name);
      EXPECT_EQ(cuFuncLoad(made[name]), SUCCESS);
    }
    return made;
  }
  Result go(const char *name, bool isDependent, DevicePointer w, DevicePointer x, DevicePointer z) {
    LaunchAttribute attribute{LaunchProgrammaticSerialization, 0, {}};
    attribute.value.allowed = isDependent;
    LaunchSettings settings{1, 1, 1, 1, 1, 1, 0, first, &attribute, 1};
    void *parameters[] = {&w, &x, &z};
    return cuLaunchKernelEx(&settings, module[name], parameters, nullptr);
  }
  Result end() {
    if (inGraph) {
      Graph *graph = nullptr;
      GraphExec *exec = nullptr;
      EXPECT_EQ(cuStreamEndCapture(first, &graph), SUCCESS);
      EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), SUCCESS);
      EXPECT_EQ(cuGraphLaunch(exec, first), SUCCESS);
      // Returns the error of the first launch if that has run already.
      Result again = cuGraphLaunch(exec, first);
      EXPECT_TRUE(again == SUCCESS || again == ERROR_LAUNCH_FAILED);
    }
    return cuStreamSynchronize(first);
  }
  std::map<std::string, Function *> module;
};

} // namespace

TEST(Dependent, ReadsConstantsBeforeItWaits) {
  for (int seed = 0; seed < 4; ++seed)
    for (bool inGraph : {false, true})
      EXPECT_PASSES(seeded(seed), [inGraph] {
        Chain chain(inGraph);
        EXPECT_EQ(chain.go("early", false, chain.constant, chain.a, chain.b), SUCCESS);
        EXPECT_EQ(chain.go("early", true, chain.constant, chain.b, chain.c), SUCCESS);
        EXPECT_EQ(chain.go("early", true, chain.constant, chain.c, chain.d), SUCCESS);
        EXPECT_EQ(chain.end(), SUCCESS);
        EXPECT_EQ(chain.download<int>(chain.d, 1)[0], 13);
      });
}

/// Each function enqueues a chain with a violation, which is found when it runs.
TEST(Dependent, ViolationsAreFound) {
  using Step = void (*)(Chain &);
  const std::pair<Step, const char *> violations[] = {
      // Reads a result of the previous kernel.
      {[](Chain &c) {
         c.go("early", false, c.constant, c.a, c.b);
         c.go("early", true, c.b, c.a, c.c);
       },
       "race: reads memory before griddepcontrol.wait"},
      // The previous kernel began early, too: the one before it may still run.
      {[](Chain &c) {
         c.go("early", false, c.constant, c.a, c.b);
         c.go("early", true, c.constant, c.a, c.c);
         c.go("early", true, c.b, c.a, c.d);
       },
       "race: reads memory before griddepcontrol.wait"},
      // The compiler of machine code may move such reads.
      {[](Chain &c) {
         c.go("early", false, c.constant, c.a, c.b);
         c.go("cached", true, c.b, c.a, c.c);
       },
       "race: reads memory before griddepcontrol.wait"},
      // Overwrites an operand of the previous kernel.
      {[](Chain &c) {
         c.go("early", false, c.constant, c.d, c.b);
         c.go("writes", true, c.constant, c.a, c.d);
       },
       "race: writes memory before griddepcontrol.wait"},
      {[](Chain &c) {
         c.go("early", false, c.constant, c.a, c.b);
         c.go("never", true, c.constant, c.a, c.c);
       },
       "ends without griddepcontrol.wait"},
  };
  for (const auto &[step, message] : violations)
    for (bool inGraph : {false, true}) {
      Findings findings;
      EXPECT_PASSES(findings.with(seeded(3)), [step, inGraph] {
        Chain chain(inGraph);
        step(chain);
        EXPECT_EQ(chain.end(), ERROR_LAUNCH_FAILED);
      });
      EXPECT_FINDS(findings, message);
    }
}

/// Results of kernels before one that waited for all earlier work are constant.
TEST(Dependent, IsOrderedAfterFullDependencies) {
  EXPECT_PASSES(seeded(1), [] {
    Chain chain(true);
    EXPECT_EQ(chain.go("early", false, chain.constant, chain.a, chain.b), SUCCESS);
    EXPECT_EQ(chain.go("early", false, chain.constant, chain.a, chain.c), SUCCESS);
    EXPECT_EQ(chain.go("early", true, chain.b, chain.c, chain.d), SUCCESS);
    EXPECT_EQ(chain.end(), SUCCESS);
    EXPECT_EQ(chain.download<int>(chain.d, 1)[0], 22);
  });
}

TEST(Dependent, FollowsKernelsOnly) {
  Findings findings;
  EXPECT_PASSES(findings.with(seeded(1)), [] {
    Chain chain(false);
    EXPECT_EQ(chain.go("early", true, chain.constant, chain.a, chain.b), ERROR_INVALID_VALUE);
    EXPECT_EQ(chain.cuMemsetD8Async(chain.b, 0, 4, chain.first), SUCCESS);
    EXPECT_EQ(chain.go("early", true, chain.constant, chain.a, chain.b), ERROR_INVALID_VALUE);
    EXPECT_EQ(chain.end(), SUCCESS);
  });
  EXPECT_FINDS(findings, "after an operation that is no kernel");
  Findings old;
  EXPECT_PASSES(old.with({{"TPC_SIM_CAPABILITY", "8.0"}}), [] {
    Device device;
    Function *add = device.function(addText, "add");
    LaunchAttribute attribute{LaunchProgrammaticSerialization, 0, {}};
    attribute.value.allowed = 1;
    LaunchSettings settings{1, 1, 1, 1, 1, 1, 0, device.stream(), &attribute, 1};
    DevicePointer x = device.upload<float>({1});
    int n = 1;
    void *parameters[] = {&x, &x, &n};
    EXPECT_EQ(device.cuLaunchKernelEx(&settings, add, parameters, nullptr), ERROR_NOT_SUPPORTED);
  });
  EXPECT_FINDS(old, "needs sm_90");
}

TEST(Dependent, CapturesDescribeTheirLastNode) {
  EXPECT_PASSES({}, [] {
    Chain chain(true);
    CaptureStatus status = CaptureNone;
    GraphNode *const *nodes = nullptr;
    const EdgeData *edges = nullptr;
    size_t count = 7;
    auto query = [&] {
      EXPECT_EQ(chain.cuStreamGetCaptureInfo_v3(chain.first, &status, nullptr, nullptr, &nodes,
                                                &edges, &count),
                SUCCESS);
    };
    query();
    EXPECT_EQ(status, CaptureActive);
    EXPECT_EQ(count, 0u);
    NodeType type = NodeCopy;
    EXPECT_EQ(chain.go("early", false, chain.constant, chain.a, chain.b), SUCCESS);
    query();
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(chain.cuGraphNodeGetType(nodes[0], &type), SUCCESS);
    EXPECT_EQ(type, NodeKernel);
    EXPECT_EQ(chain.cuMemsetD8Async(chain.b, 0, 4, chain.first), SUCCESS);
    query();
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(chain.cuGraphNodeGetType(nodes[0], &type), SUCCESS);
    EXPECT_NE(type, NodeKernel);
    EXPECT_EQ(chain.end(), SUCCESS);
  });
}
