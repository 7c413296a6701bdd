//===- Table.h - One instruction on a table of operands -------------------===//
//
// Expected results come from the PTX manual, as bit patterns.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_UNIT_PTX_TABLE_H
#define TPC_TEST_UNIT_PTX_TABLE_H

#include "PtxTesting.h"

#include <cstring>

namespace ptx {

struct Row {
  uint64_t expected, a = 0, b = 0, c = 0, d = 0;
};

inline uint64_t f(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t d(double value) { return std::bit_cast<uint64_t>(value); }
/// `quiet`: a NaN operand with a payload. `nan32`: the canonical NaN, which PTX returns.
constexpr uint64_t inf = 0x7f800000, minusInf = 0xff800000, quiet = 0x7fc00001, nan32 = 0x7fffffff,
                   minusZero = 0x80000000;
constexpr uint64_t tiny = 1, minusTiny = 0x80000001; // subnormal

/// Evaluates `opcode` for each row, with one thread per row. `kinds` has a letter for each operand,
/// the result first: h, r and d for registers of 16, 32 and 64 bits, p for predicates. For example,
/// "add.s32" with "rrr" is "add.s32 D, A, B;". `last`: text after the operands (an immediate).
inline std::vector<uint64_t> evaluate(const std::string &opcode, const std::string &kinds,
                                      const std::vector<Row> &rows, const std::string &last = "",
                                      uint64_t seed = 0) {
  std::string body =
      "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd5, %r1, 40;\nadd.s64 %rd6, %rd0, %rd5;\n";
  auto name = [&](size_t i) {
    return std::string(kinds[i] == 'h'   ? "%rs"
                       : kinds[i] == 'r' ? "%r"
                       : kinds[i] == 'd' ? "%rd"
                                         : "%p") +
           (kinds[i] == 'p' ? std::to_string(i + 1) : std::to_string(i + 10));
  };
  std::string list = name(0);
  for (size_t i = 1; i < kinds.size(); ++i) {
    std::string from = ", [%rd6+" + std::to_string(8 * i) + "];\n";
    switch (kinds[i]) {
    case 'h':
      body += "ld.global.b16 " + name(i) + from;
      break;
    case 'r':
      body += "ld.global.b32 " + name(i) + from;
      break;
    case 'd':
      body += "ld.global.b64 " + name(i) + from;
      break;
    default:
      body += "ld.global.b32 %r30" + from + "setp.ne.b32 " + name(i) + ", %r30, 0;\n";
    }
    list += ", " + name(i);
  }
  body += opcode + " " + list + last + ";\n";
  if (kinds[0] == 'h')
    body += "st.global.b64 [%rd6], 0;\nst.global.b16 [%rd6], " + name(0) + ";\n";
  else if (kinds[0] == 'r')
    body += "st.global.b64 [%rd6], 0;\nst.global.b32 [%rd6], " + name(0) + ";\n";
  else if (kinds[0] == 'd')
    body += "st.global.b64 [%rd6], " + name(0) + ";\n";
  else
    body += "selp.b64 %rd20, 1, 0, " + name(0) + ";\nst.global.b64 [%rd6], %rd20;\n";
  Module module = parsed(entry(1, body));
  Memory memory;
  uint64_t at = upload(memory, rows, "rows");
  std::array arguments{Argument::pointer(at)};
  Result result = launch(module, "k", arguments, memory,
                         {.grid = {1}, .block = {uint32_t(rows.size())}, .seed = seed});
  EXPECT_TRUE(result.clean()) << opcode << ": " << result.str();
  std::vector<uint64_t> values;
  for (const Row &row : download<Row>(memory, at, rows.size()))
    values.push_back(row.expected);
  return values;
}

inline void check(const std::string &opcode, const std::string &kinds, const std::vector<Row> &rows,
                  const std::string &last = "") {
  std::vector<uint64_t> values = evaluate(opcode, kinds, rows, last);
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(values[i], rows[i].expected)
        << std::hex << opcode << last << " of " << rows[i].a << ", " << rows[i].b << ", "
        << rows[i].c << ", " << rows[i].d << ": " << values[i] << ", not " << rows[i].expected;
}

} // namespace ptx

#endif
