//===- ManifestNode.h - Checked access to the manifest's JSON ---*- C++ -*-===//

#ifndef TPC_RT_PROGRAM_MANIFESTNODE_H
#define TPC_RT_PROGRAM_MANIFESTNODE_H

#include "program/Error.h"
#include "program/Manifest.h"
#include "tpc/printable.h"
#include <nlohmann/json.hpp>

namespace tpc::rt {

using nlohmann::json;

[[noreturn]] inline void refuse(const std::string &where, const std::string &what) {
  throw UserError("the program's manifest is damaged: " + where + ": " + what +
                  "; compile the program again");
}

/// JSON object and its path, for messages.
struct Node {
  const json &value;
  std::string where;

  bool has(const char *key) const { return value.is_object() && value.contains(key); }
  Node operator[](const char *key) const {
    if (!value.is_object())
      refuse(where, "not an object");
    auto it = value.find(key);
    if (it == value.end())
      refuse(where, std::string("no '") + key + "'");
    return {*it, where + "." + key};
  }
  std::string text() const {
    if (!value.is_string())
      refuse(where, "not text");
    return value.get<std::string>();
  }
  /// Returns the text with unprintable characters escaped. Paths use `text`.
  std::string name() const { return printable(text()); }
  int64_t integer() const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
      refuse(where, "not an integer");
    return value.get<int64_t>();
  }
  int64_t integerIn(int64_t min, int64_t max) const {
    int64_t result = integer();
    if (result < min || result > max)
      refuse(where, std::to_string(result) + " is not in " + std::to_string(min) + "…" +
                        std::to_string(max));
    return result;
  }
  bool flag() const {
    if (!value.is_boolean())
      refuse(where, "neither true nor false");
    return value.get<bool>();
  }
  std::string textOr(const char *key, const char *otherwise) const {
    return has(key) ? (*this)[key].text() : otherwise;
  }
  std::string nameOr(const char *key, const char *otherwise) const {
    return has(key) ? (*this)[key].name() : otherwise;
  }
  int64_t integerOr(const char *key, int64_t otherwise) const {
    return has(key) ? (*this)[key].integer() : otherwise;
  }
  template <class Fn> void each(Fn fn) const {
    if (!value.is_array())
      refuse(where, "not a list");
    for (size_t i = 0; i < value.size(); ++i)
      fn(Node{value[i], where + "[" + std::to_string(i) + "]"});
  }
  template <class Fn> void eachIfPresent(const char *key, Fn fn) const {
    if (has(key))
      (*this)[key].each(fn);
  }
};

tpc_dtype readDtype(const Node &node);
/// Returns the axes that a list such as ["tp"] names, as indices of the grid's order.
std::vector<int> readAxes(const Node &node, const Manifest &manifest);
/// Requires the grid, the files, and the parameters before this one in `manifest`.
Parameter readParameter(const Node &node, const Manifest &manifest);
/// Sets `sameAs` and `transposeOf`: finds parameters that a rank can store only once. Names must
/// agree, because random weights depend on them.
void findShared(std::vector<Parameter> &parameters);
/// Requires all other data in `manifest`.
Generation readGeneration(const Node &node, const Manifest &manifest);
Training readTraining(const Node &node, const Manifest &manifest);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_MANIFESTNODE_H
