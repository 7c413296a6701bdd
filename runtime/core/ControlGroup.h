//===- ControlGroup.h - limits that a container or a service sets ---------===//
//
// A process is in one group of each hierarchy: one for all controllers (version 2), or one for each
// (version 1), or both. Limits of a group hold for all below it. A container sees its own group as
// the root of the hierarchy, or, without a namespace of control groups, at a path of which only the
// end is mounted.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_CONTROLGROUP_H
#define TPC_RT_CORE_CONTROLGROUP_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt {

class ControlGroup {
public:
  /// That of this process, or of another one. `root` precedes all paths, those of /proc too.
  explicit ControlGroup(std::string root = "", int64_t process = 0);

  /// Cores' worth of time; infinite without a quota.
  double cpuQuota() const;

  /// The smallest of the numbers in the files `name` of `controller`; INT64_MAX if there is none
  /// ("max" is no number). `where` gets the file's path.
  int64_t limit(std::string_view controller, const char *name, std::string *where = nullptr) const;

  /// Whether its tasks are frozen (version 2), or frozen or about to be (version 1).
  bool isFrozen() const;

private:
  struct Hierarchy {
    std::string controllers; ///< ",cpu,cpuacct,"; empty: all of them (version 2)
    std::string mount;       ///< where the hierarchy is, or a part of it
    std::string group;       ///< this process's, below `mount`: "" or "/a/b"
  };

  /// The folders of this process's group and of those above it that have files of `controller`.
  void forEachGroup(std::string_view controller,
                    const std::function<void(const std::string &folder)> &visit) const;

  std::vector<Hierarchy> hierarchies;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_CONTROLGROUP_H
