//===- Types.h - PTX types and state spaces -------------------------------===//

#ifndef TPC_TEST_SIMULATOR_PTX_TYPES_H
#define TPC_TEST_SIMULATOR_PTX_TYPES_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace ptx {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  U8,
  S8,
  B16,
  U16,
  S16,
  F16,
  BF16,
  B32,
  U32,
  S32,
  F32,
  TF32,
  F16x2,
  BF16x2,
  B64,
  U64,
  S64,
  F64,
};

enum class Space : uint8_t { Generic, Global, Shared, Local, Param, Const };

/// Parses a type, such as "f32".
std::optional<Type> parseType(std::string_view text);
std::string_view nameOf(Type type);
std::optional<Space> parseSpace(std::string_view text);

/// Returns the bits of a value in memory; 0 for predicates.
constexpr unsigned bitsOf(Type type) {
  if (type == Type::None || type == Type::Pred)
    return 0;
  return type < Type::B16 ? 8 : type < Type::B32 ? 16 : type < Type::B64 ? 32 : 64;
}
constexpr unsigned bytesOf(Type type) { return bitsOf(type) / 8; }

constexpr bool isSigned(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}
constexpr bool isUnsigned(Type type) {
  return type == Type::U8 || type == Type::U16 || type == Type::U32 || type == Type::U64;
}
constexpr bool isBits(Type type) {
  return type == Type::B8 || type == Type::B16 || type == Type::B32 || type == Type::B64;
}
constexpr bool isFloat(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F32 || type == Type::F64;
}
constexpr bool isInteger(Type type) { return isSigned(type) || isUnsigned(type); }

} // namespace ptx

#endif
