//===- DriverTest.cpp - Devices, memory, copies, launches -----------------===//

#include "SimulatorTesting.h"

#include <cmath>
#include <csignal>
#include <cstring>

using namespace sim;

TEST(Driver, HasAllEntryPoints) {
  auto check = [] {
    Cuda cuda;
#define FUNCTION(name, parameters) EXPECT_TRUE(cuda.name) << #name;
#include "Cuda/Functions.def"
#undef FUNCTION
  };
  EXPECT_PASSES({}, check);
}

TEST(Driver, RejectsCallsBeforeInitAndWithoutContext) {
  EXPECT_PASSES({}, [] {
    Cuda cuda;
    int count = 0;
    DevicePointer address = 0;
    EXPECT_EQ(cuda.cuDeviceGetCount(&count), ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuda.cuInit(1), ERROR_INVALID_VALUE);
    EXPECT_EQ(cuda.cuInit(0), SUCCESS);
    EXPECT_EQ(cuda.cuMemAlloc_v2(&address, 4), ERROR_INVALID_CONTEXT);
    DeviceNumber device = 0;
    EXPECT_EQ(cuda.cuDeviceGet(&device, 8), ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuda.cuDeviceGet(&device, -1), ERROR_INVALID_DEVICE);
  });
}

TEST(Driver, VariablesDescribeDevices) {
  Variables variables = {{"TPC_SIM_DEVICES", "3"},
                         {"TPC_SIM_MEMORY", "4MiB"},
                         {"TPC_SIM_CAPABILITY", "12.0"},
                         {"TPC_SIM_NAME", "Toy"},
                         {"CUDA_VISIBLE_DEVICES", "2,0"}};
  EXPECT_PASSES(variables, [] {
    Device device;
    int count = 0, major = 0, minor = 0;
    EXPECT_EQ(device.cuDeviceGetCount(&count), SUCCESS);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(device.cuDeviceGetAttribute(&major, ComputeCapabilityMajor, 0), SUCCESS);
    EXPECT_EQ(device.cuDeviceGetAttribute(&minor, ComputeCapabilityMinor, 0), SUCCESS);
    EXPECT_EQ(major * 10 + minor, 120);
    char name[8];
    EXPECT_EQ(device.cuDeviceGetName(name, 8, 0), SUCCESS);
    EXPECT_STREQ(name, "Toy");
    Uuid first, second;
    EXPECT_EQ(device.cuDeviceGetUuid_v2(&first, 0), SUCCESS);
    EXPECT_EQ(device.cuDeviceGetUuid_v2(&second, 1), SUCCESS);
    EXPECT_EQ(first.bytes[15], 2);
    EXPECT_EQ(second.bytes[15], 0);
    size_t free = 0, total = 0;
    DevicePointer address = 0;
    EXPECT_EQ(device.cuMemGetInfo_v2(&free, &total), SUCCESS);
    EXPECT_EQ(total, 4u << 20);
    EXPECT_EQ(device.cuMemAlloc_v2(&address, total + 1), ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(device.cuMemAlloc_v2(&address, total / 2), SUCCESS);
    EXPECT_EQ(device.cuMemGetInfo_v2(&free, &total), SUCCESS);
    EXPECT_EQ(free, total / 2);
    EXPECT_EQ(device.cuMemFree_v2(address), SUCCESS);
    EXPECT_EQ(device.cuMemGetInfo_v2(&free, &total), SUCCESS);
    EXPECT_EQ(free, total);
    EXPECT_EQ(device.cuMemFree_v2(address), ERROR_INVALID_VALUE);
  });
}

TEST(Driver, DevicesMayDifferAndBePartlyOccupied) {
  EXPECT_PASSES(
      (Variables{{"TPC_SIM_CAPABILITY", "9.0,8.6"},
                 {"TPC_SIM_MEMORY", "8MiB"},
                 {"TPC_SIM_TAKEN", "3MiB"}}),
      [] {
        Device device;
        for (int number = 0; number < 4; ++number) {
          int major = 0, shared = 0;
          char name[32];
          EXPECT_EQ(device.cuDeviceGetAttribute(&major, ComputeCapabilityMajor, number), SUCCESS);
          EXPECT_EQ(major, number % 2 ? 8 : 9);
          EXPECT_EQ(device.cuDeviceGetAttribute(&shared, MaxSharedMemoryPerBlockOptin, number),
                    SUCCESS);
          EXPECT_EQ(shared, (number % 2 ? 99 : 227) << 10);
          EXPECT_EQ(device.cuDeviceGetName(name, sizeof(name), number), SUCCESS);
          EXPECT_STREQ(name, number % 2 ? "Simulated GPU sm_86" : "Simulated GPU sm_90");
        }
        size_t free = 0, total = 0;
        DevicePointer address = 0;
        EXPECT_EQ(device.cuMemGetInfo_v2(&free, &total), SUCCESS);
        EXPECT_EQ(free, 5u << 20);
        EXPECT_EQ(total, 8u << 20);
        EXPECT_EQ(device.cuMemAlloc_v2(&address, 6 << 20), ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(device.cuMemAlloc_v2(&address, 4 << 20), SUCCESS);
      });
}

TEST(Driver, NoDeviceIsVisible) {
  EXPECT_PASSES((Variables{{"CUDA_VISIBLE_DEVICES", ""}}),
                [] { EXPECT_EQ(Cuda().cuInit(0), ERROR_NO_DEVICE); });
}

TEST(Driver, RunsAKernel) {
  for (int seed = 0; seed < 10; ++seed)
    EXPECT_PASSES(seeded(seed), [] {
      Device device;
      Function *add = device.function(addText, "add");
      DevicePointer x = device.upload<float>({1, 2, 3}), y = device.upload<float>({10, 20, 30});
      Stream *stream = device.stream();
      EXPECT_EQ(device.launch(add, stream, 32, x, y, 3), SUCCESS);
      EXPECT_EQ(device.launch(add, stream, 32, x, y, 3), SUCCESS);
      EXPECT_EQ(device.cuStreamSynchronize(stream), SUCCESS);
      EXPECT_EQ(device.download<float>(y, 3), (std::vector<float>{12, 24, 36}));
    });
}

TEST(Driver, FindingsFailTheContext) {
  struct Case {
    int n;
    size_t bytes;
    Result result;
  };
  for (Case one : {Case{4, 12, ERROR_ILLEGAL_ADDRESS}, {4, 16, ERROR_LAUNCH_FAILED}})
    EXPECT_PASSES({}, [&] {
      Device device;
      Function *add = device.function(addText, "add");
      DevicePointer x = device.upload<float>({1, 2, 3, 4}), y = device.allocate(one.bytes);
      float three[3] = {};
      EXPECT_EQ(device.cuMemcpyHtoD_v2(y, three, 12), SUCCESS);
      EXPECT_EQ(device.launch(add, nullptr, 32, x, y, one.n), SUCCESS);
      EXPECT_EQ(device.cuCtxSynchronize(), one.result);
      // The error is sticky.
      EXPECT_EQ(device.cuMemcpyHtoD_v2(y, three, 12), one.result);
      EXPECT_EQ(device.cuMemAlloc_v2(&y, 4), one.result);
    });
}

TEST(Driver, DeviceAddressesAreInvalidOnTheHost) {
  int status = inProcess({}, [] {
    Device device;
    DevicePointer x = device.upload<float>({1});
    // NOLINTNEXTLINE
    EXPECT_EQ(*reinterpret_cast<volatile float *>(x), 1);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}
