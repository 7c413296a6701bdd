//===- ControlGroup.h - Limits of a container or service (cgroups) --------===//
//
// There is one hierarchy of groups for all controllers (version 2), one for each controller
// (version 1), or both. A process is in one group of each hierarchy. Limits of a group apply to all
// descendants. In a container with its own cgroup namespace, the container's group is the root of
// the hierarchy. In a container without one, paths of groups are complete, but only folders from
// the container's group on are mounted.
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
  /// Finds the group of this process, or of `process`. `root` is prepended to all paths, also those
  /// of /proc.
  explicit ControlGroup(std::string root = "", int64_t process = 0);

  /// CPU quota in cores; infinite without a quota.
  double cpuQuota() const;

  /// Returns the minimum of the numbers in the files `name` of `controller`; INT64_MAX if there is
  /// none ("max" is no number). Sets `where` to the path of the file with the minimum.
  int64_t limit(std::string_view controller, const char *name, std::string *where = nullptr) const;

  /// Whether the group's tasks are frozen (version 2), or frozen or about to be (version 1).
  bool isFrozen() const;

private:
  struct Hierarchy {
    std::string controllers; ///< ",cpu,cpuacct,"; empty: all controllers (version 2)
    std::string mount;       ///< mount point of the hierarchy or of a subtree
    std::string group;       ///< group of the process, below `mount`: "" or "/a/b"
  };

  /// Calls the function for each folder with files of `controller`, from this group up to the root.
  void forEachGroup(std::string_view controller,
                    const std::function<void(const std::string &folder)> &visit) const;

  std::vector<Hierarchy> hierarchies;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_CONTROLGROUP_H
