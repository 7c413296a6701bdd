//===- Progress.cpp - Progress of the compilation -------------------------===//

#include "Progress.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/resource.h>

using namespace tpc;

/// Returns the peak memory of this process in MiB. Avoids getrusage() if possible, because its peak
/// includes the parent's memory at fork.
static long getPeakMiB() {
  constexpr llvm::StringLiteral key = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (llvm::StringRef(line).starts_with(key))
      return std::strtol(line.c_str() + key.size(), nullptr, 10) / 1024;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage); // ru_maxrss counts KiB
  return usage.ru_maxrss / 1024;
}

Progress::Progress(bool timing)
    : timing(timing), terminal(llvm::errs().is_displayed() && !timing) {}

void Progress::step(llvm::StringRef what) {
  finish();
  current = what.str();
  start = Clock::now();
  if (terminal)
    llvm::errs() << "\r\033[Ktpcc: " << current << " …";
}

void Progress::clearLine() {
  if (terminal && !current.empty())
    llvm::errs() << "\r\033[K";
}

void Progress::finish() {
  clearLine();
  if (timing && !current.empty()) {
    std::chrono::duration<double> seconds = Clock::now() - start;
    llvm::errs() << llvm::format("tpcc: %8.3f s %6ld MiB  ", seconds.count(), getPeakMiB())
                 << current << "\n";
  }
  current.clear();
}
