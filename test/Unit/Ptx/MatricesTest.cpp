//===- MatricesTest.cpp - Tests of matrix instructions --------------------===//
//
// Fragments are computed element by element with the formulas of the PTX manual.
//
//===----------------------------------------------------------------------===//

#include "Ptx/Float.h"
#include "PtxTesting.h"

#include <random>
#include <set>

using namespace ptx;

namespace {

struct At {
  unsigned row, column;
};

/// A shape of mma for a type of A and B, with the manual's positions of element i of a
/// lane's fragments.
struct Shape {
  const char *name, *type;
  unsigned depth, registersOfA, perRegister;
  At (*a)(unsigned group, unsigned id, unsigned i);
  At (*b)(unsigned group, unsigned id, unsigned i);
};

At positionOfC(unsigned group, unsigned id, unsigned i) {
  return {i < 2 ? group : group + 8, id * 2 + (i & 1)};
}

At positionOfA16(unsigned group, unsigned id, unsigned i) {
  bool upper = i < 2 || (i >= 4 && i < 6);
  return {upper ? group : group + 8, i < 4 ? id * 2 + (i & 1) : id * 2 + (i & 1) + 8};
}
At positionOfB16(unsigned group, unsigned id, unsigned i) {
  return {i < 2 ? id * 2 + (i & 1) : id * 2 + (i & 1) + 8, group};
}
At positionOfA8(unsigned group, unsigned id, unsigned i) {
  return {i < 2 ? group : group + 8, id * 2 + (i & 1)};
}
At positionOfB8(unsigned group, unsigned id, unsigned i) { return {id * 2 + i, group}; }
At positionOfWideA8(unsigned group, unsigned id, unsigned i) {
  return {i == 0 || i == 2 ? group : group + 8, i < 2 ? id : id + 4};
}
At positionOfWideB8(unsigned group, unsigned id, unsigned i) {
  return {i == 0 ? id : id + 4, group};
}
At positionOfWideA4(unsigned group, unsigned id, unsigned i) {
  return {i == 0 ? group : group + 8, id};
}
At positionOfWideB4(unsigned group, unsigned id, unsigned) { return {id, group}; }

constexpr Shape shapes[] = {{"m16n8k16", "f16", 16, 4, 2, positionOfA16, positionOfB16},
                            {"m16n8k16", "bf16", 16, 4, 2, positionOfA16, positionOfB16},
                            {"m16n8k8", "f16", 8, 2, 2, positionOfA8, positionOfB8},
                            {"m16n8k8", "bf16", 8, 2, 2, positionOfA8, positionOfB8},
                            {"m16n8k8", "tf32", 8, 4, 1, positionOfWideA8, positionOfWideB8},
                            {"m16n8k4", "tf32", 4, 2, 1, positionOfWideA4, positionOfWideB4}};

uint32_t bitsOfElement(const Shape &shape, float value) {
  std::string type = shape.type;
  return type == "f16" ? F16::narrow(value) : type == "bf16" ? BF16::narrow(value) : toBits(value);
}
float valueOfElement(const Shape &shape, uint32_t bits) {
  std::string type = shape.type;
  return type == "f16"    ? F16::widen(uint16_t(bits))
         : type == "bf16" ? BF16::widen(uint16_t(bits))
                          : toFloat(bits);
}

struct Matrices {
  float a[16][16], b[16][8], c[16][8];
};

/// Draws matrices with elements that their types represent.
Matrices draw(const Shape &shape, unsigned seed, bool integers) {
  std::mt19937 random(seed);
  Matrices drawn;
  auto element = [&] {
    float value = integers ? float(int(random() % 17) - 8)
                           : float(int32_t(random())) * std::ldexp(1.0f, -int(random() % 8) - 31);
    return valueOfElement(shape,
                          bitsOfElement(shape, value) & ~(shape.perRegister == 1 ? 8191 : 0));
  };
  for (unsigned k = 0; k < 16; ++k) {
    for (float &value : drawn.a[k])
      value = element();
    for (float &value : drawn.b[k])
      value = element();
    for (float &value : drawn.c[k])
      value = integers ? float(random() % 100) : float(int32_t(random())) * 0x1p-31f;
  }
  return drawn;
}

/// Runs one mma, and returns D by rows.
std::vector<float> runMma(const Shape &shape, const Matrices &in, uint64_t seed) {
  unsigned aCount = shape.registersOfA, bCount = aCount / 2, words = aCount + bCount + 4;
  std::vector<uint32_t> memoryWords(32 * words);
  for (unsigned lane = 0; lane < 32; ++lane) {
    uint32_t *own = &memoryWords[lane * words];
    unsigned group = lane >> 2, id = lane % 4, bits = 32 / shape.perRegister;
    for (unsigned i = 0; i < aCount * shape.perRegister; ++i) {
      At at = shape.a(group, id, i);
      own[i / shape.perRegister] |= bitsOfElement(shape, in.a[at.row][at.column])
                                    << bits * (i % shape.perRegister);
    }
    for (unsigned i = 0; i < bCount * shape.perRegister; ++i) {
      At at = shape.b(group, id, i);
      own[aCount + i / shape.perRegister] |= bitsOfElement(shape, in.b[at.row][at.column])
                                             << bits * (i % shape.perRegister);
    }
    for (unsigned i = 0; i < 4; ++i) {
      At at = positionOfC(group, id, i);
      own[aCount + bCount + i] = toBits(in.c[at.row][at.column]);
    }
  }
  std::string body = "mov.u32 %r30, %tid.x;\nmul.wide.u32 %rd5, %r30, " +
                     std::to_string(4 * words) + ";\nadd.s64 %rd6, %rd0, %rd5;\n";
  for (unsigned i = 0; i < words; ++i)
    body += "ld.global.b32 %r" + std::to_string(i) + ", [%rd6+" + std::to_string(4 * i) + "];\n";
  auto list = [](unsigned from, unsigned count) {
    std::string text = "{";
    for (unsigned i = from; i < from + count; ++i)
      text += (i == from ? "%r" : ", %r") + std::to_string(i);
    return text + "}";
  };
  std::string type = shape.type;
  body += std::string("mma.sync.aligned.") + shape.name + ".row.col.f32." + type + "." + type +
          ".f32 {%r20, %r21, %r22, %r23}, " + list(0, aCount) + ", " + list(aCount, bCount) + ", " +
          list(aCount + bCount, 4) + ";\n";
  for (unsigned i = 0; i < 4; ++i)
    body +=
        "st.global.b32 [%rd6+" + std::to_string(4 * i) + "], %r" + std::to_string(20 + i) + ";\n";
  Module module = parsed(entry(1, body));
  Memory memory(seed);
  uint64_t at = upload(memory, memoryWords, "fragments");
  std::array arguments{Argument::pointer(at)};
  Result result =
      launch(module, "k", arguments, memory, {.grid = {1}, .block = {32}, .seed = seed});
  EXPECT_TRUE(result.clean()) << result.str();
  EXPECT_EQ(result.counters.instructions[size_t(Class::Matrix)], 1u);
  memoryWords = download<uint32_t>(memory, at, 32 * words);
  std::vector<float> made(16 * 8);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      At position = positionOfC(lane >> 2, lane % 4, i);
      made[position.row * 8 + position.column] = toFloat(memoryWords[lane * words + i]);
    }
  return made;
}

} // namespace

