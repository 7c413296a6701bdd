//===- Progress.cpp - What the compiler is doing just now ------------------===//

#include "Progress.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <sys/resource.h>

using namespace tpc;

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
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage); // ru_maxrss counts KiB
    llvm::errs() << llvm::format("tpcc: %8.3f s %6ld MiB  ", seconds.count(),
                                 usage.ru_maxrss / 1024)
                 << current << "\n";
  }
  current.clear();
}
