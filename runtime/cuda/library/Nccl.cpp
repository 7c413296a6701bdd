//===- Nccl.cpp - Loader of NCCL ------------------------------------------===//

#include "cuda/library/Nccl.h"
#include "cuda/library/VendorLibrary.h"

namespace tpc::rt::cuda::nccl {
namespace {

/// The first version whose communicators another thread can abort during a call.
constexpr int oldest = 21800;

std::string versionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

struct Attempt {
  VendorLibrary library{"libnccl.so.2"};
  Library entries;
  std::string problem;

  Attempt() {
    entries.file = library.path();
    library.find(entries.GetErrorString, "ncclGetErrorString");
    library.find(entries.GetLastError, "ncclGetLastError");
#define TPC_FIND_FUNCTION(name, arguments) library.find(entries.name, "nccl" #name);
    TPC_NCCL_FUNCTIONS(TPC_FIND_FUNCTION)
#undef TPC_FIND_FUNCTION
#define TPC_FIND_FUNCTION(name, arguments) library.findOptional(entries.name, "nccl" #name);
    TPC_NCCL_MEMORY_FUNCTIONS(TPC_FIND_FUNCTION)
#undef TPC_FIND_FUNCTION
    problem = library.problem();
    if (!problem.empty())
      return;
    if (entries.GetVersion(&entries.version) != success)
      problem = library.path() + " does not report its version";
    else if (entries.version < oldest)
      problem = library.path() + " is version " + versionText(entries.version) + ": " +
                versionText(oldest) + " or later is needed";
  }
};

} // namespace

std::string Library::describe() const { return "NCCL " + versionText(version); }

std::string Library::describe(Status status, Comm comm) const {
  const char *text = GetErrorString(status), *last = GetLastError(comm);
  std::string result = text ? text : "status " + std::to_string(status);
  if (last && *last)
    result += " (" + std::string(last) + ")";
  return result;
}

const Library *Library::load(std::string &problem) {
  static const Attempt attempt;
  problem = attempt.problem;
  return problem.empty() ? &attempt.entries : nullptr;
}

} // namespace tpc::rt::cuda::nccl
