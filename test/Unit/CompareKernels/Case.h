//===- Case.h - Random sizes and operands of a kernel ---------------------===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_CASE_H
#define TPC_TEST_UNIT_COMPAREKERNELS_CASE_H

#include "Program.h"

#include "Lowered/RunKernel.h"

namespace compare {

/// Kinds of sizes. The cases of a kernel take the kinds in turn.
enum class Sizes { Even, One, Many, Odd, Empty, Long, Any, NumKinds };
/// Integer operands, which may index tables: all in bounds, or some out of bounds if possible.
enum class Indices { Present, SomeMissing };

class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ull + 1) {}
  uint64_t next() {
    uint64_t x = (state += 0x9E3779B97F4A7C15ull);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
  }
  int64_t below(int64_t n) { return n <= 1 ? 0 : int64_t(next() % uint64_t(n)); }
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  double normal();

private:
  uint64_t state;
};

struct Tensor {
  mlir::Type type; // element type
  int64_t elements = 0;
  unsigned alignment = 256;               // alignment of the pointer on the GPU
  mlir::tpc::lowered::MemoryView content; // values of an operand; empty for results
  int64_t bytes() const { return elements * mlir::tpc::getElementBytes(type); }
};

struct Case {
  uint64_t seed = 0;
  std::map<std::string, int64_t> values; // of the model's symbols and the rank's coordinates
  std::vector<int64_t> env;
  std::vector<Tensor> operands, results;
  int64_t rows = 0;
  unsigned blocks = 1;

  int64_t evaluate(const SymExpr &size, const mlir::tpc::EnvLayout &layout) const;
  std::string str() const;
};

/// Limits of the cost of one case.
struct Limits {
  int64_t work = 20000;      // maximum iterations of innermost loops
  int64_t elements = 400000; // maximum elements of an operand
};

/// Draws a case, or returns nothing if no sizes are within the limits.
std::optional<Case> draw(const Program &program, const Kernel &kernel, Sizes sizes, Indices indices,
                         uint64_t seed, const Limits &limits);
/// Whether the kernel has integer operands, which it may use as indices.
bool hasIndices(const Kernel &kernel);

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_CASE_H
