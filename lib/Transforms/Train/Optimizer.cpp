//===- Optimizer.cpp - Settings of an optimizer ---------------------------===//

#include "Optimizer.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// A setting with its valid range: [0, max), or (0, max) if it must be positive.
struct Setting {
  StringRef name;
  double *value;
  double max;
  bool isPositive = false;
};
} // namespace

FailureOr<Optimizer> Optimizer::parse(StringRef text, StringRef noDecay, std::string &error) {
  auto [name, list] = text.split(':');
  Optimizer result;
  result.isAdam = name == "adamw";
  error = "--optimizer=" + text.str() + ": ";
  if (!result.isAdam && name != "sgd") {
    error += "there is no optimizer '" + name.str() + "': expected adamw or sgd";
    return failure();
  }
  constexpr double largest = 1e30;
  SmallVector<Setting> settings = {{"decay", &result.decay, largest},
                                   {"clip", &result.clip, largest}};
  if (result.isAdam) {
    result.decay = 0.01;
    settings.append({{"beta1", &result.beta1, 1},
                     {"beta2", &result.beta2, 1},
                     {"epsilon", &result.epsilon, largest, /*isPositive=*/true}});
  } else {
    settings.push_back({"momentum", &result.momentum, 1});
  }
  while (!list.empty()) {
    StringRef item;
    std::tie(item, list) = list.split(',');
    auto [key, value] = item.split('=');
    const Setting *found = llvm::find_if(settings, [&](const Setting &s) { return s.name == key; });
    if (found == settings.end()) {
      error += "optimizer '" + name.str() + "' has no setting '" + key.str() + "': it has";
      for (const Setting &setting : settings)
        error += (&setting == settings.begin() ? " " : ", ") + setting.name.str();
      return failure();
    }
    double number = 0;
    if (value.getAsDouble(number) || !(number >= 0 && number < found->max) ||
        (found->isPositive && number == 0)) {
      error += item.str() + ": expected " +
               (found->isPositive ? "a positive number" : "0 or more") +
               (found->max == 1 ? ", below 1" : "");
      return failure();
    }
    *found->value = number;
  }
  while (!noDecay.empty()) {
    StringRef pattern;
    std::tie(pattern, noDecay) = noDecay.split(',');
    llvm::Expected<llvm::GlobPattern> parsed = llvm::GlobPattern::create(pattern);
    if (!parsed) {
      error = "--no-decay=" + pattern.str() + ": " + llvm::toString(parsed.takeError());
      return failure();
    }
    result.noDecay.push_back(std::move(*parsed));
  }
  return result;
}
