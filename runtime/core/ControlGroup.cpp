//===- ControlGroup.cpp - Limits of a container or service (cgroups) ------===//

#include "core/ControlGroup.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace tpc::rt {

namespace {

/// Files in /proc escape blanks as \040.
std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    auto digit = [&](size_t at) { return at < text.size() ? text[at] - '0' : -1; };
    if (text[i] == '\\' && digit(i + 3) >= 0) {
      result += static_cast<char>(64 * digit(i + 1) + 8 * digit(i + 2) + digit(i + 3));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// Returns "/b" for "/a/b" relative to "/a"; nothing if the path is not below the folder.
std::optional<std::string> below(const std::string &path, const std::string &top) {
  if (top == "/")
    return path == "/" ? "" : path;
  if (path == top)
    return "";
  if (path.starts_with(top + "/"))
    return path.substr(top.size());
  return std::nullopt;
}

std::string asList(const std::string &names) { return "," + names + ","; }

template <typename... Number> bool readNumbers(const std::string &path, Number &...numbers) {
  std::ifstream file(path);
  return static_cast<bool>((file >> ... >> numbers));
}

} // namespace

ControlGroup::ControlGroup(std::string root, int64_t process) {
  struct Membership {
    std::string controllers, group;
  };
  // "4:cpu,cpuacct:/a/b", and "0::/a/b" in version 2.
  std::vector<Membership> memberships;
  std::ifstream groups(root + "/proc/" + (process ? std::to_string(process) : "self") + "/cgroup");
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second != std::string::npos)
      memberships.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  // "30 23 0:26 /a /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct"
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    size_t dash = line.find(" - ");
    if (dash == std::string::npos)
      continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string skipped, top, mount, type, options;
    before >> skipped >> skipped >> skipped >> top >> mount;
    after >> type >> skipped >> options;
    for (const Membership &membership : memberships) {
      const std::string &names = membership.controllers;
      bool isHere = type == "cgroup2"
                        ? names.empty()
                        : type == "cgroup" && !names.empty() &&
                              asList(options).find(asList(names.substr(0, names.find(',')))) !=
                                  std::string::npos;
      if (!isHere)
        continue;
      std::optional<std::string> group = below(membership.group, unescape(top));
      // The path components that a cgroup namespace hides are above the mount. Only the mount
      // itself is readable.
      hierarchies.push_back(
          {names.empty() ? "" : asList(names), root + unescape(mount), group.value_or("")});
    }
  }
}

void ControlGroup::forEachGroup(std::string_view controller,
                                const std::function<void(const std::string &folder)> &visit) const {
  for (const Hierarchy &hierarchy : hierarchies) {
    if (!hierarchy.controllers.empty() &&
        hierarchy.controllers.find(asList(std::string(controller))) == std::string::npos)
      continue;
    std::string group = hierarchy.group;
    while (true) {
      visit(hierarchy.mount + group);
      if (group.empty())
        break;
      group.resize(group.rfind('/')); // starts with a slash
    }
  }
}

double ControlGroup::cpuQuota() const {
  double cores = std::numeric_limits<double>::infinity();
  forEachGroup("cpu", [&](const std::string &folder) {
    double quota = -1, period = 0; // "max", or -1 in version 1: none
    if ((readNumbers(folder + "/cpu.max", quota, period) ||
         (readNumbers(folder + "/cpu.cfs_quota_us", quota) &&
          readNumbers(folder + "/cpu.cfs_period_us", period))) &&
        quota > 0 && period > 0)
      cores = std::min(cores, quota / period);
  });
  return cores;
}

int64_t ControlGroup::limit(std::string_view controller, const char *name,
                            std::string *where) const {
  int64_t minimum = std::numeric_limits<int64_t>::max();
  forEachGroup(controller, [&](const std::string &folder) {
    std::string path = folder + "/" + name;
    int64_t number = 0;
    if (!readNumbers(path, number) || number >= minimum)
      return;
    minimum = number;
    if (where)
      *where = path;
  });
  return minimum;
}

bool ControlGroup::isFrozen() const {
  for (const Hierarchy &hierarchy : hierarchies) {
    std::string folder = hierarchy.mount + hierarchy.group;
    if (hierarchy.controllers.empty()) {
      // "populated 1\nfrozen 1"
      std::ifstream events(folder + "/cgroup.events");
      std::string name;
      for (int value = 0; events >> name >> value;)
        if (name == "frozen" && value)
          return true;
    } else if (hierarchy.controllers.find(asList("freezer")) != std::string::npos) {
      std::ifstream file(folder + "/freezer.state"); // THAWED, FREEZING, FROZEN
      if (std::string state; file >> state && state.starts_with("FR"))
        return true;
    }
  }
  return false;
}

} // namespace tpc::rt
