//===- IntegersTest.cpp - Integers and bits against the manual ------------===//

#include "Table.h"

using namespace ptx;

TEST(Integers, Sums) {
  check("add.s32", "rrr", {{3, 1, 2}, {0x80000000, 0x7fffffff, 1}, {0, 0xffffffff, 1}});
  check("add.u32", "rrr", {{0, 0xffffffff, 1}});
  check("add.sat.s32", "rrr",
        {{0x7fffffff, 0x7fffffff, 1}, {0x80000000, 0x80000000, 0xffffffff}, {5, 2, 3}});
  check("sub.sat.s32", "rrr", {{0x7fffffff, 0x7fffffff, 0xffffffff}, {0x80000000, 0x80000000, 1}});
  check("add.s16", "hhh", {{0x8000, 0x7fff, 1}, {0, 0xffff, 1}});
  check("add.u64", "ddd", {{0, ~0ull, 1}, {1ull << 32, 0xffffffff, 1}});
  check("sub.s64", "ddd", {{~0ull, 0, 1}, {1ull << 63, 1ull << 63, 0}});
  check("sub.u16", "hhh", {{0xffff, 0, 1}});
}

TEST(Integers, Products) {
  check("mul.lo.s32", "rrr", {{6, 2, 3}, {1, 0xffffffff, 0xffffffff}, {0, 0x10000, 0x10000}});
  check("mul.lo.u16", "hhh", {{1, 0xffff, 0xffff}, {0, 0x100, 0x100}});
  check("mul.lo.s64", "ddd", {{0, 1ull << 32, 1ull << 32}, {~0ull, ~0ull, 1}});
  check("mul.hi.s32", "rrr",
        {{0, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff, 1},
         {0x40000000, 0x80000000, 0x80000000}});
  check("mul.hi.u32", "rrr", {{0xfffffffe, 0xffffffff, 0xffffffff}, {1, 0x10000, 0x10000}});
  check("mul.hi.u64", "ddd", {{~0ull - 1, ~0ull, ~0ull}, {1, 1ull << 32, 1ull << 32}});
  check("mul.hi.s64", "ddd", {{0, ~0ull, ~0ull}, {1ull << 62, 1ull << 63, 1ull << 63}});
  check("mul.hi.s16", "hhh", {{0xffff, 0xffff, 1}});
  check("mul.wide.u32", "drr", {{0xfffffffe00000001, 0xffffffff, 0xffffffff}});
  check("mul.wide.s32", "drr", {{1, 0xffffffff, 0xffffffff}, {uint64_t(-2), 0xffffffff, 2}});
  check("mul.wide.u16", "rhh", {{0xfffe0001, 0xffff, 0xffff}});
  check("mul.wide.s16", "rhh", {{0xffffffff, 0xffff, 1}});
  check("mad.lo.s32", "rrrr", {{10, 2, 3, 4}, {0, 0xffffffff, 1, 1}});
  check("mad.lo.u64", "dddd", {{10, 2, 3, 4}});
  check("mad.lo.s16", "hhhh", {{10, 2, 3, 4}});
  check("mad.hi.u32", "rrrr", {{5, 0x10000, 0x10000, 4}});
  check("mad.hi.s32", "rrrr", {{3, 0xffffffff, 1, 4}});
  check("mad.wide.u32", "drrd",
        {{0x100000004, 0x10000, 0x10000, 4}, {0, 0xffffffff, 0xffffffff, 0x1ffffffff}});
  check("mad.wide.s32", "drrd", {{1, 0xffffffff, 3, 4}});
}

