//===- CublasLt.cpp - Loader of cuBLASLt ----------------------------------===//

#include "cuda/library/CublasLt.h"
#include "cuda/library/VendorLibrary.h"
#include <stdexcept>

namespace tpc::rt::cuda::blas {
namespace {

struct Attempt {
  VendorLibrary library{"libcublasLt.so.13", "libcublasLt.so.12"};
  Library entries;
  std::string problem;

  Attempt() {
    entries.file = library.path();
    library.find(entries.GetVersion, "cublasLtGetVersion");
#define TPC_FIND_FUNCTION(name, arguments) library.find(entries.name, "cublasLt" #name);
    TPC_CUBLASLT_FUNCTIONS(TPC_FIND_FUNCTION)
#undef TPC_FIND_FUNCTION
    problem = library.problem();
    if (!problem.empty())
      return;
    // 120103: 12.1.3
    if (size_t major = entries.GetVersion() / 10000; major != 12 && major != 13)
      problem = library.path() + " is version " + std::to_string(major) + ": 12 or 13 is needed";
  }
};

} // namespace

void Library::check(Status status, const char *what) {
  if (status != success)
    throw std::runtime_error("cuBLASLt failed " + std::string(what) + ": status " +
                             std::to_string(status));
}

std::string Library::describe() const {
  size_t version = GetVersion();
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
         "." + std::to_string(version % 100);
}

const Library *Library::load(std::string &problem) {
  static const Attempt attempt;
  problem = attempt.problem;
  return problem.empty() ? &attempt.entries : nullptr;
}

} // namespace tpc::rt::cuda::blas
