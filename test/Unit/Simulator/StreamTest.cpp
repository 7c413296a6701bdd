//===- StreamTest.cpp - Order, copies, races between operations -----------===//

#include "SimulatorTesting.h"

#include <chrono>
#include <cstring>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>

using namespace sim;

namespace {

/// Two streams add to the same value at y.
struct TwoStreams : Device {
  Function *add = function(addText, "add");
  DevicePointer x = upload<float>({1, 2, 3}), y = upload<float>({10, 20, 30});
  DevicePointer z = upload<float>({0, 0, 0});
  Stream *first = stream(), *second = stream();

  Result go(Stream *where, DevicePointer from, DevicePointer to) {
    return launch(add, where, 32, from, to, 3);
  }
};

} // namespace

TEST(Streams, OperationsMayRunOnlyAtTheWait) {
  int lazy = 0;
  for (int seed = 0; seed < 8; ++seed)
    lazy += WEXITSTATUS(inProcess(seeded(seed), [] {
      Device device;
      auto *host = device.pinned<int>(1);
      DevicePointer x = device.allocate(4);
      Stream *stream = device.stream();
      *host = 1;
      EXPECT_EQ(device.cuMemcpyHtoDAsync_v2(x, host, 4, stream), SUCCESS);
      *host = 2; // too early: the copy reads it when it runs
      EXPECT_EQ(device.cuStreamSynchronize(stream), SUCCESS);
      _exit(device.download<int>(x, 1)[0] == 2);
    }));
  EXPECT_GE(lazy, 2); // out of 8 seeds: a busy machine may stop the host in between
}

TEST(Streams, OperationsCompleteWithoutAWait) {
  EXPECT_PASSES({}, [] {
    Device device;
    auto *host = device.pinned<int>(1);
    DevicePointer x = device.upload<int>({7});
    *host = 0;
    Stream *stream = device.stream();
    EXPECT_EQ(device.cuMemcpyDtoHAsync_v2(host, x, 4, stream), SUCCESS);
    for (int i = 0; i < 1000 && *static_cast<volatile int *>(host) != 7; ++i)
      usleep(1000);
    EXPECT_EQ(*host, 7);
    EXPECT_EQ(device.cuStreamQuery(stream), SUCCESS);
  });
}

TEST(Streams, PollingEnds) {
  EXPECT_PASSES({}, [] {
    Device device;
    Stream *stream = device.stream();
    Event *event = device.event();
    EXPECT_EQ(device.cuMemsetD32Async(device.allocate(4), 1, 1, stream), SUCCESS);
    EXPECT_EQ(device.cuEventRecord(event, stream), SUCCESS);
    Result result = ERROR_NOT_READY;
    for (int i = 0; i < 10000 && result == ERROR_NOT_READY; ++i) {
      usleep(100);
      result = device.cuEventQuery(event);
    }
    EXPECT_EQ(result, SUCCESS);
  });
}

TEST(Streams, PageableMemoryIsStagedAndPinnedIsNot) {
  for (int seed = 0; seed < 8; ++seed)
    EXPECT_PASSES(seeded(seed), [] {
      Device device;
      Stream *stream = device.stream();
      DevicePointer x = device.allocate(4);
      int host = 1, back = 0;
      EXPECT_EQ(device.cuMemcpyHtoDAsync_v2(x, &host, 4, stream), SUCCESS);
      host = 2;
      EXPECT_EQ(device.cuMemcpyDtoHAsync_v2(&back, x, 4, stream), SUCCESS);
      EXPECT_EQ(back, 1); // to pageable memory: done when the call returns
    });
}

