//===- ShapeSpec.h - Parser of "batch=2,sequence=128" ---------------------===//

#ifndef TPC_DRIVER_SHAPESPEC_H
#define TPC_DRIVER_SHAPESPEC_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tpc {

/// Sizes of symbolic dimensions, by name.
using ShapeBinding = std::map<std::string, int64_t>;

/// Parses `name=size,…`, with sizes from 0 (an empty batch is valid) to maxShapeSize. Empty text
/// has no bindings. On failure returns nothing and sets `error` to one line.
std::optional<ShapeBinding> parseShape(std::string_view text, std::string &error);

inline constexpr int64_t maxShapeSize = int64_t(1) << 31;

} // namespace tpc

#endif // TPC_DRIVER_SHAPESPEC_H
