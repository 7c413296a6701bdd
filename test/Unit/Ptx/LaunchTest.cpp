//===- LaunchTest.cpp - Launches of whole kernels -------------------------===//

#include "PtxTesting.h"

using namespace ptx;

// y[i] = 2 * x[i] for 100 elements, in blocks of 64.
static const char *scaleBody = R"(
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p1, %r4, 100;
  @%p1 bra $L_end;
  mul.wide.u32 %rd5, %r4, 4;
  add.s64 %rd6, %rd0, %rd5;
  add.s64 %rd7, %rd1, %rd5;
  ld.global.nc.b32 %r5, [%rd6];
  add.rn.f32 %r6, %r5, %r5;
  st.global.b32 [%rd7], %r6;
$L_end:)";

TEST(Launch, Scales) {
  Module module = parsed(entry(2, scaleBody));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Memory memory(seed);
    std::vector<float> x(100);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float(i) - 50.5f;
    uint64_t in = upload(memory, x, "x"), out = memory.allocate(400, "y");
    std::array arguments{Argument::pointer(in), Argument::pointer(out)};
    Result result =
        launch(module, "k", arguments, memory, {.grid = {2}, .block = {64}, .seed = seed});
    EXPECT_TRUE(result.clean()) << result.str();
    EXPECT_EQ(memory.countUnwritten(out, 400), 0u);
    auto y = download<float>(memory, out, 100);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i], 2 * x[i]);
    EXPECT_EQ(result.counters.global.readSectors, 13u); // 400 bytes are 12.5 sectors
    EXPECT_EQ(result.counters.allocations.at("y").writtenBytes, 400u);
    EXPECT_EQ(result.counters.allocations.at("x").distinctReadBytes, 400u);
  }
}

TEST(Launch, AccessPastTheEndIsFound) {
  Module module = parsed(entry(2, scaleBody));
  Memory memory;
  uint64_t in = upload(memory, std::vector<float>(99), "x"), out = memory.allocate(400, "y");
  std::array arguments{Argument::pointer(in), Argument::pointer(out)};
  Result result = launch(module, "k", arguments, memory, {.grid = {2}, .block = {64}});
  ASSERT_EQ(result.findings.size(), 1u) << result.str();
  EXPECT_EQ(result.findings[0].check, Check::Memory);
  EXPECT_EQ(result.findings[0].text, "ld.global.nc.b32 %r5, [%rd6]");
  EXPECT_NE(result.findings[0].message.find("0 bytes past the end of x"), std::string::npos)
      << result.str();
  EXPECT_EQ(result.findings[0].thread.x, 35u);
  EXPECT_EQ(result.findings[0].block.x, 1u);
  EXPECT_FALSE(result.completed);
}
