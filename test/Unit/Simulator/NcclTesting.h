//===- NcclTesting.h - Ranks as threads and as processes ------------------===//

#ifndef TPC_TEST_UNIT_SIMULATOR_NCCLTESTING_H
#define TPC_TEST_UNIT_SIMULATOR_NCCLTESTING_H

#include "Nccl/Functions.h"
#include "SimulatorTesting.h"

#include <atomic>
#include <cstring>
#include <set>
#include <sys/mman.h>
#include <thread>

namespace sim {

struct Nccl {
  void *ncclLibrary = open("libnccl.so.2");
#define FUNCTION(result, name, parameters)                                                         \
  nccl::type::name *name = reinterpret_cast<nccl::type::name *>(dlsym(ncclLibrary, #name));
#include "Nccl/Functions.def"
#undef FUNCTION
};

/// One rank: its own device, a stream, and a communicator of all ranks.
struct NcclRank : Device, Nccl {
  NcclRank(int rank, int ranks, const nccl::UniqueId &id) : Device(rank), rank(rank), ranks(ranks) {
    EXPECT_EQ(ncclCommInitRank(&comm, ranks, id, rank), nccl::Success);
    compute = stream();
  }
  nccl::Status allReduce(DevicePointer memory, size_t count, nccl::RedOp op = nccl::Sum) {
    void *pointer = reinterpret_cast<void *>(memory);
    return ncclAllReduce(pointer, pointer, count, nccl::Float32, op, comm, compute);
  }
  Result synchronize() { return cuStreamSynchronize(compute); }

  int rank, ranks;
  nccl::Comm *comm = nullptr;
  Stream *compute = nullptr;
};

inline void *at(DevicePointer address) { return reinterpret_cast<void *>(address); }

/// Runs ranks as threads of one separate process.
inline int asThreads(int ranks, const Variables &variables,
                     const std::function<void(NcclRank &)> &f) {
  return inProcess(variables, [&] {
    nccl::UniqueId id;
    EXPECT_EQ(Nccl().ncclGetUniqueId(&id), nccl::Success);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        NcclRank self(rank, ranks, id);
        f(self);
      });
    for (std::thread &thread : threads)
      thread.join();
  });
}

/// Runs each rank as a process. Ranks in `mayDie` may fail.
inline int asProcesses(int ranks, const Variables &variables,
                       const std::function<void(NcclRank &)> &f, int mayDie = -1) {
  struct Meeting {
    std::atomic<int> isReady;
    nccl::UniqueId id;
  };
  auto *meeting = static_cast<Meeting *>(
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  meeting->isReady = 0;
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back())
      continue;
    for (const auto &[name, value] : variables)
      setenv(name.c_str(), value.c_str(), 1);
    if (rank == 0) {
      EXPECT_EQ(Nccl().ncclGetUniqueId(&meeting->id), nccl::Success);
      meeting->isReady = 1;
    }
    while (!meeting->isReady)
      usleep(100);
    NcclRank self(rank, ranks, meeting->id);
    f(self);
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure());
  }
  int worst = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(children[size_t(rank)], &status, 0);
    if (status && rank != mayDie)
      worst = status;
  }
  munmap(meeting, sizeof(Meeting));
  return worst;
}

} // namespace sim

#endif
