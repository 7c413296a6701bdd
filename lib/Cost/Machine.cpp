//===- Machine.cpp - Measured times of a machine --------------------------===//

#include "tpc/Cost/Machine.h"
#include "tpc/Dialect/MakeError.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace tpc;

using mlir::tpc::makeError;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

Curve::Curve(std::vector<std::pair<double, double>> from, unsigned *raised)
    : points(std::move(from)) {
  llvm::sort(points);
  for (size_t i = 1; i < points.size(); ++i)
    if (points[i].second < points[i - 1].second) {
      points[i].second = points[i - 1].second;
      if (raised)
        ++*raised;
    }
}

double Curve::at(double work) const {
  if (work <= points.front().first)
    return points.front().second;
  if (points.size() == 1)
    return points[0].second * work / points[0].first;
  size_t next = 1;
  while (next + 1 < points.size() && points[next].first < work)
    ++next;
  auto [x0, y0] = points[next - 1];
  auto [x1, y1] = points[next];
  return y0 + (y1 - y0) * (work - x0) / (x1 - x0);
}

double MatmulTable::getRoofline(double m, double n, double k, double weightBytes) const {
  double bytes = double(elementBytes) * (m * k + m * n) + weightBytes * k * n;
  return std::max(2 * m * n * k / peak, bytes / bandwidth);
}

void MatmulTable::add(int64_t m, int64_t n, int64_t k, double seconds) {
  double efficiency = getRoofline(double(m), double(n), double(k), double(elementBytes)) / seconds;
  series[{n, k}][std::log(double(m))] = std::log(efficiency);
  best = std::max(best, efficiency);
}

MatmulTable::Time MatmulTable::at(int64_t m, int64_t n, int64_t k, double weightBytes) const {
  Time time;
  bool isPacked = weightBytes > 0 && weightBytes != double(elementBytes);
  if (m <= 0 || n <= 0 || k <= 0)
    return time;
  double x = std::log(double(m)), logN = std::log(double(n)), logK = std::log(double(k));
  double weights = 0, sum = 0, nearest = INFINITY;
  for (const auto &[shape, points] : series) {
    auto after = points.lower_bound(x);
    double value;
    double outside = 0;
    if (after == points.end()) {
      value = std::prev(after)->second;
      outside = x - std::prev(after)->first;
    } else if (after == points.begin()) {
      value = after->second;
      outside = after->first - x;
    } else {
      auto before = std::prev(after);
      value = before->second + (after->second - before->second) * (x - before->first) /
                                   (after->first - before->first);
    }
    double dn = logN - std::log(double(shape.first)), dk = logK - std::log(double(shape.second));
    double distance = dn * dn + dk * dk;
    double weight = 1 / (distance * distance + 1e-9);
    weights += weight;
    sum += weight * value;
    nearest = std::min(nearest, std::max(std::sqrt(distance), outside));
  }
  double roofline =
      getRoofline(double(m), double(n), double(k), isPacked ? weightBytes : double(elementBytes));
  time.seconds = std::max(floor, roofline / std::exp(sum / weights));
  time.isCompute = 2.0 * double(m) * double(n) * double(k) / peak >= roofline;
  // More than a factor of 4 from any measured shape.
  time.extrapolates = isPacked || nearest > std::log(4.0);
  return time;
}

double MatmulTable::getLowerBound(double flops, double bytes) const {
  return std::max(flops / peak, bytes / bandwidth) / best;
}

//===----------------------------------------------------------------------===//
// Machines
//===----------------------------------------------------------------------===//

/// Returns the entry of the greatest number of threads that is not greater than `threads`.
template <typename Table>
static const Table *lookup(const std::map<std::pair<std::string, int64_t>, Table> &tables,
                           llvm::StringRef type, int64_t threads) {
  const Table *found = nullptr;
  for (const auto &[key, table] : tables)
    if (key.first == type && key.second <= threads)
      found = &table;
  return found;
}

const MatmulTable *Machine::getMatmuls(llvm::StringRef type, int64_t threads) const {
  return lookup(matmuls, type, threads);
}

