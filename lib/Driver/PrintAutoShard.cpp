//===- PrintAutoShard.cpp - Output of --megatron-shard=auto ---------------===//

#include "AutoShard.h"
#include "Simulation.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir::tpc;
using llvm::StringRef;
using ::tpc::AutoShardPlan;
using ::tpc::formatSeconds;

static StringRef getName(Goal goal) {
  return goal == Goal::Latency ? "latency" : goal == Goal::Throughput ? "throughput" : "cost";
}

std::string AutoShardPlan::getSpec(const GridChoice &grid) const {
  std::string text = grid.str();
  if (request.gpusPerNode > 0)
    text += ",gpus-per-node=" + std::to_string(request.gpusPerNode);
  return text;
}

double AutoShardPlan::getPrice(const RankedGrid &row) const {
  return row.cost.step.seconds.total() * double(row.grid.getRanks()) * request.price / 3600;
}

std::string AutoShardPlan::describeMisfit() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "no grid of at most " << request.devices << " devices fits";
  if (!search.tooLarge.empty()) {
    const RankedGrid &nearest = search.tooLarge[0];
    os << ": the nearest, " << getSpec(nearest.grid) << ", needs ";
    nearest.cost.memory.print(os);
    os << "; a rank has " << formatMemorySize(nearest.memory);
    if (!nearest.cost.memory.peakNode.empty())
      os << "; the step's peak is at '" << nearest.cost.memory.peakNode << "'";
  } else if (!search.refused.empty()) {
    auto least = llvm::min_element(search.refused, [](const auto &a, const auto &b) {
      return a.second.examples[0] < b.second.examples[0];
    });
    os << ": " << least->first;
  }
  if (larger)
    os << "; " << larger->grid.getRanks() << " devices fit: " << getSpec(larger->grid) << " needs "
       << formatMemorySize(larger->cost.memory.getNeed());
  if (smallerBatch)
    os << "; " << smallerBatch->first << "=" << smallerBatch->second;
  if (!larger && !smallerBatch)
    os << "; use more devices, smaller sizes (--shape), or devices with more memory";
  return text;
}

void AutoShardPlan::print(llvm::raw_ostream &os) const {
  os << request.devices << " devices of " << request.machine.name;
  if (request.gpusPerNode > 0)
    os << ", " << request.gpusPerNode << " in a node";
  os << ", at ";
  llvm::interleaveComma(shape, os,
                        [&](const auto &size) { os << size.first << "=" << size.second; });
  os << "; goal: " << getName(request.goal) << "\n";
  os << "Grids: " << search.enumerated << " enumerated, " << search.prunedByMemory
     << " pruned by memory, " << search.prunedByTime << " pruned by time, " << search.countRefused()
     << " refused, " << search.evaluated << " estimated, " << search.tooLarge.size()
     << " of them too large\n";
  if (search.unexplored > 0)
    os << "Limit of --search: " << search.unexplored
       << " grids remain, none of which is faster than "
       << formatSeconds(search.unexploredObjective) << "\n";
  for (const auto &[why, grids] : search.refused)
    os << "Refused: " << grids.count << (grids.count == 1 ? " grid, " : " grids, ") << why << "\n";
  os << "\n";
  bool copies = request.goal == Goal::Throughput, costs = request.goal == Goal::Cost;
  os << "      seconds     compute      memory      launch      tensor    pipeline  bubble"
     << (copies  ? "  copies"
         : costs ? "   device s"
                 : "")
     << (generates ? "      prompt" : "") << "      memory  grid\n";
  for (const RankedGrid &row : search.best) {
    const Seconds &seconds = row.cost.step.seconds;
    os << llvm::right_justify(formatSeconds(seconds.total()), 13);
    for (double cause : getCauses(seconds))
      os << llvm::right_justify(formatSeconds(cause), 12);
    os << llvm::format("%7.0f%%", row.cost.step.bubble * 100);
    if (copies)
      os << llvm::right_justify(std::to_string(row.copies), 8);
    if (costs)
      os << llvm::right_justify(formatSeconds(row.objective), 11);
    if (generates)
      os << llvm::right_justify(
          row.cost.prompt ? formatSeconds(row.cost.prompt->seconds.total()) : "-", 12);
    os << llvm::right_justify(formatMemorySize(row.cost.memory.getNeed()), 12) << "  "
       << row.grid.str() << "\n";
  }
  if (search.best.empty())
    return;
  const RankedGrid &best = search.best[0];
  os << "\nBest: --megatron-shard=" << getSpec(best.grid) << "\n  memory of the worst-case rank ";
  best.cost.memory.print(os);
  os << "; has " << formatMemorySize(best.memory) << "\n";
  if (unsigned outside = best.cost.step.extrapolated)
    os << "  " << outside << " of " << outside + best.cost.step.measured
       << " times are outside of the machine's tables\n";
  if (request.price > 0)
    os << llvm::formatv("  price of a million steps {0:f2}, at {1:f2} for a device and hour\n",
                        1e6 * getPrice(best), request.price);
  if (search.best.size() > 1) {
    const RankedGrid &second = search.best[1];
    Comparison gap = compareGrids(best, second, request.machine.errors);
    os << "  Second: " << second.grid.str() << " takes " << formatSeconds(gap.total)
       << (costs ? " of devices" : "") << " more:";
    const char *separator = " ";
    for (size_t i = 0; i < gap.difference.size(); ++i)
      if (gap.difference[i] != 0) {
        os << separator << causeNames[i] << " " << formatSeconds(gap.difference[i]);
        separator = ", ";
      }
    os << "; error " << formatSeconds(gap.error) << (gap.isDecided() ? "\n" : ": undecided\n");
  }
}

