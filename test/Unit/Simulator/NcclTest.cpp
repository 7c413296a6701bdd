//===- NcclTest.cpp - Collectives, sends, groups, and faults --------------===//

#include "NcclTesting.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <unistd.h>

using namespace sim;

namespace {

/// Makes each kind of call once and checks the result. Values are small integers, so that sums are
/// exact in any order.
void callAll(NcclRank &rank) {
  auto n = size_t(rank.ranks);
  auto value = [](int of, size_t i) { return float(of * 100 + int(i)); };
  auto fill = [&](size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = value(rank.rank, i);
    return rank.upload(values);
  };
  DevicePointer sum = fill(7), most = fill(7), scattered = fill(3 * n), part = rank.allocate(12);
  DevicePointer gathered = rank.allocate(4 * 5 * n), own = fill(5), root = fill(6);
  DevicePointer left = rank.allocate(16), right = fill(4);
  EXPECT_EQ(rank.allReduce(sum, 7), nccl::Success);
  EXPECT_EQ(rank.allReduce(most, 7, nccl::Max), nccl::Success);
  EXPECT_EQ(rank.ncclReduceScatter(at(scattered), at(part), 3, nccl::Float32, nccl::Sum, rank.comm,
                                   rank.compute),
            nccl::Success);
  EXPECT_EQ(rank.ncclAllGather(at(own), at(gathered), 5, nccl::Float32, rank.comm, rank.compute),
            nccl::Success);
  EXPECT_EQ(rank.ncclBroadcast(at(root), at(root), 6, nccl::Float32, rank.ranks - 1, rank.comm,
                               rank.compute),
            nccl::Success);
  // All sends and receives around a ring are in one group.
  int next = (rank.rank + 1) % rank.ranks, previous = (rank.rank + rank.ranks - 1) % rank.ranks;
  EXPECT_EQ(rank.ncclGroupStart(), nccl::Success);
  EXPECT_EQ(rank.ncclSend(at(right), 4, nccl::Float32, next, rank.comm, rank.compute),
            nccl::Success);
  EXPECT_EQ(rank.ncclRecv(at(left), 4, nccl::Float32, previous, rank.comm, rank.compute),
            nccl::Success);
  EXPECT_EQ(rank.ncclGroupEnd(), nccl::Success);
  EXPECT_EQ(rank.synchronize(), SUCCESS);
  auto total = [&](size_t i) {
    float result = 0;
    for (int other = 0; other < rank.ranks; ++other)
      result += value(other, i);
    return result;
  };
  auto sums = rank.download<float>(sum, 7), maxima = rank.download<float>(most, 7);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(sums[i], total(i));
    EXPECT_EQ(maxima[i], value(rank.ranks - 1, i));
  }
  auto parts = rank.download<float>(part, 3);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(parts[i], total(3 * size_t(rank.rank) + i));
  auto all = rank.download<float>(gathered, 5 * n);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i], value(int(i / 5), i % 5));
  auto from = rank.download<float>(root, 6), neighbour = rank.download<float>(left, 4);
  EXPECT_EQ(from[2], value(rank.ranks - 1, 2));
  EXPECT_EQ(neighbour[3], value(previous, 3));
  EXPECT_EQ(rank.ncclCommDestroy(rank.comm), nccl::Success);
}

} // namespace

TEST(Nccl, HasAllEntryPoints) {
  auto check = [] {
    Nccl lib;
#define FUNCTION(result, name, parameters) EXPECT_TRUE(lib.name) << #name;
#include "Nccl/Functions.def"
#undef FUNCTION
  };
  EXPECT_PASSES({}, check);
}

TEST(Nccl, CollectivesBetweenThreads) {
  for (int seed = 0; seed < 6; ++seed)
    EXPECT_EQ(asThreads(1 + seed % 4, seeded(seed), callAll), 0);
}

TEST(Nccl, CollectivesBetweenProcesses) {
  for (int seed = 0; seed < 3; ++seed)
    EXPECT_EQ(asProcesses(2 + seed, seeded(seed), callAll), 0);
}