TEST(Streams, UnorderedStreamsRunInRandomOrder) {
  struct Order {
    char order[3];
  };
  auto *shared = static_cast<Order *>(
      mmap(nullptr, sizeof(Order), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  static char order[3];
  auto orders = [&](bool event) {
    std::set<std::string> seen;
    for (int seed = 0; seed < 16; ++seed) {
      EXPECT_PASSES(seeded(seed), [&] {
        TwoStreams device;
        auto note = [](void *which) {
          order[strlen(order)] = char(reinterpret_cast<uintptr_t>(which));
        };
        Event *done = device.event();
        EXPECT_EQ(device.cuLaunchHostFunc(device.first, note, reinterpret_cast<void *>('1')),
                  SUCCESS);
        if (event) {
          EXPECT_EQ(device.cuEventRecord(done, device.first), SUCCESS);
          EXPECT_EQ(device.cuStreamWaitEvent(device.second, done, 0), SUCCESS);
        }
        EXPECT_EQ(device.cuLaunchHostFunc(device.second, note, reinterpret_cast<void *>('2')),
                  SUCCESS);
        EXPECT_EQ(device.cuCtxSynchronize(), SUCCESS);
        memcpy(shared->order, order, 3);
      });
      seen.insert(shared->order);
    }
    return seen;
  };
  EXPECT_EQ(orders(false), (std::set<std::string>{"12", "21"}));
  EXPECT_EQ(orders(true), (std::set<std::string>{"12"}));
}

TEST(Races, AreFoundInEveryOrder) {
  for (int seed = 0; seed < 10; ++seed) {
    Findings findings;
    EXPECT_PASSES(findings.with(seeded(seed)), [] {
      TwoStreams device;
      EXPECT_EQ(device.go(device.first, device.x, device.y), SUCCESS);
      EXPECT_EQ(device.go(device.second, device.y, device.z), SUCCESS); // reads y
      EXPECT_EQ(device.cuCtxSynchronize(), ERROR_LAUNCH_FAILED);
    });
    EXPECT_FINDS(findings, "race: ");
    EXPECT_FINDS(findings, "which no event orders after kernel add");
  }
}

TEST(Races, CopiesAndFills) {
  using Use = std::function<Result(Device &, DevicePointer, Stream *)>;
  auto write = [](Device &device, DevicePointer x, Stream *stream) {
    return device.cuMemsetD32Async(x, 5, 2, stream);
  };
  auto copyIn = [](Device &device, DevicePointer x, Stream *stream) {
    return device.cuMemcpyHtoDAsync_v2(x + 4, device.pinned<int>(1), 4, stream);
  };
  auto copyOut = [](Device &device, DevicePointer x, Stream *stream) {
    return device.cuMemcpyDtoHAsync_v2(device.pinned<int>(3), x, 12, stream);
  };
  auto beside = [](Device &device, DevicePointer x, Stream *stream) {
    return device.cuMemsetD32Async(x + 8, 5, 1, stream);
  };
  struct Case {
    Use first, second;
    bool race;
  };
  for (const Case &one : {Case{write, copyIn, true},
                          {copyIn, copyOut, true},
                          {copyOut, write, true},
                          {copyOut, copyOut, false},
                          {write, beside, false}})
    for (int seed = 0; seed < 4; ++seed)
      EXPECT_PASSES(seeded(seed), [&] {
        TwoStreams device;
        DevicePointer x = device.upload<int>({1, 2, 3});
        EXPECT_EQ(one.first(device, x, device.first), SUCCESS);
        one.second(device, x, device.second);
        EXPECT_EQ(device.cuCtxSynchronize() != SUCCESS, one.race);
      });
}

TEST(Races, EventsAndWaitsOrderOperations) {
  using Order = std::function<void(TwoStreams &)>;
  auto event = [](TwoStreams &device) {
    Event *done = device.event();
    EXPECT_EQ(device.cuEventRecord(done, device.first), SUCCESS);
    EXPECT_EQ(device.cuStreamWaitEvent(device.second, done, 0), SUCCESS);
  };
  auto host = [](TwoStreams &device) {
    EXPECT_EQ(device.cuStreamSynchronize(device.first), SUCCESS);
  };
  auto hostEvent = [](TwoStreams &device) {
    Event *done = device.event();
    EXPECT_EQ(device.cuEventRecord(done, device.first), SUCCESS);
    EXPECT_EQ(device.cuEventSynchronize(done), SUCCESS);
  };
  auto early = [](TwoStreams &device) { // recorded again, but after the wait
    Event *done = device.event();
    EXPECT_EQ(device.cuStreamWaitEvent(device.second, done, 0), SUCCESS);
    EXPECT_EQ(device.cuEventRecord(done, device.first), SUCCESS);
  };
  auto wrongStream = [](TwoStreams &device) {
    Event *done = device.event();
    EXPECT_EQ(device.cuEventRecord(done, device.second), SUCCESS);
    EXPECT_EQ(device.cuStreamWaitEvent(device.first, done, 0), SUCCESS);
  };
  auto nothing = [](TwoStreams &) {};
  auto legacy = [](TwoStreams &device) { // does not wait for non-blocking streams
    EXPECT_EQ(device.cuMemsetD32Async(device.z, 0, 1, nullptr), SUCCESS);
  };
  struct Case {
    Order order;
    bool ordered;
  };
  for (const Case &one : {Case{event, true},
                          {host, true},
                          {hostEvent, true},
                          {early, false},
                          {wrongStream, false},
                          {nothing, false},
                          {legacy, false}})
    for (int seed = 0; seed < 4; ++seed)
      EXPECT_PASSES(seeded(seed), [&] {
        TwoStreams device;
        EXPECT_EQ(device.go(device.first, device.x, device.y), SUCCESS);
        one.order(device);
        device.go(device.second, device.x, device.y);
        Result result = device.cuCtxSynchronize();
        EXPECT_EQ(result == SUCCESS, one.ordered);
        if (one.ordered)
          EXPECT_EQ(device.download<float>(device.y, 3), (std::vector<float>{12, 24, 36}));
      });
}

TEST(Races, BlockingStreamsAndTheLegacyStreamWaitForEachOther) {
  for (int seed = 0; seed < 8; ++seed)
    EXPECT_PASSES(seeded(seed), [] {
      Device device;
      Function *add = device.function(addText, "add");
      DevicePointer x = device.upload<float>({1}), y = device.upload<float>({10});
      Stream *first = device.stream(StreamDefault), *second = device.stream(StreamDefault);
      for (Stream *stream : {first, static_cast<Stream *>(nullptr), second})
        EXPECT_EQ(device.launch(add, stream, 32, x, y, 1), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(second), SUCCESS);
      EXPECT_EQ(device.download<float>(y, 1)[0], 13);
    });
}

TEST(Memory, UnwrittenBytesAreFoundAfterCopies) {
  Findings findings;
  EXPECT_PASSES(findings.with(), [] {
    Device device;
    DevicePointer x = device.upload<int>({1}), y = device.allocate(8), z = device.allocate(8);
    EXPECT_EQ(device.cuMemcpyDtoD_v2(y, x, 4), SUCCESS);
    EXPECT_EQ(device.cuMemcpyDtoD_v2(z, y, 8), SUCCESS); // unwritten bytes remain unwritten
    int back[2] = {};
    EXPECT_EQ(device.cuMemcpyDtoH_v2(back, z, 4), SUCCESS);
    EXPECT_EQ(back[0], 1);
    EXPECT_EQ(device.cuMemcpyDtoH_v2(back, z, 8), ERROR_LAUNCH_FAILED);
  });
  EXPECT_FINDS(findings, "4 bytes of the source that are unwritten, the first at offset 4");
}

TEST(Memory, CopiesAreChecked) {
  Findings findings;
  EXPECT_PASSES(findings.with(), [] {
    Device device;
    DevicePointer x = device.upload<int>({1, 2});
    int host[3] = {};
    EXPECT_EQ(device.cuMemcpyHtoD_v2(x, host, 12), ERROR_INVALID_VALUE);
    EXPECT_EQ(device.cuMemcpyHtoD_v2(x - 4, host, 4), ERROR_INVALID_VALUE);
    EXPECT_EQ(device.cuMemcpyDtoH_v2(reinterpret_cast<void *>(x), x, 4), ERROR_INVALID_VALUE);
    EXPECT_EQ(device.cuMemsetD32Async(x + 2, 1, 1, nullptr), ERROR_INVALID_VALUE);
    auto *pinned = device.pinned<int>(1024);
    EXPECT_EQ(device.cuMemHostRegister_v2(pinned, 4, 0), ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(device.cuMemHostUnregister(pinned), ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_EQ(device.cuMemFreeHost(host), ERROR_INVALID_VALUE);
    EXPECT_EQ(device.cuMemHostRegister_v2(host, 12, 0), SUCCESS);
    EXPECT_EQ(device.cuMemHostUnregister(host), SUCCESS);
    EXPECT_EQ(device.cuMemFreeHost(pinned), SUCCESS);
    EXPECT_EQ(device.cuStreamSynchronize(reinterpret_cast<Stream *>(host)), ERROR_INVALID_HANDLE);
    // After a free, the host's copies fail at once, and kernels fail when they run.
    EXPECT_EQ(device.cuMemFree_v2(x), SUCCESS);
    EXPECT_EQ(device.cuMemcpyHtoD_v2(x, host, 4), ERROR_INVALID_VALUE);
  });
  EXPECT_FINDS(findings, "freed");
}

TEST(Memory, FreeingMemoryOfPendingOperationsIsFound) {
  // The real driver waits in these calls. The simulator reports programs that rely on it, unless
  // all operations happen to be complete.
  for (bool pinned : {false, true}) {
    int found = 0;
    for (int seed = 0; seed < 6; ++seed) {
      Findings findings;
      inProcess(findings.with(seeded(seed)), [pinned] {
        Device device;
        DevicePointer x = device.upload(std::vector<int>(1 << 18, 1)), y = device.allocate(1 << 20);
        auto *host = device.pinned<int>(1 << 18);
        Stream *stream = nullptr;
        EXPECT_EQ(device.cuStreamCreate(&stream, 1), SUCCESS);
        for (int i = 0; i < 8; ++i)
          EXPECT_EQ(device.cuMemcpyDtoDAsync_v2(y, x, 1 << 20, stream), SUCCESS);
        EXPECT_EQ(device.cuMemcpyDtoHAsync_v2(host, y, 1 << 20, stream), SUCCESS);
        pinned ? device.cuMemFreeHost(host) : device.cuMemFree_v2(y);
      });
      found += findings.text().find(pinned ? "were freed" : "freed") != std::string::npos;
    }
    EXPECT_GT(found, 2);
  }
}

TEST(Modules, UnloadingModulesOfPendingOperationsIsFound) {
  int found = 0;
  for (int seed = 0; seed < 6; ++seed) {
    Findings findings;
    inProcess(findings.with(seeded(seed)), [] {
      Device device;
      Module *module = nullptr;
      EXPECT_EQ(device.cuModuleLoadDataEx(&module, addText, 0, nullptr, nullptr), SUCCESS);
      Function *add = nullptr;
      EXPECT_EQ(device.cuModuleGetFunction(&add, module, "add"), SUCCESS);
      int n = 1 << 10;
      DevicePointer x = device.upload(std::vector<float>(size_t(n), 1)),
                    y = device.upload(std::vector<float>(size_t(n), 1));
      void *parameters[] = {&x, &y, &n};
      for (int i = 0; i < 8; ++i)
        EXPECT_EQ(device.cuLaunchKernel(add, unsigned(n) / 32, 1, 1, 32, 1, 1, 0, nullptr,
                                        parameters, nullptr),
                  SUCCESS);
      device.cuModuleUnload(module);
    });
    found += findings.text().find("its module was unloaded") != std::string::npos;
  }
  EXPECT_GT(found, 2);
}

TEST(Memory, Copies2DSkipTheBytesBetweenRows) {
  EXPECT_PASSES({}, [] {
    Device device;
    DevicePointer from = device.upload<int>({1, 2, 3, 4, 5, 6}),
                  to = device.upload<int>({0, 0, 0, 0});
    Copy2D copy = {};
    copy.fromType = copy.toType = MemoryDevice;
    copy.fromDevice = from;
    copy.toDevice = to;
    copy.fromX = 4;
    copy.fromPitch = 12;
    copy.toPitch = 8;
    copy.width = 4;
    copy.height = 2;
    EXPECT_EQ(device.cuMemcpy2DAsync_v2(&copy, nullptr), SUCCESS);
    EXPECT_EQ(device.download<int>(to, 4), (std::vector<int>{2, 0, 5, 0}));
    copy.toPitch = 2;
    EXPECT_EQ(device.cuMemcpy2DAsync_v2(&copy, nullptr), ERROR_INVALID_VALUE);
    copy.toPitch = 16;
    EXPECT_EQ(device.cuMemcpy2DAsync_v2(&copy, nullptr), ERROR_INVALID_VALUE);
  });
}

TEST(Memory, DeviceMemoryIsNotProcessMemory) {
  auto anonymous = [] {
    std::ifstream file("/proc/self/status");
    std::string word;
    long kib = 0;
    while (file >> word)
      if (word == "RssAnon:")
        file >> kib;
    return kib;
  };
  EXPECT_PASSES({}, [&] {
    Device device;
    DevicePointer x = device.allocate(64 << 20), y = device.allocate(64 << 20);
    long before = anonymous();
    EXPECT_EQ(device.cuMemsetD32Async(x, 1, 16 << 20, nullptr), SUCCESS);
    EXPECT_EQ(device.cuMemcpyDtoD_v2(y, x, 64 << 20), SUCCESS);
    EXPECT_EQ(device.cuCtxSynchronize(), SUCCESS);
    EXPECT_LT(anonymous() - before, 4 << 10);
  });
}

TEST(Memory, ProcessesShareDevices) {
  std::string session = testing::TempDir() + "session-" + std::to_string(getpid());
  mkdir(session.c_str(), 0777);
  Variables variables = {{"TPC_SIM_SESSION", session}, {"TPC_SIM_MEMORY", "4MiB"}};
  EXPECT_PASSES(variables, [&] {
    Device device;
    device.allocate(600 << 10); // a page of 2 MiB
    EXPECT_PASSES(variables, [] {
      Device other;
      size_t free = 0, total = 0;
      DevicePointer address = 0;
      EXPECT_EQ(other.cuMemGetInfo_v2(&free, &total), SUCCESS);
      EXPECT_EQ(free, 2u << 20);
      EXPECT_EQ(other.cuMemAlloc_v2(&address, 3 << 20), ERROR_OUT_OF_MEMORY);
    });
  });
  // Both processes have ended, and their memory is free.
  EXPECT_PASSES(variables, [] { Device().allocate(4 << 20); });
  unlink((session + "/device0").c_str());
  rmdir(session.c_str());
}
