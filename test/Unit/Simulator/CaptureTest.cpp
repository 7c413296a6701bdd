//===- CaptureTest.cpp - Stream capture and graph launches ----------------===//

#include "SimulatorTesting.h"

#include <thread>

using namespace sim;

namespace {

struct Capturing : Device {
  Function *add = function(addText, "add");
  DevicePointer x = upload<float>({1, 2, 3}), y = upload<float>({10, 20, 30});
  Stream *first = stream(), *second = stream();

  Capturing() { EXPECT_EQ(cuFuncLoad(add), SUCCESS); }
  void begin(CaptureMode mode = CaptureThreadLocal) {
    EXPECT_EQ(cuStreamBeginCapture_v2(first, mode), SUCCESS);
  }
  Result go(Stream *where) { return launch(add, where, 32, x, y, 3); }
  Result end(GraphExec **exec) {
    Graph *graph = nullptr;
    if (Result result = cuStreamEndCapture(first, &graph))
      return result;
    EXPECT_EQ(cuGraphInstantiateWithFlags(exec, graph, 0), SUCCESS);
    EXPECT_EQ(cuGraphDestroy(graph), SUCCESS);
    return SUCCESS;
  }
};

} // namespace

TEST(Capture, RunsAtEachLaunch) {
  for (int seed = 0; seed < 8; ++seed)
    EXPECT_PASSES(seeded(seed), [] {
      Capturing device;
      CaptureStatus status = CaptureNone;
      GraphExec *exec = nullptr;
      device.begin();
      EXPECT_EQ(device.cuStreamIsCapturing(device.first, &status), SUCCESS);
      EXPECT_EQ(status, CaptureActive);
      EXPECT_EQ(device.go(device.first), SUCCESS);
      EXPECT_EQ(device.go(device.first), SUCCESS);
      EXPECT_EQ(device.end(&exec), SUCCESS);
      EXPECT_EQ(device.cuStreamIsCapturing(device.first, &status), SUCCESS);
      EXPECT_EQ(status, CaptureNone);
      EXPECT_EQ(device.cuCtxSynchronize(), SUCCESS);
      EXPECT_EQ(device.download<float>(device.y, 1)[0], 10); // nothing ran yet
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(device.cuGraphLaunch(exec, device.first), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(device.first), SUCCESS);
      EXPECT_EQ(device.download<float>(device.y, 3), (std::vector<float>{16, 32, 48}));
      EXPECT_EQ(device.cuGraphExecDestroy(exec), SUCCESS);
      EXPECT_EQ(device.cuGraphExecDestroy(exec), ERROR_INVALID_VALUE);
    });
}

TEST(Capture, CopiesParametersButNotPinnedMemory) {
  EXPECT_PASSES({}, [] {
    Capturing device;
    auto *host = device.pinned<float>(3);
    GraphExec *exec = nullptr;
    device.begin();
    EXPECT_EQ(device.cuMemcpyHtoDAsync_v2(device.x, host, 12, device.first), SUCCESS);
    EXPECT_EQ(device.go(device.first), SUCCESS);
    EXPECT_EQ(device.end(&exec), SUCCESS);
    for (float value : {100.0f, 200.0f}) {
      for (int i = 0; i < 3; ++i)
        host[i] = value;
      EXPECT_EQ(device.cuGraphLaunch(exec, device.first), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(device.first), SUCCESS);
    }
    EXPECT_EQ(device.download<float>(device.y, 3), (std::vector<float>{310, 320, 330}));
  });
}