TEST(Integers, Quotients) {
  check("div.s32", "rrr",
        {{0xfffffffe, 0xfffffffb, 2}, {2, 7, 3}, {0x80000000, 0x80000000, 0xffffffff}});
  check("rem.s32", "rrr",
        {{0xffffffff, 0xfffffffb, 2}, {1, 7, 3}, {1, 7, 0xfffffffd}, {0, 0x80000000, 0xffffffff}});
  check("div.u32", "rrr", {{0x7ffffffd, 0xfffffffb, 2}, {0xffffffff, 7, 0}});
  check("rem.u32", "rrr", {{1, 0xfffffffb, 2}, {7, 7, 0}});
  check("div.u64", "ddd", {{~0ull / 3, ~0ull, 3}, {~0ull, 5, 0}});
  check("rem.u64", "ddd", {{(1ull << 40) % 1000, 1ull << 40, 1000}});
  check("div.s64", "ddd", {{uint64_t(-2), uint64_t(-5), 2}, {1ull << 63, 1ull << 63, ~0ull}});
  check("rem.s64", "ddd", {{uint64_t(-1), uint64_t(-5), 2}, {0, 1ull << 63, ~0ull}});
  check("div.s16", "hhh", {{0xfffe, 0xfffb, 2}});
  check("rem.u16", "hhh", {{1, 0xfffb, 2}});
}

TEST(Integers, Extremes) {
  check("min.s32", "rrr", {{0xffffffff, 0xffffffff, 1}});
  check("min.u32", "rrr", {{1, 0xffffffff, 1}});
  check("max.s64", "ddd", {{1, ~0ull, 1}});
  check("max.u64", "ddd", {{~0ull, ~0ull, 1}});
  check("max.s16", "hhh", {{1, 0xffff, 1}});
  check("min.u16", "hhh", {{1, 0xffff, 1}});
  check("neg.s32", "rr", {{0xffffffff, 1}, {0x80000000, 0x80000000}});
  check("neg.s64", "dd", {{~0ull, 1}});
  check("neg.s16", "hh", {{0xffff, 1}});
  check("abs.s32", "rr", {{1, 0xffffffff}, {0x80000000, 0x80000000}});
  check("abs.s64", "dd", {{1, ~0ull}});
}

TEST(Bits, Logic) {
  check("and.b32", "rrr", {{0x0f000000, 0xff00ff00, 0x0f0f00ff}});
  check("or.b64", "ddd", {{0xff, 0xf0, 0x0f}});
  check("xor.b16", "hhh", {{0xff00, 0xf0f0, 0x0ff0}});
  check("not.b32", "rr", {{0xffff0000, 0x0000ffff}});
  check("not.b16", "hh", {{0xff00, 0x00ff}});
  check("not.b64", "dd", {{~0ull, 0}});
  check("cnot.b32", "rr", {{1, 0}, {0, 7}});
  check("and.pred", "ppp", {{1, 1, 1}, {0, 1, 0}});
  check("or.pred", "ppp", {{1, 1, 0}, {0, 0, 0}});
  check("xor.pred", "ppp", {{1, 1, 0}, {0, 1, 1}});
  check("not.pred", "pp", {{1, 0}, {0, 1}});
  // The rows enumerate a, b, c.
  for (uint64_t table : {0x80, 0xfe, 0x96, 0x6a})
    check("lop3.b32", "rrrr", {{table, 0xf0, 0xcc, 0xaa}}, ", " + std::to_string(table));
}

// Amounts beyond the width are clamped to it, not taken modulo it.
TEST(Bits, Shifts) {
  check("shl.b32", "rrr", {{2, 1, 1}, {0x80000000, 1, 31}, {0, 1, 32}, {0, 1, 0xffffffff}});
  check("shl.b64", "ddr", {{1ull << 63, 1, 63}, {0, 1, 64}});
  check("shl.b16", "hhr", {{0x8000, 1, 15}, {0, 1, 16}});
  check("shr.u32", "rrr", {{1, 0x80000000, 31}, {0, 0x80000000, 32}, {0, ~0u, 0x80000001}});
  check("shr.s32", "rrr",
        {{0xffffffff, 0x80000000, 31}, {0xffffffff, 0x80000000, 32}, {0, 0x7fffffff, 40}});
  check("shr.s64", "ddr", {{~0ull, 1ull << 63, 64}, {1, 2, 1}});
  check("shr.u64", "ddr", {{0, 1ull << 63, 64}});
  check("shr.b16", "hhr", {{1, 0x8000, 15}, {0, 0x8000, 16}});
  check("shr.s16", "hhr", {{0xffff, 0x8000, 99}});
  check("shf.l.wrap.b32", "rrrr",
        {{1, 0x80000000, 1, 0}, {3, 0x80000000, 1, 1}, {3, 0x80000000, 1, 33}});
  check("shf.l.clamp.b32", "rrrr",
        {{0x80000000, 0x80000000, 1, 33}, {0x80000000, 0x80000000, 1, 32}});
  check("shf.r.wrap.b32", "rrrr",
        {{0xc0000000, 0x80000000, 1, 1}, {0xc0000000, 0x80000000, 1, 33}});
  check("shf.r.clamp.b32", "rrrr", {{1, 0x80000000, 1, 33}, {0xc0000000, 0x80000000, 1, 1}});
}

