//===- Types.cpp - PTX types and state spaces -----------------------------===//

#include "Types.h"

#include <array>
#include <utility>

using namespace ptx;

static constexpr std::pair<std::string_view, Type> types[] = {
    {"pred", Type::Pred}, {"b8", Type::B8},     {"u8", Type::U8},       {"s8", Type::S8},
    {"b16", Type::B16},   {"u16", Type::U16},   {"s16", Type::S16},     {"f16", Type::F16},
    {"bf16", Type::BF16}, {"b32", Type::B32},   {"u32", Type::U32},     {"s32", Type::S32},
    {"f32", Type::F32},   {"tf32", Type::TF32}, {"f16x2", Type::F16x2}, {"bf16x2", Type::BF16x2},
    {"b64", Type::B64},   {"u64", Type::U64},   {"s64", Type::S64},     {"f64", Type::F64}};

std::optional<Type> ptx::parseType(std::string_view text) {
  for (auto [name, type] : types)
    if (name == text)
      return type;
  return std::nullopt;
}

std::string_view ptx::nameOf(Type type) {
  for (auto [name, other] : types)
    if (other == type)
      return name;
  return "no type";
}

std::optional<Space> ptx::parseSpace(std::string_view text) {
  if (text == "global")
    return Space::Global;
  if (text == "shared")
    return Space::Shared;
  if (text == "local")
    return Space::Local;
  if (text == "param")
    return Space::Param;
  if (text == "const")
    return Space::Const;
  return std::nullopt;
}
