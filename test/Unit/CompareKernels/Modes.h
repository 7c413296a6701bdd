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
  unsigned programs = 0, kernels = 0, distinct = 0, cases = 0, without = 0, wrong = 0;
};

/// Returns the case of a seed, which also decides whether an index is out of bounds; nullopt if no
/// case is small enough.
std::optional<Case> drawCase(const Program &program, const Kernel &kernel, uint64_t seed,
                             const Options &options);

/// Right on all cases.
void compareKernel(const Program &program, const Kernel &kernel, llvm::StringRef input,
                   const Options &options, Totals &totals);

/// Tests `most` mistakes in the text of each kernel, chosen by seed, on these and more cases.
/// Counts them by kind and by detecting check; each surviving mistake has a line.
struct Tally {
  unsigned mutants = 0, caught = 0;
  std::map<std::string, unsigned> by;
};
using Tallies = std::map<std::string, Tally>;
void seedMistakes(const Program &program, const Kernel &kernel, const Options &options,
                  unsigned most, Tallies &tallies);
void print(const Tallies &tallies);

/// Prints the sectors that a kernel moves, and those that its bytes need.
void countSectors(const Program &program, const Kernel &kernel, const Options &options);

/// Cases as files of a folder, for tpc-ptx-run on a machine with a GPU. `number`: of the program.
bool writeCases(const Program &program, const Kernel &kernel, const Options &options,
                const std::string &folder, unsigned number);

/// Functions of one number or two against libm, over hard arguments. Whether all are within bounds.
bool checkFunctions(mlir::MLIRContext &context);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_MODES_H