// Sums have the same bits in all runs and on all ranks. For some seed they differ from a sum in
// rank order.
TEST(Nccl, OrderOfSumsDependsOnTheSeed) {
  struct Seen {
    std::atomic<uint32_t> bits[4];
  };
  auto *seen = static_cast<Seen *>(
      mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto sum = [&](int seed) {
    EXPECT_EQ(asThreads(4, seeded(seed),
                        [&](NcclRank &rank) {
                          const float values[] = {1, 1e8f, 3, -1e8f};
                          DevicePointer x = rank.upload<float>({values[rank.rank]});
                          EXPECT_EQ(rank.allReduce(x, 1), nccl::Success);
                          EXPECT_EQ(rank.synchronize(), SUCCESS);
                          auto result = rank.download<float>(x, 1)[0];
                          uint32_t bits = 0;
                          memcpy(&bits, &result, 4);
                          seen->bits[rank.rank] = bits;
                        }),
              0);
    for (int rank = 1; rank < 4; ++rank)
      EXPECT_EQ(seen->bits[rank], seen->bits[0]);
    return seen->bits[0].load();
  };
  std::set<uint32_t> results;
  for (int seed = 0; seed < 6; ++seed)
    results.insert(sum(seed));
  EXPECT_GT(results.size(), 1u);
  EXPECT_EQ(sum(1), sum(1));
}

TEST(Nccl, NamesMismatchedCalls) {
  struct Case {
    std::function<nccl::Status(NcclRank &, DevicePointer)> call;
    const char *wanted;
  };
  auto reduce = [](size_t count, nccl::DataType type, nccl::RedOp op) {
    return [=](NcclRank &rank, DevicePointer x) {
      return rank.ncclAllReduce(at(x), at(x), count, type, op, rank.comm, rank.compute);
    };
  };
  Case cases[] = {
      {reduce(7, nccl::Float32, nccl::Sum), "AllReduce of 7 float32, sum"},
      {reduce(8, nccl::Int32, nccl::Sum), "AllReduce of 8 int32, sum"},
      {reduce(8, nccl::Float32, nccl::Min), "AllReduce of 8 float32, min"},
  };
  for (const Case &one : cases) {
    Findings findings;
    EXPECT_EQ(asThreads(2, findings.with(),
                        [&](NcclRank &rank) {
                          DevicePointer x = rank.upload(std::vector<float>(8));
                          EXPECT_EQ(rank.rank ? one.call(rank, x) : rank.allReduce(x, 8),
                                    nccl::Success);
                          EXPECT_NE(rank.synchronize(), SUCCESS);
                        }),
              0);
    EXPECT_FINDS(findings, one.wanted);
    EXPECT_FINDS(findings, "AllReduce of 8 float32, sum");
  }
}

TEST(Nccl, SendsAndReceivesMatch) {
  Findings findings;
  EXPECT_EQ(asThreads(2, findings.with(),
                      [](NcclRank &rank) {
                        DevicePointer x = rank.upload(std::vector<float>(8));
                        if (rank.rank) {
                          rank.ncclRecv(at(x), 8, nccl::Float32, 0, rank.comm, rank.compute);
                          EXPECT_NE(rank.synchronize(), SUCCESS);
                        } else {
                          rank.ncclSend(at(x), 7, nccl::Float32, 1, rank.comm, rank.compute);
                          usleep(100000);
                        }
                      }),
            0);
  EXPECT_FINDS(findings, "rank 0 sends Send of 7 float32, and rank 1 receives Recv of 8 float32");
}

TEST(Nccl, ReportsMisuse) {
  Findings findings;
  EXPECT_EQ(asThreads(1, findings.with(),
                      [](NcclRank &rank) {
                        DevicePointer x = rank.upload(std::vector<float>(8));
                        auto reduce = [&](DevicePointer from, DevicePointer to, size_t count) {
                          return rank.ncclAllReduce(at(from), at(to), count, nccl::Float32,
                                                    nccl::Sum, rank.comm, rank.compute);
                        };
                        EXPECT_EQ(reduce(x, x, 9), nccl::InvalidArgument);
                        EXPECT_EQ(reduce(x, x + 4, 4), nccl::InvalidArgument);
                        EXPECT_EQ(reduce(x + 2, x + 2, 4), nccl::InvalidArgument);
                        EXPECT_EQ(
                            rank.ncclSend(at(x), 1, nccl::Float32, 1, rank.comm, rank.compute),
                            nccl::InvalidArgument);
                        EXPECT_EQ(rank.ncclGroupEnd(), nccl::InvalidUsage);
                        nccl::Comm *second = nullptr;
                        nccl::UniqueId never = {};
                        EXPECT_EQ(rank.ncclCommInitRank(&second, 1, never, 0), nccl::SystemError);
                        EXPECT_EQ(rank.ncclCommDestroy(rank.comm), nccl::Success);
                        EXPECT_EQ(reduce(x, x, 8), nccl::InvalidArgument);
                      }),
            0);
  EXPECT_FINDS(findings, "buffers overlap");
}

TEST(Nccl, RejectsTwoRanksOnOneDevice) {
  Findings findings;
  EXPECT_EQ(inProcess(findings.with(),
                      [] {
                        nccl::UniqueId id;
                        EXPECT_EQ(Nccl().ncclGetUniqueId(&id), nccl::Success);
                        auto join = [&](int rank) {
                          Device device;
                          nccl::Comm *comm = nullptr;
                          EXPECT_EQ(Nccl().ncclCommInitRank(&comm, 2, id, rank),
                                    nccl::InvalidUsage);
                        };
                        std::thread other(join, 1);
                        join(0);
                        other.join();
                      }),
            0);
  EXPECT_FINDS(findings, "have the same device");
}

// Two ranks use two communicators in opposite orders. A finding names the deadlock, and an abort
// ends it.
TEST(Nccl, NamesADeadlock) {
  Findings findings;
  EXPECT_EQ(asThreads(2, findings.with(),
                      [&](NcclRank &rank) {
                        nccl::Comm *second = nullptr;
                        EXPECT_EQ(rank.ncclCommSplit(rank.comm, 0, rank.rank, &second, nullptr),
                                  nccl::Success);
                        nccl::Comm *comms[] = {rank.comm, second};
                        DevicePointer x = rank.upload(std::vector<float>(8));
                        for (nccl::Comm *comm : comms)
                          EXPECT_EQ(rank.ncclAllReduce(at(x), at(x), 8, nccl::Float32, nccl::Sum,
                                                       comm, rank.compute),
                                    nccl::Success);
                        EXPECT_EQ(rank.synchronize(), SUCCESS);
                        for (int i : {rank.rank, 1 - rank.rank})
                          EXPECT_EQ(rank.ncclAllReduce(at(x), at(x), 8, nccl::Float32, nccl::Sum,
                                                       comms[i], rank.compute),
                                    nccl::Success);
                        std::thread watch([&] {
                          eventually([&] { return has(findings, "which is in NCCL AllReduce"); });
                          EXPECT_EQ(rank.ncclCommAbort(comms[0]), nccl::Success);
                          EXPECT_EQ(rank.ncclCommAbort(comms[1]), nccl::Success);
                        });
                        EXPECT_EQ(rank.synchronize(), SUCCESS);
                        watch.join();
                      }),
            0);
  EXPECT_FINDS(findings, "stuck: NCCL AllReduce of 8 float32, sum of rank ");
  EXPECT_FINDS(findings, "which is in NCCL AllReduce");
}

TEST(Nccl, WaitsForADeadPeerUntilAborted) {
  Findings findings;
  int called[2];
  ASSERT_EQ(pipe(called), 0);
  EXPECT_EQ(asProcesses(
                2, findings.with(),
                [&](NcclRank &rank) {
                  DevicePointer x = rank.upload(std::vector<float>(8));
                  EXPECT_EQ(rank.allReduce(x, 8), nccl::Success);
                  EXPECT_EQ(rank.synchronize(), SUCCESS);
                  char go = 0;
                  if (rank.rank == 1) {
                    EXPECT_EQ(read(called[0], &go, 1), 1);
                    raise(SIGKILL);
                  }
                  EXPECT_EQ(rank.allReduce(x, 8), nccl::Success);
                  EXPECT_EQ(write(called[1], &go, 1), 1);
                  nccl::Status status = nccl::Success;
                  eventually([&] {
                    EXPECT_EQ(rank.ncclCommGetAsyncError(rank.comm, &status), nccl::Success);
                    return status != nccl::Success;
                  });
                  EXPECT_EQ(rank.cuStreamQuery(rank.compute), ERROR_NOT_READY);
                  EXPECT_EQ(status, nccl::RemoteError); // reported with seed 0
                  EXPECT_EQ(rank.allReduce(x, 8), nccl::RemoteError);
                  EXPECT_EQ(rank.ncclCommAbort(rank.comm), nccl::Success);
                  EXPECT_EQ(rank.synchronize(), SUCCESS);
                },
                1),
            0);
  close(called[0]);
  close(called[1]);
}

TEST(Nccl, InjectedFaultsFail) {
  // The second call of the second device fails. The second operation that the first device executes
  // fails its communicator.
  Variables variables{{"TPC_SIM_INJECT", "nccl@2:1,async@2:0"}};
  EXPECT_EQ(asThreads(2, variables,
                      [](NcclRank &rank) {
                        DevicePointer x = rank.upload(std::vector<float>(8));
                        EXPECT_EQ(rank.allReduce(x, 8), nccl::Success);
                        EXPECT_EQ(rank.synchronize(), SUCCESS);
                        if (rank.rank == 1)
                          EXPECT_EQ(rank.allReduce(x, 8), nccl::SystemError);
                        EXPECT_EQ(rank.allReduce(x, 8), nccl::Success);
                        nccl::Status status = nccl::Success;
                        if (rank.rank == 0) {
                          eventually([&] {
                            rank.cuStreamQuery(rank.compute);
                            rank.ncclCommGetAsyncError(rank.comm, &status);
                            return status != nccl::Success;
                          });
                          EXPECT_EQ(status, nccl::RemoteError);
                        }
                        EXPECT_EQ(rank.cuStreamQuery(rank.compute), ERROR_NOT_READY);
                        EXPECT_EQ(rank.ncclCommAbort(rank.comm), nccl::Success);
                        EXPECT_EQ(rank.synchronize(), SUCCESS);
                      }),
            0);
}

TEST(Nccl, CapturesConnectedCommunicators) {
  Findings findings;
  EXPECT_EQ(asThreads(2, findings.with(),
                      [](NcclRank &rank) {
                        DevicePointer x = rank.upload<float>({1, 2, 3});
                        auto capture = [&](GraphExec **exec) {
                          Graph *graph = nullptr;
                          EXPECT_EQ(rank.cuStreamBeginCapture_v2(rank.compute, CaptureThreadLocal),
                                    SUCCESS);
                          nccl::Status status = rank.allReduce(x, 3);
                          Result result = rank.cuStreamEndCapture(rank.compute, &graph);
                          if (!result)
                            EXPECT_EQ(rank.cuGraphInstantiateWithFlags(exec, graph, 0), SUCCESS);
                          EXPECT_EQ(status != nccl::Success, result != SUCCESS);
                          return status;
                        };
                        GraphExec *exec = nullptr;
                        EXPECT_EQ(capture(&exec), nccl::InvalidUsage);
                        EXPECT_EQ(rank.allReduce(x, 3), nccl::Success);
                        EXPECT_EQ(capture(&exec), nccl::Success);
                        for (int i = 0; i < 3; ++i)
                          EXPECT_EQ(rank.cuGraphLaunch(exec, rank.compute), SUCCESS);
                        EXPECT_EQ(rank.synchronize(), SUCCESS);
                        EXPECT_EQ(rank.download<float>(x, 3), (std::vector<float>{16, 32, 48}));
                      }),
            0);
  EXPECT_FINDS(findings, "which connects, while a stream captures");
}

TEST(Nccl, Windows) {
  EXPECT_EQ(asThreads(2, {},
                      [](NcclRank &rank) {
                        void *memory = nullptr;
                        EXPECT_EQ(rank.ncclMemAlloc(&memory, 10000), nccl::Success);
                        nccl::Window *window = nullptr;
                        auto add = [&](size_t offset, size_t bytes) {
                          return rank.ncclCommWindowRegister(
                              rank.comm, static_cast<char *>(memory) + offset, bytes, &window, 1);
                        };
                        EXPECT_EQ(add(64, 100), nccl::InvalidArgument);
                        EXPECT_EQ(add(0, 10001), nccl::InvalidArgument);
                        EXPECT_EQ(add(0, 10000), nccl::Success);
                        EXPECT_EQ(rank.ncclCommWindowDeregister(rank.comm, window), nccl::Success);
                        EXPECT_EQ(rank.ncclCommWindowDeregister(rank.comm, window),
                                  nccl::InvalidArgument);
                        EXPECT_EQ(rank.ncclMemFree(memory), nccl::Success);
                      }),
            0);
}

TEST(Nccl, RegistersMemory) {
  Findings findings;
  EXPECT_EQ(asThreads(2, findings.with(),
                      [](NcclRank &rank) {
                        void *memory = nullptr, *handle = nullptr;
                        EXPECT_EQ(rank.ncclMemAlloc(&memory, 1000), nccl::Success);
                        auto add = [&](size_t bytes) {
                          return rank.ncclCommRegister(rank.comm, memory, bytes, &handle);
                        };
                        EXPECT_EQ(add(1001), nccl::InvalidArgument);
                        EXPECT_EQ(add(0), nccl::InvalidArgument);
                        EXPECT_EQ(add(1000), nccl::Success);
                        auto address = reinterpret_cast<DevicePointer>(memory);
                        EXPECT_EQ(rank.cuMemsetD32Async(address, 0, 250, rank.compute), SUCCESS);
                        EXPECT_EQ(rank.allReduce(address, 250), nccl::Success);
                        EXPECT_EQ(rank.synchronize(), SUCCESS);
                        EXPECT_EQ(rank.ncclCommDeregister(rank.comm, handle), nccl::Success);
                        EXPECT_EQ(rank.ncclCommDeregister(rank.comm, handle),
                                  nccl::InvalidArgument);
                        // NCCL frees its own memory. Memory of the driver can be registered too.
                        EXPECT_EQ(rank.cuMemFree_v2(address), ERROR_INVALID_VALUE);
                        EXPECT_EQ(rank.ncclMemFree(memory), nccl::Success);
                        DevicePointer own = rank.allocate(64);
                        memory = at(own);
                        EXPECT_EQ(add(64), nccl::Success);
                        EXPECT_EQ(rank.ncclCommDeregister(rank.comm, handle), nccl::Success);
                        EXPECT_EQ(rank.ncclMemFree(memory), nccl::UnhandledCudaError);
                        EXPECT_EQ(rank.cuMemFree_v2(own), SUCCESS);
                      }),
            0);
  EXPECT_FINDS(findings, "the memory is not in one allocation of the device");
  EXPECT_FINDS(findings, "is not the address of an allocation that this function may free");
}

// Memory must be deregistered before it is freed and before the communicator is destroyed.
TEST(Nccl, FindsMemoryThatIsStillRegistered) {
  for (bool isFreed : {false, true}) {
    Findings findings;
    EXPECT_EQ(asThreads(2, findings.with(),
                        [&](NcclRank &rank) {
                          void *memory = nullptr, *handle = nullptr;
                          EXPECT_EQ(rank.ncclMemAlloc(&memory, 1000), nccl::Success);
                          EXPECT_EQ(rank.ncclCommRegister(rank.comm, memory, 1000, &handle),
                                    nccl::Success);
                          if (isFreed)
                            EXPECT_EQ(rank.ncclMemFree(memory), nccl::Success);
                          EXPECT_EQ(rank.ncclCommDestroy(rank.comm), nccl::Success);
                        }),
              0);
    EXPECT_FINDS(findings, "still has registered memory");
    EXPECT_EQ(has(findings, "misuse: ncclMemFree"), isFreed) << findings.text();
  }
}

// A graph needs the registration that memory had when it was captured.
TEST(Nccl, FindsGraphsWithDeregisteredMemory) {
  for (bool isRegistered : {false, true}) {
    Findings findings;
    EXPECT_EQ(asThreads(2, findings.with(),
                        [&](NcclRank &rank) {
                          void *memory = nullptr, *handle = nullptr;
                          EXPECT_EQ(rank.ncclMemAlloc(&memory, 1000), nccl::Success);
                          auto address = reinterpret_cast<DevicePointer>(memory);
                          EXPECT_EQ(rank.ncclCommRegister(rank.comm, memory, 1000, &handle),
                                    nccl::Success);
                          EXPECT_EQ(rank.cuMemsetD32Async(address, 0, 250, rank.compute), SUCCESS);
                          EXPECT_EQ(rank.allReduce(address, 250), nccl::Success);
                          EXPECT_EQ(rank.cuStreamBeginCapture_v2(rank.compute, CaptureThreadLocal),
                                    SUCCESS);
                          EXPECT_EQ(rank.allReduce(address, 250), nccl::Success);
                          Graph *graph = nullptr;
                          EXPECT_EQ(rank.cuStreamEndCapture(rank.compute, &graph), SUCCESS);
                          GraphExec *exec = nullptr;
                          EXPECT_EQ(rank.cuGraphInstantiateWithFlags(&exec, graph, 0), SUCCESS);
                          EXPECT_EQ(rank.synchronize(), SUCCESS);
                          if (!isRegistered)
                            EXPECT_EQ(rank.ncclCommDeregister(rank.comm, handle), nccl::Success);
                          EXPECT_EQ(rank.cuGraphLaunch(exec, rank.compute), SUCCESS);
                          EXPECT_EQ(rank.synchronize(),
                                    isRegistered ? SUCCESS : ERROR_ILLEGAL_ADDRESS);
                        }),
              0);
    EXPECT_EQ(has(findings, "is not registered any more"), !isRegistered) << findings.text();
  }
}