TEST(Capture, ForbiddenCallsInvalidateIt) {
  using Use = std::function<Result(Capturing &)>;
  struct Case {
    const char *what;
    Use use;
    Result result;
  };
  static int pageable[3];
  Case cases[] = {
      {"synchronize", [](Capturing &d) { return d.cuStreamSynchronize(d.first); },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"query", [](Capturing &d) { return d.cuStreamQuery(d.first); },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"context", [](Capturing &d) { return d.cuCtxSynchronize(); },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"allocate",
       [](Capturing &d) {
         DevicePointer address = 0;
         return d.cuMemAlloc_v2(&address, 4);
       },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"free", [](Capturing &d) { return d.cuMemFree_v2(d.x); }, ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"pin",
       [](Capturing &d) {
         void *host = nullptr;
         return d.cuMemHostAlloc(&host, 4, 0);
       },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"load",
       [](Capturing &d) {
         Module *module = nullptr;
         return d.cuModuleLoadData(&module, addText);
       },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"copy and wait", [](Capturing &d) { return d.cuMemcpyHtoD_v2(d.x, pageable, 12); },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"pageable", [](Capturing &d) { return d.cuMemcpyHtoDAsync_v2(d.x, pageable, 12, d.first); },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
      {"destroy", [](Capturing &d) { return d.cuStreamDestroy_v2(d.first); },
       ERROR_STREAM_CAPTURE_UNSUPPORTED},
  };
  for (const Case &one : cases) {
    SCOPED_TRACE(one.what);
    EXPECT_PASSES({}, [&] {
      Capturing device;
      GraphExec *exec = nullptr;
      device.begin();
      EXPECT_EQ(device.go(device.first), SUCCESS);
      EXPECT_EQ(one.use(device), one.result);
      EXPECT_EQ(device.go(device.first), ERROR_STREAM_CAPTURE_INVALIDATED);
      EXPECT_EQ(device.end(&exec), ERROR_STREAM_CAPTURE_INVALIDATED);
      // The stream continues as before.
      EXPECT_EQ(device.go(device.first), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(device.first), SUCCESS);
    });
  }
}

TEST(Capture, EventsOfOtherStreams) {
  EXPECT_PASSES({}, [] {
    Capturing device;
    Event *outside = device.event(), *inside = device.event();
    GraphExec *exec = nullptr;
    EXPECT_EQ(device.cuEventRecord(outside, device.second), SUCCESS);
    device.begin();
    EXPECT_EQ(device.cuStreamWaitEvent(device.first, outside, 0), ERROR_STREAM_CAPTURE_ISOLATION);
    EXPECT_EQ(device.end(&exec), ERROR_STREAM_CAPTURE_INVALIDATED);
    device.begin();
    EXPECT_EQ(device.go(device.first), SUCCESS);
    EXPECT_EQ(device.cuEventRecord(inside, device.first), SUCCESS);
    EXPECT_EQ(device.cuEventQuery(inside), ERROR_CAPTURED_EVENT);
    EXPECT_EQ(device.end(&exec), ERROR_STREAM_CAPTURE_INVALIDATED);
    device.begin();
    EXPECT_EQ(device.cuStreamBeginCapture_v2(device.second, CaptureThreadLocal), SUCCESS);
    EXPECT_EQ(device.cuEventRecord(inside, device.first), SUCCESS);
    EXPECT_EQ(device.cuStreamWaitEvent(device.second, inside, 0), ERROR_STREAM_CAPTURE_MERGE);
  });
}

TEST(Capture, FunctionsMustBeLoadedBefore) {
  Findings findings;
  EXPECT_PASSES(findings.with(), [] {
    Capturing device;
    Function *cold = device.function(addText, "add");
    GraphExec *exec = nullptr;
    device.begin();
    EXPECT_EQ(device.launch(cold, device.first, 32, device.x, device.y, 3),
              ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(device.end(&exec), ERROR_STREAM_CAPTURE_INVALIDATED);
  });
  EXPECT_FINDS(findings, "add is loaded when it is first launched");
}

TEST(Capture, TheLegacyStreamWaitsForBlockingStreams) {
  for (bool blocking : {true, false})
    EXPECT_PASSES({}, [&] {
      Capturing device;
      Graph *graph = nullptr;
      Stream *stream = device.stream(blocking ? StreamDefault : StreamNonBlocking);
      EXPECT_EQ(device.cuStreamBeginCapture_v2(stream, CaptureThreadLocal), SUCCESS);
      EXPECT_EQ(device.cuMemsetD32Async(device.x, 0, 1, nullptr),
                blocking ? ERROR_STREAM_CAPTURE_IMPLICIT : SUCCESS);
      EXPECT_EQ(device.cuStreamEndCapture(stream, &graph),
                blocking ? ERROR_STREAM_CAPTURE_INVALIDATED : SUCCESS);
    });
}

TEST(Capture, StreamsForkAndJoin) {
  for (bool joined : {true, false})
    for (int seed = 0; seed < 4; ++seed)
      EXPECT_PASSES(seeded(seed), [&] {
        Capturing device;
        Event *fork = device.event(), *join = device.event();
        GraphExec *exec = nullptr;
        device.begin();
        EXPECT_EQ(device.go(device.first), SUCCESS);
        EXPECT_EQ(device.cuEventRecord(fork, device.first), SUCCESS);
        EXPECT_EQ(device.cuStreamWaitEvent(device.second, fork, 0), SUCCESS);
        EXPECT_EQ(device.go(device.second), SUCCESS);
        EXPECT_EQ(device.cuEventRecord(join, device.second), SUCCESS);
        if (joined)
          EXPECT_EQ(device.cuStreamWaitEvent(device.first, join, 0), SUCCESS);
        EXPECT_EQ(device.end(&exec), joined ? SUCCESS : ERROR_STREAM_CAPTURE_UNJOINED);
        if (!joined)
          return;
        EXPECT_EQ(device.cuGraphLaunch(exec, device.second), SUCCESS);
        EXPECT_EQ(device.cuStreamSynchronize(device.second), SUCCESS);
        EXPECT_EQ(device.download<float>(device.y, 3), (std::vector<float>{12, 24, 36}));
      });
}

TEST(Capture, BranchesOfAGraphRace) {
  for (int seed = 0; seed < 6; ++seed) {
    Findings findings;
    EXPECT_PASSES(findings.with(seeded(seed)), [] {
      Capturing device;
      Event *fork = device.event(), *join = device.event();
      GraphExec *exec = nullptr;
      device.begin();
      EXPECT_EQ(device.cuEventRecord(fork, device.first), SUCCESS);
      EXPECT_EQ(device.cuStreamWaitEvent(device.second, fork, 0), SUCCESS);
      EXPECT_EQ(device.go(device.first), SUCCESS);
      EXPECT_EQ(device.go(device.second), SUCCESS);
      EXPECT_EQ(device.cuEventRecord(join, device.second), SUCCESS);
      EXPECT_EQ(device.cuStreamWaitEvent(device.first, join, 0), SUCCESS);
      EXPECT_EQ(device.end(&exec), SUCCESS);
      EXPECT_EQ(device.cuGraphLaunch(exec, device.first), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(device.first), ERROR_LAUNCH_FAILED);
    });
    EXPECT_FINDS(findings, "race: ");
  }
}

TEST(Capture, EndsInItsStreamAndThread) {
  EXPECT_PASSES({}, [] {
    Capturing device;
    Graph *graph = nullptr;
    EXPECT_EQ(device.cuStreamEndCapture(device.first, &graph), ERROR_ILLEGAL_STATE);
    device.begin();
    std::thread([&] {
      EXPECT_EQ(device.cuCtxSetCurrent(device.context), SUCCESS);
      // Another thread may allocate: the mode is thread-local.
      DevicePointer address = 0;
      EXPECT_EQ(device.cuMemAlloc_v2(&address, 4), SUCCESS);
      EXPECT_EQ(device.cuStreamEndCapture(device.first, &graph), ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }).join();
    EXPECT_EQ(device.cuStreamEndCapture(device.first, &graph), ERROR_STREAM_CAPTURE_INVALIDATED);
    device.begin(CaptureGlobal);
    std::thread([&] {
      EXPECT_EQ(device.cuCtxSetCurrent(device.context), SUCCESS);
      DevicePointer address = 0;
      EXPECT_EQ(device.cuMemAlloc_v2(&address, 4), ERROR_STREAM_CAPTURE_UNSUPPORTED);
      CaptureMode mode = CaptureRelaxed;
      EXPECT_EQ(device.cuThreadExchangeStreamCaptureMode(&mode), SUCCESS);
      EXPECT_EQ(mode, CaptureGlobal);
      EXPECT_EQ(device.cuMemAlloc_v2(&address, 4), SUCCESS);
    }).join();
  });
}

TEST(Capture, ReplaysFindFreedMemory) {
  for (bool pinned : {true, false}) {
    Findings findings;
    EXPECT_PASSES(findings.with(), [&] {
      Capturing device;
      auto *host = device.pinned<float>(3);
      GraphExec *exec = nullptr;
      device.begin();
      EXPECT_EQ(device.cuMemcpyHtoDAsync_v2(device.x, host, 12, device.first), SUCCESS);
      EXPECT_EQ(device.end(&exec), SUCCESS);
      EXPECT_EQ(device.cuGraphLaunch(exec, device.first), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(device.first), SUCCESS);
      EXPECT_EQ(pinned ? device.cuMemFreeHost(host) : device.cuMemFree_v2(device.x), SUCCESS);
      EXPECT_EQ(device.cuGraphLaunch(exec, device.first), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(device.first), ERROR_ILLEGAL_ADDRESS);
    });
    EXPECT_FINDS(findings, pinned ? "were freed" : "freed");
  }
}
