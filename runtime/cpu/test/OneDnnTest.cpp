//===- OneDnnTest.cpp - oneDNN declarations against the vendor header -----===//
//
// Skipped if the header is not installed. The device's test suite checks the results
// (conformance/DeviceTest.cpp).
//
//===----------------------------------------------------------------------===//

#include "cpu/OneDnn.h"
#include "core/Device.h"
#include <gtest/gtest.h>
#include <type_traits>
#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#endif

using namespace tpc::rt;

TEST(OneDnn, IsNamedByItsDevices) {
  EXPECT_EQ(cpuDevices().products(), "tpc");
  std::string problem;
  EXPECT_EQ(cpuDevices().withProducts("tpc", problem), &cpuDevices());
  EXPECT_EQ(cpuDevices().withProducts("mkl", problem), nullptr);
  EXPECT_NE(problem.find("--products=mkl"), std::string::npos) << problem;
}

#if DNNL_VERSION_MAJOR == 3
namespace tpc::rt::onednn {
namespace {

/// Whether two functions have the same calling convention: pointee types may have different names,
/// and enumerations are integers.
template <class A, class B> struct Alike {
  static constexpr bool value = sizeof(A) == sizeof(B) &&
                                std::is_pointer_v<A> == std::is_pointer_v<B> &&
                                std::is_floating_point_v<A> == std::is_floating_point_v<B>;
};
template <class R, class... As, class S, class... Bs> struct Alike<R (*)(As...), S (*)(Bs...)> {
  static constexpr bool test() {
    if constexpr (sizeof...(As) != sizeof...(Bs))
      return false;
    else
      return Alike<R, S>::value && (Alike<As, Bs>::value && ...);
  }
  static constexpr bool value = test();
};

#define TPC_COMPARE_FUNCTION(name, result, arguments)                                              \
  static_assert(Alike<result(*) arguments, decltype(&dnnl_##name)>::value, #name);
TPC_ONEDNN_FUNCTIONS(TPC_COMPARE_FUNCTION)
#undef TPC_COMPARE_FUNCTION

static_assert(sizeof(Version) == sizeof(dnnl_version_t) &&
              offsetof(Version, cpuRuntime) == offsetof(dnnl_version_t, cpu_runtime));
static_assert(sizeof(Argument) == sizeof(dnnl_exec_arg_t) &&
              offsetof(Argument, memory) == offsetof(dnnl_exec_arg_t, memory));
static_assert(success == dnnl_success && cpuEngine == dnnl_cpu &&
              inOrderStream == dnnl_stream_in_order && f32 == dnnl_f32 &&
              anyTag == dnnl_format_tag_any && userScratchpad == dnnl_scratchpad_mode_user &&
              strictMath == dnnl_fpmath_mode_strict && queryWeights == dnnl_query_weights_md &&
              queryScratchpad == dnnl_query_scratchpad_md);
static_assert(source == DNNL_ARG_SRC && weights == DNNL_ARG_WEIGHTS &&
              destination == DNNL_ARG_DST && scratchpad == DNNL_ARG_SCRATCHPAD);
static_assert(sequential == DNNL_RUNTIME_SEQ && openMp == DNNL_RUNTIME_OMP &&
              threadPool == DNNL_RUNTIME_THREADPOOL);

} // namespace
} // namespace tpc::rt::onednn
#endif
