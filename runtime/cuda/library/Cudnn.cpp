//===- Cudnn.cpp - Loader of cuDNN ----------------------------------------===//

#include "cuda/library/Cudnn.h"
#include "cuda/library/VendorLibrary.h"
#include <stdexcept>

namespace tpc::rt::cuda::dnn {
namespace {

struct Attempt {
  VendorLibrary library{"libcudnn.so.9"};
  Library entries;
  std::string problem;

  Attempt() {
    entries.file = library.path();
    library.find(entries.GetVersion, "cudnnGetVersion");
    library.find(entries.GetErrorString, "cudnnGetErrorString");
#define TPC_FIND_FUNCTION(name, arguments) library.find(entries.name, "cudnn" #name);
    TPC_CUDNN_FUNCTIONS(TPC_FIND_FUNCTION)
#undef TPC_FIND_FUNCTION
    problem = library.problem();
    if (!problem.empty())
      return;
    // 91900: 9.19.0; 8907: 8.9.7
    size_t version = entries.GetVersion(), major = version / (version < 10000 ? 1000 : 10000);
    if (major != 9)
      problem = library.path() + " is version " + std::to_string(major) + ": 9 is needed";
  }
};

} // namespace

void Library::check(Status status, const char *what) const {
  if (status != success)
    throw std::runtime_error(std::string(what) + ": " + GetErrorString(status));
}

std::string Library::describe() const {
  size_t version = GetVersion();
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

const Library *Library::load(std::string &problem) {
  static const Attempt attempt;
  problem = attempt.problem;
  return problem.empty() ? &attempt.entries : nullptr;
}

} // namespace tpc::rt::cuda::dnn
