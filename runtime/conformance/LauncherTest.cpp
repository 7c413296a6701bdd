//===- LauncherTest.cpp - Launcher detection from the environment ---------===//

#include "core/Launcher.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>

using namespace tpc::rt;
using Kind = Launcher::Kind;

namespace {

/// Returns the launcher detected with these variables, and no other relevant ones.
Launcher detect(const std::map<std::string, std::string> &variables) {
  for (const char *name : {"TPC_TRANSPORT",
                           "TPC_PORT",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_RANK",
                           "PMIX_RANK",
                           "PMIX_NAMESPACE",
                           "PMIX_SERVER_URI2",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "RANK",
                           "WORLD_SIZE",
                           "MASTER_ADDR",
                           "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID",
                           "TORCHELASTIC_RESTART_COUNT",
                           "SLURM_STEP_ID",
                           "SLURM_STEPID",
                           "SLURM_PROCID",
                           "SLURM_NTASKS",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_JOB_ID",
                           "SLURM_STEP_NODELIST",
                           "SLURM_JOB_NODELIST",
                           "SLURM_NODELIST"})
    unsetenv(name);
  for (const auto &[name, value] : variables)
    setenv(name.c_str(), value.c_str(), 1);
  return detectLauncher();
}

using Variables = std::map<std::string, std::string>;

Variables merge(Variables first, const Variables &second) {
  first.insert(second.begin(), second.end());
  return first;
}

const Variables torch = {{"RANK", "2"},
                         {"WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "node7"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "mine"},
                         {"TORCHELASTIC_RESTART_COUNT", "1"}};
const Variables slurm = {{"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "3"},
                         {"SLURM_PROCID", "1"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_JOB_NODELIST", "other"},
                         {"SLURM_STEP_NODELIST", "n[08-9,12],login"}};
const Variables mpi = {{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "0"}};

} // namespace

TEST(Launcher, FirstHosts) {
  EXPECT_EQ(firstHost("node"), "node");
  EXPECT_EQ(firstHost("a,b[1-2]"), "a");
  EXPECT_EQ(firstHost("node[07-12,20],login"), "node07");
  EXPECT_EQ(firstHost("gpu[3,5]-ib"), "gpu3-ib");
  EXPECT_EQ(firstHost("rack[2-4]node[10-11]"), "rack2node10");
  EXPECT_EQ(firstHost("x[5]"), "x5");
  EXPECT_EQ(firstHost("x[5"), "");
  EXPECT_EQ(firstHost(""), "");
}

TEST(Launcher, Torch) {
  Launcher launcher = detect(torch);
  EXPECT_EQ(launcher.kind, Kind::Torch);
  EXPECT_EQ(launcher.rank, 2);
  EXPECT_EQ(launcher.size, 4);
  EXPECT_EQ(launcher.address, "node7");
  EXPECT_EQ(launcher.port, 29501);
  EXPECT_EQ(launcher.run, "mine, attempt 1");
  EXPECT_EQ(launcher.problem, "");
  EXPECT_EQ(detect(merge({{"TPC_PORT", "31000"}}, torch)).port, 31000);
  EXPECT_EQ(detect(merge({{"WORLD_SIZE", "many"}}, torch)).problem,
            "WORLD_SIZE=many: expected a number from 0 to 16777216, in decimal digits");
  EXPECT_EQ(detect(merge({{"RANK", "0x1"}}, torch)).problem,
            "RANK=0x1: expected a number from 0 to 16777216, in decimal digits");
  EXPECT_EQ(detect(merge({{"LOCAL_WORLD_SIZE", "2"}}, torch)).localSize, 2);
  // A single one of these variables is assumed to belong to another tool.
  EXPECT_EQ(detect({{"RANK", "0"}}).kind, Kind::None);
  EXPECT_EQ(detect({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).problem, "");
}

TEST(Launcher, Slurm) {
  Launcher launcher = detect(slurm);
  EXPECT_EQ(launcher.kind, Kind::Slurm);
  EXPECT_EQ(launcher.rank, 1);
  EXPECT_EQ(launcher.size, 2);
  EXPECT_EQ(launcher.address, "n08");
  EXPECT_EQ(launcher.run, "77.3");
  EXPECT_GE(launcher.port, 15000);
  EXPECT_LT(launcher.port, 30000);
  EXPECT_NE(launcher.port, detect(merge({{"SLURM_STEP_ID", "4"}}, slurm)).port);
  EXPECT_EQ(detect(merge({{"MASTER_ADDR", "x"}, {"MASTER_PORT", "5"}}, slurm)).port, 6);
  // Slurm variables without a parallel step: a batch script, the shell of salloc, and a single
  // task.
  EXPECT_EQ(detect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).kind, Kind::None);
  EXPECT_EQ(detect(merge({{"SLURM_STEP_ID", "4294967290"}}, slurm)).kind, Kind::None);
  EXPECT_EQ(detect(merge({{"SLURM_STEP_NUM_TASKS", "1"}}, slurm)).kind, Kind::None);
}

TEST(Launcher, LeftOverPmixRank) {
  // Without a server, and in a step of one task, the process is alone.
  Variables pmix = {{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "slurm.pmix.77.0"}};
  Variables served = merge({{"PMIX_SERVER_URI2", "pmix-server;tcp4://x"}}, pmix);
  EXPECT_EQ(detect(pmix).kind, Kind::None);
  EXPECT_EQ(detect(pmix).problem, "");
  EXPECT_EQ(detect(served).kind, Kind::Mpi);
  EXPECT_EQ(detect(served).variable, "PMIX_RANK");
  Variables step = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  EXPECT_EQ(detect(merge(served, step)).kind, Kind::None);
  EXPECT_EQ(detect(merge(merge({{"SLURM_STEP_NUM_TASKS", "2"}}, served), step)).kind, Kind::Mpi);
  EXPECT_EQ(detect(merge(mpi, step)).kind, Kind::Mpi);
}

TEST(Launcher, HalfOfAPairIsAnError) {
  // A rendezvous address is set, and no launcher provides the other variable of the pair.
  Variables address = {{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(detect(merge({{"RANK", "1"}}, address)).problem,
            "RANK is set, and WORLD_SIZE is not: each rank needs both");
  EXPECT_EQ(detect(merge({{"WORLD_SIZE", "4"}}, address)).problem,
            "WORLD_SIZE is set, and RANK is not: each rank needs both");
  EXPECT_EQ(detect(merge(merge({{"WORLD_SIZE", "2"}}, address), slurm)).kind, Kind::Slurm);
  EXPECT_EQ(detect(merge(merge({{"WORLD_SIZE", "2"}}, address), slurm)).problem, "");
  EXPECT_EQ(detect(merge({{"TPC_TRANSPORT", "threads"}, {"RANK", "1"}}, address)).kind, Kind::None);
  EXPECT_EQ(detect(address).kind, Kind::None);
}

TEST(Launcher, InvalidRanks) {
  EXPECT_EQ(detect({{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "3"}}).problem,
            "there is no such rank: OMPI_COMM_WORLD_RANK=3 of 3");
  EXPECT_EQ(detect({{"PMI_RANK", "7"}, {"PMI_SIZE", "4"}}).problem,
            "there is no such rank: PMI_RANK=7 of 4");
  EXPECT_EQ(detect({{"PMIX_RANK", "7"}, {"PMIX_SERVER_URI2", "x"}}).problem, "");
  EXPECT_EQ(detect(merge({{"RANK", "4"}}, torch)).problem, "there is no such rank: RANK=4 of 4");
  EXPECT_EQ(detect(mpi).problem, "");
  EXPECT_EQ(detect(mpi).rankVariable, "OMPI_COMM_WORLD_RANK");
}

TEST(Launcher, ProcessesOfOneRunHaveOneKey) {
  std::string key = detect(torch).key();
  EXPECT_EQ(detect(merge({{"RANK", "0"}}, torch)).key(), key);
  EXPECT_NE(detect(merge({{"TORCHELASTIC_RESTART_COUNT", "2"}}, torch)).key(), key);
  EXPECT_NE(detect(merge({{"MASTER_PORT", "29700"}}, torch)).key(), key);
}

TEST(Launcher, TransportSelectsOneOfSeveral) {
  Variables both = merge(torch, slurm), all = merge(both, mpi);
  EXPECT_EQ(detect(both).kind, Kind::Torch);
  EXPECT_EQ(detect(all).kind, Kind::Mpi);
  EXPECT_EQ(detect(merge({{"TPC_TRANSPORT", "tcp"}}, all)).kind, Kind::Torch);
  EXPECT_EQ(detect(merge({{"TPC_TRANSPORT", "mpi"}}, both)).kind, Kind::None);
  EXPECT_EQ(detect(merge({{"TPC_TRANSPORT", "threads"}}, all)).kind, Kind::None);
}
