//===- DType.h - Element types --------------------------------------------===//

#ifndef TPC_RT_CORE_DTYPE_H
#define TPC_RT_CORE_DTYPE_H

#include "tpc/runtime.h"
#include <cstdint>

namespace tpc::rt {

/// Bytes per element; 0 for an invalid type.
constexpr int64_t sizeOf(int32_t dtype) {
  switch (dtype) {
  case TPC_F64:
  case TPC_I64:
    return 8;
  case TPC_F32:
  case TPC_I32:
    return 4;
  case TPC_F16:
  case TPC_BF16:
  case TPC_I16:
    return 2;
  case TPC_I8:
  case TPC_U8:
  case TPC_BOOL:
    return 1;
  default:
    return 0;
  }
}

constexpr bool isFloat(int32_t dtype) {
  return dtype == TPC_F64 || dtype == TPC_F32 || dtype == TPC_F16 || dtype == TPC_BF16;
}

/// "f32", as the manifest spells it; "?" for an invalid type.
constexpr const char *spellType(int32_t dtype) {
  constexpr const char *names[] = {"f32", "f64", "f16", "bf16", "i8",
                                   "i16", "i32", "i64", "bool", "u8"};
  return dtype >= 0 && dtype < 10 ? names[dtype] : "?";
}

} // namespace tpc::rt

#endif // TPC_RT_CORE_DTYPE_H
