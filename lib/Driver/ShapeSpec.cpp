//===- ShapeSpec.cpp - Parser of --shape ----------------------------------===//

#include "tpc/Driver/ShapeSpec.h"

#include "llvm/ADT/StringExtras.h"

using namespace tpc;

static std::string quote(llvm::StringRef text) {
  std::string escaped;
  llvm::raw_string_ostream os(escaped);
  llvm::printEscapedString(text.take_front(60), os);
  return "'" + escaped + (text.size() > 60 ? "…'" : "'");
}

std::optional<ShapeBinding> tpc::parseShape(std::string_view text, std::string &error) {
  ShapeBinding binding;
  if (text.empty())
    return binding;
  llvm::SmallVector<llvm::StringRef> items;
  llvm::StringRef(text).split(items, ',');
  for (llvm::StringRef item : items) {
    auto [name, digits] = item.trim().split('=');
    int64_t size = 0;
    if (name.empty() || digits.empty()) {
      error = quote(item) + ": write the name of a dimension and its size, for example "
                            "batch=2,sequence=128";
      return std::nullopt;
    }
    if (!llvm::all_of(digits, llvm::isDigit)) {
      error =
          quote(item) + ": " + quote(digits) + " is not a size; write a whole number, such as 2";
      return std::nullopt;
    }
    if (digits.getAsInteger(10, size) || size > maxShapeSize) {
      error = quote(item) + ": the size is too large: at most " + std::to_string(maxShapeSize);
      return std::nullopt;
    }
    if (!binding.try_emplace(name.str(), size).second) {
      error = quote(name) + " is given twice";
      return std::nullopt;
    }
  }
  return binding;
}
