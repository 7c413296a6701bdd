//===- FaultTest.cpp - Injected faults, modules, the trace ----------------===//

#include "SimulatorTesting.h"

#include <csignal>
#include <cstring>

using namespace sim;

static Variables inject(const std::string &what) { return {{"TPC_SIM_INJECT", what}}; }

TEST(Faults, OutOfMemory) {
  EXPECT_PASSES(inject("oom@2,pinned@1"), [] {
    Device device;
    DevicePointer address = 0;
    void *host = nullptr;
    EXPECT_EQ(device.cuMemAlloc_v2(&address, 4), SUCCESS);
    EXPECT_EQ(device.cuMemAlloc_v2(&address, 4), ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(device.cuMemAlloc_v2(&address, 4), SUCCESS);
    EXPECT_EQ(device.cuMemHostAlloc(&host, 4, 0), ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(device.cuMemHostAlloc(&host, 4, 0), SUCCESS);
  });
}

TEST(Faults, MayBeLimitedToOneDevice) {
  EXPECT_PASSES(inject("oom@1:1"), [] {
    DevicePointer address = 0;
    EXPECT_EQ(Device(0).cuMemAlloc_v2(&address, 4), SUCCESS);
    EXPECT_EQ(Device(1).cuMemAlloc_v2(&address, 4), ERROR_OUT_OF_MEMORY);
  });
}

TEST(Faults, LaunchesAndAsynchronousErrors) {
  struct Case {
    const char *what;
    Result atLaunch, atEnd;
  };
  for (const Case &one : {Case{"launch@2", ERROR_LAUNCH_OUT_OF_RESOURCES, SUCCESS},
                          {"fail@4", SUCCESS, ERROR_LAUNCH_FAILED},
                          {"ecc@4", SUCCESS, ERROR_ECC_UNCORRECTABLE},
                          {"address@4", SUCCESS, ERROR_ILLEGAL_ADDRESS}})
    EXPECT_PASSES(inject(one.what), [&] {
      Device device;
      Function *add = device.function(addText, "add");
      Stream *stream = device.stream();
      DevicePointer x = device.upload<float>({1}), y = device.upload<float>({1});
      EXPECT_EQ(device.launch(add, stream, 32, x, y, 1), SUCCESS);
      EXPECT_EQ(device.launch(add, stream, 32, x, y, 1), one.atLaunch);
      EXPECT_EQ(device.cuStreamSynchronize(stream), one.atEnd);
      EXPECT_EQ(device.cuStreamSynchronize(stream), one.atEnd); // errors are sticky
    });
}

TEST(Faults, KillsFreezesAndHangs) {
  auto run = [] {
    Device device;
    DevicePointer x = device.upload<float>({1});
    EXPECT_EQ(device.cuMemsetD32Async(x, 1, 1, nullptr), SUCCESS);
    EXPECT_EQ(device.cuCtxSynchronize(), SUCCESS);
  };
  int status = inProcess(inject("kill@2"), run);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  pid_t child = fork();
  if (!child) {
    inProcess(inject("freeze@2"), run);
    _exit(0);
  }
  std::string of = std::to_string(child), number, name, state;
  pid_t frozen = 0;
  eventually([&] {
    std::ifstream("/proc/" + of + "/task/" + of + "/children") >> frozen;
    std::ifstream("/proc/" + std::to_string(frozen) + "/stat") >> number >> name >> state;
    return state == "T";
  });
  // The child is stopped, so it has not ended.
  EXPECT_EQ(waitpid(child, &status, WNOHANG), 0);
  ASSERT_TRUE(frozen);
  EXPECT_EQ(state, "T");
  kill(frozen, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_PASSES(inject("hang@2"), [] {
    Device device;
    DevicePointer x = device.upload<float>({1});
    Stream *stream = device.stream();
    EXPECT_EQ(device.cuMemsetD32Async(x, 1, 1, stream), SUCCESS);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(device.cuStreamQuery(stream), ERROR_NOT_READY);
      usleep(1000);
    }
  });
}

TEST(Modules, MustMatchArchitectureAndVersion) {
  struct Case {
    const char *image;
    Result result;
  };
  for (const Case &one :
       {Case{"\x7f"
             "ELF and so on",
             ERROR_NO_BINARY_FOR_GPU},
        {".version 7.0\n.target sm_100\n.address_size 64\n", ERROR_INVALID_PTX},
        {".version 9.1\n.target sm_80\n.address_size 64\n", ERROR_UNSUPPORTED_PTX_VERSION},
        {"nonsense", ERROR_INVALID_PTX},
        {addText, SUCCESS}})
    EXPECT_PASSES({}, [&] {
      Device device;
      Module *module = nullptr;
      char log[200] = "";
      JitOption options[] = {JitErrorLogBuffer, JitErrorLogBufferSizeBytes};
      void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
      EXPECT_EQ(device.cuModuleLoadDataEx(&module, one.image, 2, options, values), one.result);
      if (one.result && one.result != ERROR_NO_BINARY_FOR_GPU)
        EXPECT_NE(log[0], 0);
      if (one.result)
        return;
      Function *function = nullptr;
      EXPECT_EQ(device.cuModuleGetFunction(&function, module, "sub"), ERROR_NOT_FOUND);
      EXPECT_EQ(device.cuModuleGetFunction(&function, module, "add"), SUCCESS);
      EXPECT_EQ(device.cuModuleUnload(module), SUCCESS);
      EXPECT_EQ(device.cuModuleUnload(module), ERROR_INVALID_HANDLE);
      EXPECT_EQ(device.cuFuncLoad(function), ERROR_INVALID_HANDLE);
    });
}

TEST(Modules, LaunchesAreChecked) {
  EXPECT_PASSES({}, [] {
    Device device;
    Function *add = device.function(addText, "add");
    DevicePointer x = device.upload<float>({1}), y = device.upload<float>({1});
    int n = 1;
    void *parameters[] = {&x, &y, &n};
    auto launch = [&](unsigned grid, unsigned block, unsigned shared) {
      return device.cuLaunchKernel(add, grid, 1, 1, block, 1, 1, shared, nullptr, parameters,
                                   nullptr);
    };
    EXPECT_EQ(launch(0, 32, 0), ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 1025, 0), ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 32, 50000), ERROR_INVALID_VALUE);
    EXPECT_EQ(device.cuFuncSetAttribute(add, FunctionMaxDynamicSharedSizeBytes, 50000), SUCCESS);
    EXPECT_EQ(device.cuFuncSetAttribute(add, FunctionMaxDynamicSharedSizeBytes, 1 << 20),
              ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 32, 50000), SUCCESS);
    parameters[1] = nullptr;
    EXPECT_EQ(launch(1, 32, 0), ERROR_INVALID_VALUE);
    int blocks = 0;
    EXPECT_EQ(device.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0), SUCCESS);
    EXPECT_EQ(blocks, 4);
    EXPECT_EQ(device.cuCtxSynchronize(), SUCCESS);
  });
}

TEST(Trace, HasALineForEachCall) {
  std::string path = testing::TempDir() + "trace-" + std::to_string(getpid());
  EXPECT_PASSES((Variables{{"TPC_SIM_TRACE", path}}), [] { Device().allocate(4); });
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  EXPECT_NE(all.str().find(" cuMemAlloc_v2 = 0\n"), std::string::npos) << all.str();
  unlink(path.c_str());
}
