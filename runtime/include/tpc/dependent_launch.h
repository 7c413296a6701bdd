//===- dependent_launch.h - programmatic dependent launch of GPU kernels ------===//
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

#include <string>
#include <string_view>

namespace tpc::dependent_launch {

inline constexpr int kArchitecture = 90;
inline constexpr const char *kLaunchDependents = "// griddepcontrol.launch_dependents;";
inline constexpr const char *kWait = "// griddepcontrol.wait;";

/// Returns the text of kernels for sm_90, with the instructions instead of the comments.
inline std::string enable(std::string_view ptx) {
  std::string text(ptx);
  auto replaceAll = [&](std::string_view from, std::string_view to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replaceAll("// griddepcontrol.", "griddepcontrol.");
  replaceAll(".version 7.0", ".version 7.8");
  replaceAll(".target sm_80", ".target sm_90");
  return text;
}

} // namespace tpc::dependent_launch

#endif // TPC_DEPENDENT_LAUNCH_H
