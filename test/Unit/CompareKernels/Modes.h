//===- Modes.h - Modes of tpc-compare-kernels -----------------------------===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_MODES_H
#define TPC_TEST_UNIT_COMPAREKERNELS_MODES_H

#include "Compare.h"

namespace compare {

struct Options {
  uint64_t from = 0;
  unsigned seeds = 10;
  Limits limits;
  bool verbose = false;
};

struct Totals {
  unsigned programs = 0, kernels = 0, distinct = 0, cases = 0, withoutCases = 0, wrong = 0;
};

/// Returns the case of a seed, which also decides whether an index is out of bounds; nullopt if no
/// case is small enough.
std::optional<Case> drawCase(const Program &program, const Kernel &kernel, uint64_t seed,
                             const Options &options);

/// Compares the cases of a kernel, counts them in `totals`, and prints the first wrong one.
void compareKernel(const Program &program, const Kernel &kernel, llvm::StringRef input,
                   const Options &options, Totals &totals);

/// Faults of one kind: how many were inserted and found, and how many each check found.
struct Tally {
  unsigned mutants = 0, caught = 0;
  std::map<std::string, unsigned> by;
};
using Tallies = std::map<std::string, Tally>;
/// Inserts at most `maxFaults` faults, drawn by seed, into a kernel's text, and runs each on the
/// cases of drawCase() and more. Counts faults by kind, and prints a line for each that no check
/// finds.
void seedFaults(const Program &program, const Kernel &kernel, const Options &options,
                unsigned maxFaults, Tallies &tallies);
void print(const Tallies &tallies);

/// Prints the sectors that a kernel reads and writes, and the minimum for the same bytes.
void countSectors(const Program &program, const Kernel &kernel, const Options &options);

/// Writes cases as files of a folder, for tpc-ptx-run on a machine with a GPU. `number`: index of
/// the program. Returns false, after a message, if this fails.
bool writeCases(const Program &program, const Kernel &kernel, const Options &options,
                const std::string &folder, unsigned number);

/// Compares functions of one or two numbers with libm, over hard arguments. Returns whether all are
/// within bounds.
bool checkFunctions(mlir::MLIRContext &context);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_MODES_H
