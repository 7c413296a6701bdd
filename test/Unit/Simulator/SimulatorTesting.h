//===- SimulatorTesting.h - Helpers of simulator tests --------------------===//
//
// Libraries read their environment variables once. So each test runs in its own process, which
// loads them by path, as programs do.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_UNIT_SIMULATOR_SIMULATORTESTING_H
#define TPC_TEST_UNIT_SIMULATOR_SIMULATORTESTING_H

#include "Cuda/Functions.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace sim {

using Variables = std::map<std::string, std::string>;

/// Runs f in a separate process. Failed expectations in it fail this test. Returns the process's
/// wait status, as waitpid does.
inline int inProcess(const Variables &variables, const std::function<void()> &f) {
  std::fflush(nullptr);
  pid_t child = fork();
  if (!child) {
    for (const auto &[name, value] : variables)
      setenv(name.c_str(), value.c_str(), 1);
    f();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

#define EXPECT_PASSES(variables, ...) EXPECT_EQ(sim::inProcess(variables, __VA_ARGS__), 0)

inline Variables seeded(int seed, Variables more = {}) {
  more["TPC_SIM_SEED"] = std::to_string(seed);
  return more;
}

/// A file to which the simulator writes findings.
struct Findings {
  std::string path = testing::TempDir() + "findings-" + std::to_string(getpid()) + "-" +
                     std::to_string(reinterpret_cast<uintptr_t>(this));
  ~Findings() { unlink(path.c_str()); }
  Variables with(Variables more = {}) const {
    more["TPC_SIM_FINDINGS"] = path;
    return more;
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
};

#define EXPECT_FINDS(findings, wanted)                                                             \
  EXPECT_NE((findings).text().find(wanted), std::string::npos) << (findings).text()

inline bool has(const Findings &findings, const std::string &text) {
  return findings.text().find(text) != std::string::npos;
}

/// Waits briefly until the condition is true.
template <class F> void eventually(F f) {
  for (int i = 0; i < 2000 && !f(); ++i)
    usleep(10000);
}

inline void *open(const std::string &file) {
  void *library = dlopen((TPC_SIMULATOR_DIR "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library) << dlerror();
  return library;
}

/// The driver's entry points.
struct Cuda {
  void *library = open("libcuda.so.1");
#define FUNCTION(name, parameters)                                                                 \
  type::name *name = reinterpret_cast<type::name *>(dlsym(library, #name));
#include "Cuda/Functions.def"
#undef FUNCTION
};

/// The driver with the first device current.
struct Device : Cuda {
  explicit Device(int number = 0) {
    EXPECT_EQ(cuInit(0), SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, number), SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), SUCCESS);
  }

  DevicePointer allocate(size_t bytes) {
    DevicePointer address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, bytes), SUCCESS);
    return address;
  }
  template <class T> DevicePointer upload(const std::vector<T> &values) {
    DevicePointer address = allocate(values.size() * sizeof(T));
    EXPECT_EQ(cuMemcpyHtoD_v2(address, values.data(), values.size() * sizeof(T)), SUCCESS);
    return address;
  }
  template <class T> std::vector<T> download(DevicePointer address, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), address, count * sizeof(T)), SUCCESS);
    return values;
  }
  template <class T> T *pinned(size_t count) {
    void *host = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&host, count * sizeof(T), 0), SUCCESS);
    return static_cast<T *>(host);
  }
  Stream *stream(unsigned flags = StreamNonBlocking) {
    Stream *made = nullptr;
    EXPECT_EQ(cuStreamCreate(&made, flags), SUCCESS);
    return made;
  }
  Event *event(unsigned flags = EventDisableTiming) {
    Event *made = nullptr;
    EXPECT_EQ(cuEventCreate(&made, flags), SUCCESS);
    return made;
  }
  Function *function(const std::string &text, const char *name) {
    Module *module = nullptr;
    Function *made = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, text.c_str()), SUCCESS);
    EXPECT_EQ(cuModuleGetFunction(&made, module, name), SUCCESS);
    return made;
  }
  /// Launches one block of `threads` threads.
  template <class... T>
  Result launch(Function *function, Stream *stream, unsigned threads, T... arguments) {
    void *parameters[] = {&arguments..., nullptr};
    return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  }

  Context *context = nullptr;
};

/// add(x, y, n): y[i] += x[i], one thread per element.
inline const char *addText = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra $L_end;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.b32 %r3, [%rd4];
  ld.global.b32 %r4, [%rd5];
  add.rn.f32 %r5, %r3, %r4;
  st.global.b32 [%rd5], %r5;
$L_end:
  ret;
}
)";

} // namespace sim

#endif
