//===- ControlGroupTest.cpp - Limits of containers and services -----------===//

#include "core/ControlGroup.h"
#include "core/Cores.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

using namespace tpc::rt;

namespace {

/// A root directory that `ControlGroup` reads instead of the system's.
class ControlGroups : public testing::Test {
protected:
  ControlGroups()
      : root(std::filesystem::temp_directory_path() /
             ("tpc-control-group-" + std::to_string(getpid()))) {}
  ~ControlGroups() override { std::filesystem::remove_all(root); }

  void write(const std::string &path, const std::string &text) {
    std::filesystem::path file = root.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double quota() const { return ControlGroup(root.string()).cpuQuota(); }

  std::filesystem::path root;
  static constexpr double none = std::numeric_limits<double>::infinity();
};

} // namespace

TEST_F(ControlGroups, HaveNoLimitsByDefault) {
  EXPECT_EQ(quota(), none);
  EXPECT_EQ(ControlGroup(root.string()).limit("pids", "pids.max"),
            std::numeric_limits<int64_t>::max());
  write("/proc/self/cgroup", "no colons\n0::/a\n");
  write("/proc/self/mountinfo", "too short\n30 23 0:26 / /c rw - cgroup2 cgroup2 rw\n");
  write("/c/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), none);
}

TEST_F(ControlGroups, ApplyToSubfolders) {
  write("/proc/self/cgroup", "0::/pod/service/worker\n");
  write("/proc/self/mountinfo",
        "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("/sys/fs/cgroup/cpu.max", "1600000 100000\n");
  EXPECT_EQ(quota(), 16);
  write("/sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  write("/sys/fs/cgroup/pod/service/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 2.5);
  write("/sys/fs/cgroup/pod/service/worker/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);

  write("/sys/fs/cgroup/pod/pids.max", "100\n");
  write("/sys/fs/cgroup/pod/service/pids.max", "max\n");
  std::string where;
  EXPECT_EQ(ControlGroup(root.string()).limit("pids", "pids.max", &where), 100);
  EXPECT_EQ(where, root.string() + "/sys/fs/cgroup/pod/pids.max");
}

TEST_F(ControlGroups, CanBeOfVersionOne) {
  write("/proc/self/cgroup", "9:pids:/\n4:cpu,cpuacct:/jobs/7\n3:cpuset:/\n0::/\n");
  write("/proc/self/mountinfo",
        "31 22 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 22 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "33 22 0:29 / /sys/fs/cgroup/my\\040pids rw - cgroup none rw,pids\n"
        "34 22 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/my pids/pids.max", "4000\n");
  EXPECT_EQ(quota(), none);
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3);
  EXPECT_EQ(ControlGroup(root.string()).limit("pids", "pids.max"), 4000);
}

TEST_F(ControlGroups, AreReadFromAPartialMount) {
  write("/proc/self/cgroup", "4:cpu:/docker/abc/sub\n");
  write("/proc/self/mountinfo",
        "31 22 0:27 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "200000\n");
  EXPECT_EQ(quota(), 2);
  // A folder whose name begins with the same text is not a subfolder.
  write("/proc/self/cgroup", "4:cpu:/docker/abcd\n");
  EXPECT_EQ(quota(), 2);
  write("/sys/fs/cgroup/cpu/sub/cpu.cfs_quota_us", "100000\n");
  write("/sys/fs/cgroup/cpu/sub/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2);
  write("/proc/self/cgroup", "4:cpu:/docker/abc/sub\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(ControlGroups, BoundTheCores) {
  EXPECT_GE(usableCores(), 1);
  EXPECT_LE(usableCores(), quotaCores());
}

TEST_F(ControlGroups, ReportFrozenProcesses) {
  write("/proc/self/mountinfo", "30 22 0:26 / /two rw - cgroup2 cgroup2 rw\n"
                                "31 22 0:27 / /one rw - cgroup cgroup rw,freezer\n");
  write("/proc/71/cgroup", "6:freezer:/a\n0::/b\n");
  write("/proc/self/cgroup", "6:freezer:/\n0::/\n");
  auto isFrozen = [&] { return ControlGroup(root.string(), 71).isFrozen(); };
  EXPECT_FALSE(isFrozen());
  write("/two/b/cgroup.events", "populated 1\nfrozen 0\n");
  write("/one/a/freezer.state", "THAWED\n");
  EXPECT_FALSE(isFrozen());
  write("/two/b/cgroup.events", "populated 1\nfrozen 1\n");
  EXPECT_TRUE(isFrozen());
  EXPECT_FALSE(ControlGroup(root.string()).isFrozen());
  write("/two/b/cgroup.events", "populated 1\nfrozen 0\n");
  write("/one/a/freezer.state", "FREEZING\n");
  EXPECT_TRUE(isFrozen());
}
