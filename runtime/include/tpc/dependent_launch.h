//===- dependent_launch.h - Programmatic dependent launch of GPU kernels ------===//
//
// A kernel that is launched with the attribute of programmatic stream serialization may begin
// before the previous kernel of its stream ends. Every thread executes griddepcontrol.wait before
// it reads what another kernel computes, and before it writes to global memory. Before that, it may
// only read constants, such as weights. The next kernel may begin once all blocks have executed
// griddepcontrol.launch_dependents.
//
// These instructions exist from sm_90 on. Kernels for all architectures contain them as comments.
// Plain C++, shared by the compiler, the runtime and tests.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DEPENDENT_LAUNCH_H
#define TPC_DEPENDENT_LAUNCH_H

#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace tpc::dependent_launch {

inline constexpr int kArchitecture = 90;
inline constexpr const char *kLaunchDependents = "// griddepcontrol.launch_dependents;";
inline constexpr const char *kWait = "// griddepcontrol.wait;";

/// Returns the text of kernels for sm_90 and later, with the instructions instead of the comments.
inline std::string enable(std::string_view ptx) {
  constexpr std::string_view comment = "// ", instruction = "griddepcontrol.";
  std::string text;
  text.reserve(ptx.size());
  for (size_t at; (at = ptx.find(instruction)) != ptx.npos; ptx.remove_prefix(instruction.size())) {
    text += ptx.substr(0, at);
    ptx.remove_prefix(at);
    if (text.ends_with(comment))
      text.resize(text.size() - comment.size());
    text += instruction;
  }
  text += ptx;
  // Raises the directive of a version, "7.0", or of an architecture, "80".
  auto raise = [&](std::string_view directive, std::array<int, 2> lowest) {
    size_t at = text.find(directive);
    if (at == std::string::npos)
      return;
    at += directive.size();
    std::array<int, 2> own = {};
    const char *end = text.data() + text.size();
    auto [next, error] = std::from_chars(text.data() + at, end, own[0]);
    if (next != end && *next == '.')
      next = std::from_chars(next + 1, end, own[1]).ptr;
    if (own < lowest)
      text.replace(at, static_cast<size_t>(next - text.data()) - at,
                   std::to_string(lowest[0]) +
                       (lowest[1] ? "." + std::to_string(lowest[1]) : std::string()));
  };
  raise(".version ", {7, 8});
  raise(".target sm_", {kArchitecture, 0});
  return text;
}

/// Returns the text of kernels for an architecture.
inline std::string getText(std::string_view ptx, int architecture) {
  return architecture >= kArchitecture ? enable(ptx) : std::string(ptx);
}

} // namespace tpc::dependent_launch

#endif // TPC_DEPENDENT_LAUNCH_H