/// Sums of small integers are exact in every order.
TEST(Matrices, FragmentsOfMma) {
  for (const Shape &shape : shapes)
    for (unsigned seed = 0; seed < 20; ++seed) {
      Matrices in = draw(shape, seed, true);
      std::vector<float> made = runMma(shape, in, seed);
      for (unsigned i = 0; i < 16; ++i)
        for (unsigned j = 0; j < 8; ++j) {
          float sum = in.c[i][j];
          for (unsigned k = 0; k < shape.depth; ++k)
            sum += in.a[i][k] * in.b[k][j];
          ASSERT_EQ(made[i * 8 + j], sum)
              << shape.name << " " << shape.type << " " << i << " " << j;
        }
    }
}

/// The seed decides how sums are rounded, and their error is at most that of f32.
TEST(Matrices, SumsOfMmaDependOnTheSeed) {
  for (const Shape &shape : shapes) {
    Matrices in = draw(shape, 7, false);
    std::set<std::vector<float>> distinct;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      std::vector<float> made = runMma(shape, in, seed);
      EXPECT_EQ(made, runMma(shape, in, seed));
      distinct.insert(made);
      for (unsigned i = 0; i < 16; ++i)
        for (unsigned j = 0; j < 8; ++j) {
          double sum = in.c[i][j], size = std::fabs(in.c[i][j]);
          for (unsigned k = 0; k < shape.depth; ++k) {
            sum += double(in.a[i][k]) * in.b[k][j];
            size += std::fabs(double(in.a[i][k]) * in.b[k][j]);
          }
          ASSERT_LE(std::fabs(made[i * 8 + j] - sum), (shape.depth + 1) * size * 0x1p-23)
              << shape.name << " " << shape.type << " " << i << " " << j;
        }
    }
    EXPECT_GE(distinct.size(), shape.depth > 4 ? 3u : 2u) << shape.name << " " << shape.type;
  }
}

TEST(Matrices, SpecialValuesOfMma) {
  Matrices in = draw(shapes[0], 0, true);
  in.a[3][5] = std::numeric_limits<float>::infinity();
  in.b[5][2] = 0;
  in.b[5][3] = -1;
  std::vector<float> made = runMma(shapes[0], in, 0);
  EXPECT_EQ(toBits(made[3 * 8 + 2]), canonicalNan);
  EXPECT_EQ(made[3 * 8 + 3], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isfinite(made[2 * 8 + 2]));
}

