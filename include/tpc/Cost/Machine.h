//===- Machine.h - Measured times of a machine ------------------*- C++ -*-===//
//
// Description of a machine for cost estimates: times of matmuls, attention, generated kernels,
// collectives and messages, and memory. All times are in seconds and come from tables of
// measurements. A value within a table is interpolated; a value outside is extrapolated by a
// formula and counted as such. A time without a table is an error, never a default.
//
// Times of CPUs depend on the number of threads of a rank, so their tables name it. The machine has
// `cores`, which its ranks share.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_COST_MACHINE_H
#define TPC_COST_MACHINE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tpc {

/// Time as a function of work: linear between measured points, constant before the first point.
/// After the last point, the time has the slope of the last segment; with a single point, it is
/// proportional to the work.
class Curve {
public:
  Curve() = default;
  /// Sorts the points and raises times that are less than the time of less work. `raised`: number
  /// of raised points.
  explicit Curve(std::vector<std::pair<double, double>> points, unsigned *raised = nullptr);

  bool empty() const { return points.empty(); }
  double at(double work) const;
  /// Whether `work` exceeds that of the last point.
  bool extrapolates(double work) const { return work > points.back().first; }

private:
  std::vector<std::pair<double, double>> points;
};

/// Times of matmuls [m, k] x [k, n] of one element type. Efficiency is the time of the roofline
/// (`peak` operations and `bandwidth` bytes per second) as a fraction of the measured time. It is
/// interpolated over log m for each measured (n, k), then over (log n, log k) with weights that are
/// the inverse fourth power of the distance.
class MatmulTable {
public:
  double peak = 0, bandwidth = 0;
  /// Minimum time of a matmul.
  double floor = 0;
  int64_t elementBytes = 0;

  void add(int64_t m, int64_t n, int64_t k, double seconds);
  bool empty() const { return series.empty(); }
  struct Time {
    double seconds = 0;
    bool isCompute = false; // whether operations take longer than memory on the roofline
    bool extrapolates = false;
  };
  /// `weightBytes`: bytes of an element of the [k, n] matrix; 0: elementBytes. The efficiency is
  /// that of `elementBytes`, and other sizes count as extrapolated.
  Time at(int64_t m, int64_t n, int64_t k, double weightBytes = 0) const;
  /// Returns a lower bound for any matmul with this work, at the best efficiency of the table.
  double getLowerBound(double flops, double bytes) const;

private:
  double getRoofline(double m, double n, double k, double weightBytes) const;
  /// By (n, k): log efficiency by log m.
  std::map<std::pair<int64_t, int64_t>, std::map<double, double>> series;
  double best = 0; // maximum efficiency
};

/// Times of attention. `few` queries: by the bytes of the keys and values that are read. `many`
/// queries: by operations.
struct AttentionTable {
  Curve few, many;
};

class Machine {
public:
  std::string name;
  std::string target; // target of the compiler
  std::string source; // description of the measurements
  int64_t cores = 0;  // 0: each rank has a device of its own
  int64_t memoryBytes = 0, reservedBytes = 0;
  double price = 0;  // of a device for one hour; 0: unknown
  double launch = 0; // time of a call, which all tables include
  /// Time of a collective's call in addition to its table, in programs without CUDA graphs.
  double collectiveLaunch = 0;
  /// Relative error of the times, by cause.
  struct Errors {
    double compute = 0, memory = 0, launch = 0, tensor = 0, pipeline = 0;
  } errors;
  unsigned raised = 0; // points of curves that were raised to make the curves monotone

  /// Parses a machine file. Errors name the entry.
  static llvm::Expected<Machine> parse(llvm::StringRef text);
  /// Reads a file or returns a machine of this name that tpcc contains.
  static llvm::Expected<Machine> load(const std::string &nameOrPath);
  static std::vector<std::string> getNames();

  /// Number of threads of a rank if `ranks` ranks share a node.
  int64_t getThreads(int64_t ranks) const {
    return cores == 0 ? 1 : std::max<int64_t>(1, cores / std::max<int64_t>(1, ranks));
  }
  /// Bytes of a rank if `ranks` ranks share a node.
  int64_t getMemory(int64_t ranks) const;

  /// Returns the table of the largest measured number of threads that is at most `threads`; null if
  /// there is none.
  const MatmulTable *getMatmuls(llvm::StringRef type, int64_t threads) const;
  const AttentionTable *getAttention(llvm::StringRef type, int64_t threads) const;
  const Curve *getKernels(int64_t threads) const;
  std::string listTypes() const;
  /// Returns a lower bound of the time of matmuls with this work, of any type.
  double getLeastMatmulSeconds(int64_t threads, double flops, double bytes) const;

  struct Transfer {
    double seconds = 0;
    bool extrapolates = false;
    double error = 0; // relative, of times that are derived from other tables
  };
  /// Returns the time of a collective of `members` ranks, of which `perNode` share a node. An error
  /// names the missing table. `bytes`: size of the whole buffer. Derived times count as
  /// extrapolated.
  llvm::Expected<Transfer> getCollective(llvm::StringRef kind, int64_t members, int64_t perNode,
                                         double bytes) const;
  llvm::Expected<Transfer> getSend(bool crossesNodes, double bytes) const;

private:
  friend class MachineReader;
  struct Network {
    double latency = 0, bandwidth = 0; // of a node
  };
  std::map<std::pair<std::string, int64_t>, MatmulTable> matmuls; // by type and threads
  std::map<std::pair<std::string, int64_t>, AttentionTable> attentions;
  std::map<int64_t, Curve> kernels;
  struct CollectiveTable : Curve {
    double derivedError = 0; // relative; 0: measured
  };
  /// Within a node; by kind and members.
  std::map<std::string, std::map<int64_t, CollectiveTable>> collectives;
  std::optional<Network> network;
};

} // namespace tpc

#endif // TPC_COST_MACHINE_H
