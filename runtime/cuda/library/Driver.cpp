//===- Driver.cpp - Loader of the CUDA driver -----------------------------===//

#include "cuda/library/Driver.h"
#include "cuda/library/InFlightOperations.h"
#include "cuda/library/VendorLibrary.h"
#include <stdexcept>

namespace tpc::rt::cuda {
namespace {

/// Minimum CUDA version of the driver. It has all functions, and accepts the compiler's PTX for
/// sm_80.
constexpr int oldestDriver = 12000;

/// Returns whether the error is that of earlier work instead of the failing call. The context is
/// unusable after such errors.
bool isAsynchronous(Result result) {
  return result == eccUncorrectable || result == nvlinkUncorrectable || result == illegalAddress ||
         result == launchTimeout || result == assertion ||
         (result >= hardwareStackError && result <= launchFailed);
}

struct Attempt {
  VendorLibrary library{"libcuda.so.1"};
  Driver driver;
  std::string problem;

  Attempt() : problem(library.problem()) {
    if (!problem.empty()) {
      problem += "; is NVIDIA's driver installed on this machine?";
      return;
    }
    driver.file = library.path();
#define TPC_FIND_FUNCTION(name, arguments) library.find(driver.name, #name);
    TPC_DRIVER_FUNCTIONS(TPC_FIND_FUNCTION)
#undef TPC_FIND_FUNCTION
    if (!library.problem().empty()) {
      problem = library.problem() + ": a driver for CUDA 12.0 or later is needed";
      return;
    }
    Result result = driver.cuInit(0);
    if (result == noDevice)
      problem = library.path() + " finds no GPU (CUDA_VISIBLE_DEVICES may hide them)";
    else if (result != success)
      problem = library.path() + " cannot be used: " + driver.describe(result);
    else if (driver.cuDriverGetVersion(&driver.version) != success)
      problem = library.path() + " does not report its version";
    else if (driver.version < oldestDriver)
      problem = library.path() + " is of a driver for CUDA " + driver.versionText() +
                ": one for 12.0 or later is needed";
  }
};

} // namespace

std::string Driver::versionText() const {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != success || !name)
    return "error " + std::to_string(result);
  if (cuGetErrorString(result, &text) != success || !text)
    return name;
  return std::string(text) + " (" + name + ")";
}

void Driver::raise(Result result, const char *what) const {
  bool isLate = isAsynchronous(result);
  throw std::runtime_error("the GPU failed " + std::string(isLate ? "while it worked" : what) +
                           ": " + describe(result) +
                           (isLate ? InFlightOperations::describe() : ""));
}

const Driver *Driver::load(std::string &problem) {
  static const Attempt attempt;
  problem = attempt.problem;
  return problem.empty() ? &attempt.driver : nullptr;
}

} // namespace tpc::rt::cuda