namespace {

/// Runs an instruction on matrices in shared memory, in which element i of 16 bits is i. Row r of
/// matrix m, at the address of lane 8 m + r, is row 3 (8 m + r) + 1 mod 32 of `stride` bytes. Each
/// thread writes %r10 to %r13.
Result runOnRows(const std::string &body, unsigned stride, std::vector<uint32_t> &words,
                 uint64_t seed) {
  const uint32_t threads = 32;
  Module module = parsed(entry(1, R"(
  .shared .align 16 .b8 tile[4096];
  mov.u32 %r1, %tid.x;
  mov.b64 %rd5, tile;
  mov.b32 %r2, 0;
$L_fill:
  mad.lo.u32 %r3, %r2, 32, %r1;
  cvt.u64.u32 %rd6, %r3;
  mad.lo.u64 %rd6, %rd6, 4, %rd5;
  shl.b32 %r4, %r3, 1;
  add.u32 %r5, %r4, 1;
  shl.b32 %r5, %r5, 16;
  or.b32 %r4, %r4, %r5;
  st.shared.b32 [%rd6], %r4;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 32;
  @%p1 bra $L_fill;
  bar.warp.sync -1;
  mad.lo.u32 %r6, %r1, 3, 1;
  and.b32 %r6, %r6, 31;
  mul.wide.u32 %rd7, %r6, )" + std::to_string(stride) +
                                      R"(;
  add.u64 %rd7, %rd5, %rd7;
  mov.b32 %r10, -1;
  mov.b32 %r11, -1;
  mov.b32 %r12, -1;
  mov.b32 %r13, -1;
  mov.u32 %r7, %laneid;
  setp.lt.u32 %p2, %r7, 16;
  )" + body + R"(
  mul.wide.u32 %rd8, %r1, 16;
  add.u64 %rd8, %rd0, %rd8;
  st.global.b32 [%rd8], %r10;
  st.global.b32 [%rd8+4], %r11;
  st.global.b32 [%rd8+8], %r12;
  st.global.b32 [%rd8+12], %r13;)"));
  Memory memory(seed);
  uint64_t at = memory.allocate(threads * 16, "out");
  std::array arguments{Argument::pointer(at)};
  Result result =
      launch(module, "k", arguments, memory, {.grid = {1}, .block = {threads}, .seed = seed});
  words = download<uint32_t>(memory, at, threads * 4);
  return result;
}

} // namespace

TEST(Matrices, LoadsAndStores) {
  for (unsigned seed = 0; seed < 10; ++seed)
    for (unsigned stride : {16u, 80u, 128u})
      for (bool transposed : {false, true})
        for (unsigned count : {1u, 2u, 4u}) {
          std::string registers = count == 1   ? "{%r10}"
                                  : count == 2 ? "{%r10, %r11}"
                                               : "{%r10, %r11, %r12, %r13}";
          std::string suffix = std::string(".sync.aligned.m8n8.x") + std::to_string(count) +
                               (transposed ? ".trans" : "") + ".shared.b16 ";
          std::vector<uint32_t> words;
          Result result =
              runOnRows("ldmatrix" + suffix + registers + ", [%rd7];", stride, words, seed);
          ASSERT_TRUE(result.clean()) << result.str();
          auto at = [&](unsigned matrix, unsigned row, unsigned column) {
            return uint16_t((3 * (8 * matrix + row) + 1) % 32 * stride / 2 + column);
          };
          for (unsigned lane = 0; lane < 32; ++lane)
            for (unsigned matrix = 0; matrix < count; ++matrix) {
              // Thread T has elements 2 (T % 4) and the next one of row T / 4.
              unsigned row = lane / 4, column = lane % 4 * 2;
              uint16_t low = transposed ? at(matrix, column, row) : at(matrix, row, column),
                       high =
                           transposed ? at(matrix, column + 1, row) : at(matrix, row, column + 1);
              ASSERT_EQ(words[lane * 4 + matrix], uint32_t(high) << 16 | low) << suffix << lane;
            }
          // ldmatrix reads the elements that stmatrix writes.
          std::vector<uint32_t> other;
          result = runOnRows("ldmatrix" + suffix + registers + ", [%rd7];\nbar.warp.sync -1;\n" +
                                 "stmatrix" + suffix + "[%rd7], " + registers +
                                 ";\nbar.warp.sync -1;\nmov.b32 %r10, -1;\nldmatrix" + suffix +
                                 registers + ", [%rd7];",
                             stride, other, seed);
          ASSERT_TRUE(result.clean()) << result.str();
          ASSERT_EQ(words, other);
        }
}

