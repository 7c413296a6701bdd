//===- OneDnn.cpp - Loading of oneDNN -------------------------------------===//

#include "cpu/OneDnn.h"
#include <cstdio>
#include <dlfcn.h>

namespace tpc::rt::onednn {
namespace {

constexpr const char *fileName = "libdnnl.so.3";

/// The library, or the reason why it is not usable.
struct Attempt {
  Library entries;
  std::string problem;

  Attempt() { problem = load(); }

  std::string load() {
    void *file = dlopen(fileName, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
      const char *reason = dlerror();
      return std::string("it cannot be loaded: ") + (reason ? reason : "unknown reason") +
             "; set LD_LIBRARY_PATH to its folder";
    }
    const char *missing = nullptr;
    auto find = [&]<class Function>(Function *&function, const char *name) {
      function = reinterpret_cast<Function *>(dlsym(file, name));
      if (!function && !missing)
        missing = name;
    };
#define TPC_FIND_FUNCTION(name, result, arguments) find(entries.name, "dnnl_" #name);
    TPC_ONEDNN_FUNCTIONS(TPC_FIND_FUNCTION)
#undef TPC_FIND_FUNCTION
    if (missing)
      return std::string("it has no function ") + missing + ": oneDNN 3 is needed";
    const Version &version = *entries.version();
    if (version.major != 3)
      return "it is version " + std::to_string(version.major) + ": oneDNN 3 is needed";
    // The rank's own threads divide the work; the library's threads would compete for their cores.
    if (version.cpuRuntime == openMp) {
      entries.setThreads = reinterpret_cast<void (*)(int)>(dlsym(file, "omp_set_num_threads"));
      if (!entries.setThreads)
        return "it has threads of OpenMP, but no omp_set_num_threads";
    } else if (version.cpuRuntime != sequential && version.cpuRuntime != threadPool) {
      return "it has threads that this program cannot limit (of TBB or SYCL); a build with OpenMP, "
             "a thread pool or no threads is needed";
    }
    if (entries.engine_create(&entries.engine, cpuEngine, 0) != success ||
        entries.primitive_attr_create(&entries.attributes) != success ||
        entries.primitive_attr_set_scratchpad_mode(entries.attributes, userScratchpad) != success ||
        entries.primitive_attr_set_fpmath_mode(entries.attributes, strictMath) != success)
      return "it has no engine for this processor";
    return "";
  }
};

} // namespace

std::string Library::describe() const {
  const Version &found = *version();
  char text[64];
  // Supported instruction sets, as the library's bit mask.
  std::snprintf(text, sizeof(text), "oneDNN %d.%d.%d (isa %#x)", found.major, found.minor,
                found.patch, static_cast<unsigned>(get_effective_cpu_isa()));
  return text;
}

const Library *Library::load(std::string &problem) {
  static const Attempt attempt;
  if (attempt.problem.empty())
    return &attempt.entries;
  problem = std::string("--products=onednn needs ") + fileName + ", but " + attempt.problem;
  return nullptr;
}

} // namespace tpc::rt::onednn