const AttentionTable *Machine::getAttention(llvm::StringRef type, int64_t threads) const {
  return lookup(attentions, type, threads);
}

const Curve *Machine::getKernels(int64_t threads) const {
  auto after = kernels.upper_bound(threads);
  return after == kernels.begin() ? nullptr : &std::prev(after)->second;
}

int64_t Machine::getMemory(int64_t ranks) const {
  int64_t usable = memoryBytes - reservedBytes;
  return cores == 0 ? usable : usable / std::max<int64_t>(1, ranks);
}

double Machine::getLeastMatmulSeconds(int64_t threads, double flops, double bytes) const {
  double least = INFINITY;
  for (const auto &[key, table] : matmuls)
    if (getMatmuls(key.first, threads) == &table)
      least = std::min(least, table.getLowerBound(flops, bytes));
  return std::isfinite(least) ? least : 0;
}

std::string Machine::listTypes() const {
  std::string types;
  for (const auto &[key, table] : matmuls)
    if (types.find(key.first) == std::string::npos)
      types += (types.empty() ? "" : ", ") + key.first;
  return types;
}

llvm::Expected<Machine::Transfer> Machine::getCollective(llvm::StringRef kind, int64_t members,
                                                         int64_t perNode, double bytes) const {
  Transfer transfer;
  if (members <= 1 || bytes <= 0)
    return transfer;
  auto found = collectives.find(kind.str());
  if (found == collectives.end())
    return makeError("machine '" + name + "' has no times of " + kind);
  const std::map<int64_t, CollectiveTable> &tables = found->second;
  auto addDerived = [&](const CollectiveTable &table) {
    transfer.error = std::max(transfer.error, table.derivedError);
    transfer.extrapolates |= table.derivedError > 0;
  };
  transfer.seconds = collectiveLaunch;
  int64_t inside = std::clamp<int64_t>(perNode, 1, members);
  if (inside > 1) {
    auto after = tables.lower_bound(inside);
    if (after == tables.end())
      return makeError("machine '" + name + "' has no times of " + kind + " of " +
                       llvm::Twine(inside) + " ranks in one node; the table ends at " +
                       llvm::Twine(tables.rbegin()->first));
    transfer.extrapolates = after->second.extrapolates(bytes);
    addDerived(after->second);
    double seconds = after->second.at(bytes);
    if (after->first != inside) {
      // Between two numbers of ranks, the time is linear in the logarithm.
      if (after == tables.begin())
        return makeError("machine '" + name + "' has no times of " + kind + " of " +
                         llvm::Twine(inside) + " ranks; the table begins at " +
                         llvm::Twine(after->first));
      auto before = std::prev(after);
      addDerived(before->second);
      double at = std::log(double(inside) / double(before->first)) /
                  std::log(double(after->first) / double(before->first));
      seconds = (1 - at) * before->second.at(bytes) + at * seconds;
    }
    transfer.seconds += seconds;
  }
  if (int64_t nodes = (members + inside - 1) / inside; nodes > 1) {
    if (!network)
      return makeError("machine '" + name + "' has no network, but " + kind + " of " +
                       llvm::Twine(members) + " ranks crosses nodes");
    // A ring over nodes; all links of a node together have the network's bandwidth.
    double passes = kind == "all_reduce" ? 2 : 1, n = double(nodes);
    transfer.seconds += passes * (n - 1) * (network->latency + bytes / n / network->bandwidth);
    transfer.extrapolates = true;
  }
  return transfer;
}

llvm::Expected<Machine::Transfer> Machine::getSend(bool crossesNodes, double bytes) const {
  Transfer transfer;
  if (bytes <= 0)
    return transfer;
  if (crossesNodes) {
    if (!network)
      return makeError("machine '" + name + "' has no network, but a message crosses nodes");
    return Transfer{network->latency + bytes / network->bandwidth, true};
  }
  auto found = collectives.find("send");
  if (found == collectives.end())
    return makeError("machine '" + name + "' has no times of send");
  const CollectiveTable &table = found->second.begin()->second;
  return Transfer{table.at(bytes), table.extrapolates(bytes) || table.derivedError > 0,
                  table.derivedError};
}