static llvm::json::Object toJSON(const StepCost &step) {
  llvm::json::Object object{{"seconds", step.seconds.total()},
                            {"bubble", step.bubble},
                            {"measured", step.measured},
                            {"extrapolated", step.extrapolated}};
  for (auto [name, value] : llvm::zip(causeNames, getCauses(step.seconds)))
    object[name] = value;
  return object;
}

llvm::json::Value AutoShardPlan::toJSON() const {
  auto toRow = [&](const RankedGrid &row) {
    llvm::json::Object object{
        {"grid", getSpec(row.grid)},      {"ranks", row.grid.getRanks()},
        {"copies", row.copies},           {"memory", row.cost.memory.toJSON()},
        {"available", row.memory},        {"objective", row.objective},
        {"step", ::toJSON(row.cost.step)}};
    llvm::json::Array collectives;
    for (const CollectiveRow &collective : row.cost.collectives)
      collectives.push_back(collective.toJSON());
    object["collectives"] = std::move(collectives);
    if (request.price > 0)
      object["price"] = getPrice(row);
    if (row.cost.prompt)
      object["prompt"] = ::toJSON(*row.cost.prompt);
    return object;
  };
  llvm::json::Array best, tooLarge, refused;
  for (const RankedGrid &row : search.best)
    best.push_back(toRow(row));
  for (const RankedGrid &row : search.tooLarge)
    tooLarge.push_back(toRow(row));
  for (const auto &[line, grids] : search.refused) {
    llvm::json::Array examples;
    for (const GridChoice &grid : grids.examples)
      examples.push_back(getSpec(grid));
    refused.push_back(llvm::json::Object{
        {"why", grids.why}, {"count", grids.count}, {"grids", std::move(examples)}});
  }
  llvm::json::Object sizes;
  for (const auto &[name, size] : shape)
    sizes[name] = size;
  llvm::json::Object object{{"machine", request.machine.name},
                            {"raised_points", request.machine.raised},
                            {"devices", request.devices},
                            {"goal", getName(request.goal)},
                            {"shape", std::move(sizes)},
                            {"enumerated", search.enumerated},
                            {"pruned_by_memory", search.prunedByMemory},
                            {"pruned_by_time", search.prunedByTime},
                            {"estimated", search.evaluated},
                            {"unexplored", search.unexplored},
                            {"unexplored_objective", search.unexploredObjective},
                            {"bound_ratio", search.secondsBoundRatio},
                            {"memory_bound_ratio", search.memoryBoundRatio},
                            {"best", std::move(best)},
                            {"too_large", std::move(tooLarge)},
                            {"refused", std::move(refused)}};
  if (request.isExhaustive) {
    llvm::json::Array rows;
    for (const auto &[grid, objective] : search.objectives)
      rows.push_back(llvm::json::Object{{"grid", getSpec(grid)}, {"objective", objective}});
    object["estimates"] = std::move(rows);
  }
  if (search.best.size() > 1) {
    Comparison gap = compareGrids(search.best[0], search.best[1], request.machine.errors);
    llvm::json::Object causes;
    for (auto [name, value] : llvm::zip(causeNames, gap.difference))
      causes[name] = value;
    object["second"] = llvm::json::Object{{"difference", gap.total},
                                          {"by_cause", std::move(causes)},
                                          {"error", gap.error},
                                          {"decided", gap.isDecided()}};
  }
  return object;
}