TEST(Bits, Fields) {
  check("bfe.u32", "rrrr",
        {{0xbc, 0x12abcdef, 12, 8},
         {0, 5, 0, 0},
         {1, 0x80000000, 31, 8},
         {0, ~0u, 40, 8},
         {0x12abcdef, 0x12abcdef, 0, 255}});
  check("bfe.s32", "rrrr",
        {{0xffffffbc, 0x12abcdef, 12, 8},
         {0, ~0u, 3, 0},
         {0xffffffff, 0x80000000, 31, 8},
         {0xffffffff, 0x80000000, 40, 8},
         {0, 0x7fffffff, 40, 8}});
  check("bfe.u64", "ddrr", {{0xff, 0xff00000000, 32, 8}});
  check("bfe.s64", "ddrr", {{~0ull, 0xff00000000, 32, 8}});
  check("bfi.b32", "rrrrr",
        {{0xffff12ff, 0x12, 0xffffffff, 8, 8},
         {0xffffffff, 0x12, 0xffffffff, 8, 0},
         {0x80000000, 1, 0, 31, 8},
         {7, 1, 7, 32, 8}});
  check("bfi.b64", "dddrr", {{0xff00000000, 0xff, 0, 32, 8}});
}

TEST(Bits, Counts) {
  check("popc.b32", "rr", {{0, 0}, {32, ~0u}, {2, 0x80000001}});
  check("popc.b64", "rd", {{64, ~0ull}});
  check("clz.b32", "rr", {{32, 0}, {0, ~0u}, {31, 1}});
  check("clz.b64", "rd", {{64, 0}, {63, 1}});
  check("brev.b32", "rr", {{0x80000000, 1}, {0x0000ffff, 0xffff0000}});
  check("brev.b64", "dd", {{1ull << 63, 1}});
  check("bfind.u32", "rr", {{0xffffffff, 0}, {31, 0x80000000}, {4, 0x10}});
  check("bfind.s32", "rr", {{0xffffffff, 0xffffffff}, {0, 0xfffffffe}, {4, 0x10}});
  check("bfind.shiftamt.u32", "rr", {{27, 0x10}});
  check("bfind.u64", "rd", {{63, 1ull << 63}});
}

TEST(Bits, Permutations) {
  // Bytes 0 to 3 are from a, 4 to 7 from b.
  uint64_t a = 0x83828180, b = 0x07060504;
  check("prmt.b32", "rrrr",
        {{0x83828180, a, b, 0x3210},
         {0x07060504, a, b, 0x7654},
         {0x80818283, a, b, 0x0123},
         {0xff00ff00, a, b, 0xbf8c}});
  check("prmt.b32.f4e", "rrrr",
        {{0x83828180, a, b, 0}, {0x04838281, a, b, 1}, {0x06050483, a, b, 3}});
  check("prmt.b32.b4e", "rrrr", {{0x05060780, a, b, 0}, {0x80818283, a, b, 3}});
  check("prmt.b32.rc8", "rrrr", {{0x82828282, a, b, 2}});
  check("prmt.b32.ecl", "rrrr", {{0x83828180, a, b, 0}, {0x83828282, a, b, 2}});
  check("prmt.b32.ecr", "rrrr", {{0x80808080, a, b, 0}, {0x82828180, a, b, 2}});
  check("prmt.b32.rc16", "rrrr", {{0x81808180, a, b, 0}, {0x83828382, a, b, 1}});
}