TEST(Matrices, Transposition) {
  std::vector<uint32_t> words;
  Result result = runOnRows("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd7];\n"
                            "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r11}, [%rd7];\n"
                            "movmatrix.sync.aligned.m8n8.trans.b16 %r12, %r10;",
                            16, words, 0);
  ASSERT_TRUE(result.clean()) << result.str();
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(words[lane * 4 + 1], words[lane * 4 + 2]);
    EXPECT_NE(words[lane * 4], words[lane * 4 + 2]);
  }
}

TEST(Matrices, BankConflicts) {
  auto cycles = [](unsigned stride, const char *suffix) {
    std::vector<uint32_t> words;
    Result with = runOnRows(std::string("ldmatrix.sync.aligned.m8n8.") + suffix + ", [%rd7];",
                            stride, words, 0);
    EXPECT_TRUE(with.clean()) << with.str();
    return with.counters.sharedCycles - runOnRows("", stride, words, 0).counters.sharedCycles;
  };
  EXPECT_EQ(cycles(16, "x4.shared.b16 {%r10, %r11, %r12, %r13}"), 4u);
  EXPECT_EQ(cycles(16, "x1.trans.shared.b16 {%r10}"), 1u);
  EXPECT_EQ(cycles(80, "x4.shared.b16 {%r10, %r11, %r12, %r13}"), 4u);
  EXPECT_EQ(cycles(128, "x4.shared.b16 {%r10, %r11, %r12, %r13}"), 32u);
  EXPECT_EQ(cycles(128, "x2.trans.shared.b16 {%r10, %r11}"), 16u);
}

TEST(Matrices, FaultsAreFound) {
  struct Fault {
    const char *what, *body;
    Check check;
    const char *message;
  };
  for (Fault fault : {
           Fault{"half of the lanes",
                 "@%p2 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd7];",
                 Check::Synchronization, "only lanes 0x0000ffff"},
           {"two paths",
            "@%p2 bra $L_low;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd7];\nbra.uni "
            "$L_end;\n$L_low:\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd7];\n$L_end:",
            Check::Synchronization, "wait elsewhere"},
           {"lanes that have ended",
            "@%p2 bra $L_go;\nret;\n$L_go:\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, "
            "[%rd7];",
            Check::Synchronization, "have ended"},
           {"a row that is not aligned",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd7+8];", Check::Memory,
            "not aligned"},
           {"a row outside",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, "
            "[%rd7+3700];",
            Check::Memory, ""},
           {"rows of another lane",
            "@%p2 st.shared.b32 [%rd7], %r1;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, "
            "[%rd7];",
            Check::Race, "no barrier"},
           {"a write before the others have read",
            "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r10}, [%rd7];\nst.shared.b32 "
            "[%rd7], %r1;",
            Check::Race, "no barrier"},
           {"a register that nothing wrote",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13}, {%r10, "
            "%r11, %r12, %r13}, {%r10, %r20}, {%r1, %r1, %r1, %r1};",
            Check::Initialization, "register"},
           {"an mma of some lanes",
            "@%p2 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13}, "
            "{%r10, %r11, %r12, %r13}, {%r10, %r11}, {%r1, %r1, %r1, %r1};",
            Check::Synchronization, "only lanes"},
       })
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<uint32_t> words;
      Result result = runOnRows(fault.body, 16, words, seed);
      bool found = false;
      for (const Finding &finding : result.findings)
        found |= finding.check == fault.check &&
                 finding.message.find(fault.message) != std::string::npos;
      EXPECT_TRUE(found) << fault.what << "\n" << result.str();
    }
}

TEST(Matrices, NeedWholeWarps) {
  Module module =
      parsed(entry(0, "mov.b32 %r0, 0;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;"));
  Memory memory;
  EXPECT_TRUE(launch(module, "k", {}, memory, {.grid = {1}, .block = {64}}).clean());
  Result result = launch(module, "k", {}, memory, {.grid = {1}, .block = {48}});
  EXPECT_NE(result.str().find("the block does not have"), std::string::npos) << result.str();
}

TEST(Matrices, WrongSyntaxIsAnError) {
  for (const char *body :
       {"mma.sync.m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, "
        "{%r0, %r1}, {%r0, %r1, %r2, %r3};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, "
        "%r3}, {%r0, %r1}, {%r0, %r1, %r2, %r3};",
        "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, "
        "%r3}, {%r0, %r1}, {%r0, %r1, %r2, %r3};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2}, "
        "{%r0, %r1}, {%r0, %r1, %r2, %r3};",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [%rd0];",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r0}, [%rd0];",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%rd0];",
        "ldmatrix.aligned.m8n8.x1.shared.b16 {%r0}, [%rd0];"}) {
    std::string error;
    EXPECT_FALSE(parse(entry(1, body), error)) << body;
    EXPECT_NE(error, "");
  }
}
