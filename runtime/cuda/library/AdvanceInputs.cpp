//===- AdvanceInputs.cpp - Kernel that advances step inputs ---------------===//
//
// A thread advances the inputs of one row, if the row was sampled and its best token is chosen:
// token, lengths, position of the random numbers, and the bit of the token if there is a penalty.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/AdvanceInputs.h"

namespace tpc::rt::cuda {
namespace {

constexpr const char *head = R"(
.visible .entry tpc_advance_inputs(
  .param .u64 best_, .param .u64 settings_, .param .u64 tokens_, .param .u64 lengths_,
  .param .u64 window_lengths_, .param .u32 rows_, .param .u32 row_bytes_,
  .param .u32 token_shift_, .param .u32 length_shift_, .param .u32 window_shift_,
  .param .u32 last_token_)
.maxntid 128, 1, 1
{
  .reg .pred %p, %wide;
  .reg .b32 %row, %rows, %r, %token, %high, %shift, %number, %bits;
  .reg .b64 %best, %settings, %base, %at, %x, %number64;
  .reg .f32 %penalty;
  // griddepcontrol.launch_dependents;
  // griddepcontrol.wait;
  mov.u32 %row, %ctaid.x;
  mov.u32 %r, %tid.x;
  mad.lo.u32 %row, %row, 128, %r;
  ld.param.u32 %rows, [rows_];
  setp.ge.u32 %p, %row, %rows;
  @%p bra DONE;
  ld.param.u64 %settings, [settings_];
  cvta.to.global.u64 %settings, %settings;
  ld.param.u32 %r, [row_bytes_];
  mul.wide.u32 %x, %row, %r;
  add.u64 %settings, %settings, %x;
  ld.global.u32 %r, [%settings];
  setp.eq.u32 %p, %r, 0;
  @%p bra DONE;
  ld.global.u32 %r, [%settings+36];
  setp.ne.u32 %p, %r, 0;
  @%p bra DONE;
  ld.param.u64 %base, [best_];
  cvta.to.global.u64 %base, %base;
  mul.wide.u32 %x, %row, 8;
  add.u64 %at, %base, %x;
  ld.global.u64 %best, [%at];
  setp.eq.u64 %p, %best, 0x8000000000000000;
  @%p bra DONE;
  mov.b64 {%token, %high}, %best;
  not.b32 %token, %token;
  ld.global.u32 %r, [%settings+12];
  add.u32 %r, %r, 1;
  st.global.u32 [%settings+12], %r;
  ld.global.f32 %penalty, [%settings+32];
  setp.equ.f32 %p, %penalty, 0f3F800000;
  @%p bra TOKEN;
  shr.u32 %r, %token, 5;
  mul.wide.u32 %x, %r, 4;
  add.u64 %at, %settings, %x;
  ld.global.u32 %bits, [%at+48];
  and.b32 %r, %token, 31;
  mov.u32 %number, 1;
  shl.b32 %number, %number, %r;
  or.b32 %bits, %bits, %number;
  st.global.u32 [%at+48], %bits;
TOKEN:
  ld.param.u32 %r, [last_token_];
  min.u32 %number, %token, %r;
  ld.param.u64 %base, [tokens_];
  ld.param.u32 %shift, [token_shift_];
  cvta.to.global.u64 %base, %base;
  cvt.u64.u32 %x, %row;
  shl.b64 %x, %x, %shift;
  add.u64 %at, %base, %x;
  setp.eq.u32 %wide, %shift, 3;
  cvt.u64.u32 %number64, %number;
  @!%wide st.global.u32 [%at], %number;
  @%wide st.global.u64 [%at], %number64;
)";

/// Adds 1 to the row's element of NAME, which may be null.
constexpr const char *grow = R"(  ld.param.u64 %base, [NAMEs_];
  setp.eq.u64 %p, %base, 0;
  @%p bra NAME;
  ld.param.u32 %shift, [SHORT_shift_];
  cvta.to.global.u64 %base, %base;
  cvt.u64.u32 %x, %row;
  shl.b64 %x, %x, %shift;
  add.u64 %at, %base, %x;
  setp.eq.u32 %wide, %shift, 3;
  @%wide bra NAME_wide;
  ld.global.u32 %number, [%at];
  add.u32 %number, %number, 1;
  st.global.u32 [%at], %number;
  bra NAME;
NAME_wide:
  ld.global.u64 %number64, [%at];
  add.u64 %number64, %number64, 1;
  st.global.u64 [%at], %number64;
NAME:
)";

std::string growing(const std::string &name, const std::string &shortName) {
  std::string text = grow;
  auto replaceAll = [&](const std::string &from, const std::string &to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replaceAll("NAME", name);
  replaceAll("SHORT", shortName);
  return text;
}

} // namespace

std::string advanceInputsKernel() {
  return head + growing("length", "length") + growing("window_length", "window") +
         "DONE:\n  ret;\n}\n";
}

} // namespace tpc::rt::cuda
