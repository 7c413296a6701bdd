//===- InputDefault.cpp - What an input is when it is left out -------------===//

#include "tpc/Dialect/InputDefault.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static constexpr llvm::StringLiteral kOnes = "ones", kPositions = "positions", kAfter = " after ",
                                     kOf = " of ";

std::string InputDefault::str() const {
  if (kind == Kind::Ones)
    return kOnes.str();
  if (!mask.empty())
    return (kPositions + kOf + mask).str();
  return past.isConstant(0) ? kPositions.str() : (kPositions + kAfter + past.str()).str();
}

std::optional<InputDefault> InputDefault::parse(StringRef text) {
  InputDefault result;
  if (text == kOnes)
    return result;
  result.kind = Kind::Positions;
  if (!text.consume_front(kPositions))
    return std::nullopt;
  if (text.empty())
    return result;
  if (text.consume_front(kOf) && !text.empty()) {
    result.mask = text.str();
    return result;
  }
  std::optional<SymExpr> past;
  if (text.consume_front(kAfter))
    past = SymExpr::parse(std::string_view(text.data(), text.size()));
  if (!past)
    return std::nullopt;
  result.past = *past;
  return result;
}

std::optional<InputDefault> InputDefault::get(DictionaryAttr attributes) {
  auto text = attributes ? attributes.getAs<StringAttr>(kDefaultAttr) : StringAttr();
  return text ? parse(text.getValue()) : std::nullopt;
}
