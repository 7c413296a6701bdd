//===- PrintSimulation.cpp - Text and JSON of --simulate ------------------===//

#include "Simulation.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir::tpc;
using ::tpc::ProgramSimulation;
using ::tpc::ShardSpec;
namespace json = llvm::json;

std::string tpc::formatSeconds(double seconds) {
  double size = std::abs(seconds);
  if (size >= 1)
    return llvm::formatv("{0:f3} s", seconds);
  if (size >= 1e-3)
    return llvm::formatv("{0:f3} ms", seconds * 1e3);
  return llvm::formatv("{0:f1} us", seconds * 1e6);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

namespace {
/// Calls of one kind and size in a step.
struct CallRow {
  int64_t count = 0;
  double seconds = 0;
};
} // namespace

using Calls = std::vector<std::pair<std::pair<std::string, std::string>, CallRow>>;

/// Returns the calls of a stage in a step, by descending seconds.
static Calls getCalls(const ::tpc::SimulatedStep &step, size_t stage) {
  std::map<std::pair<std::string, std::string>, CallRow> rows;
  for (const ::tpc::SimulatedEvent &event : step.timeline.simulation.events) {
    if (event.isMessage || size_t(event.rankClass) != stage)
      continue;
    const ChunkEvents &events = step.timeline.chunks[size_t(event.chunk)];
    for (const OpEvent &op : events.getRun({event.chunk, event.microBatch})) {
      CallRow &row = rows[{op.kind, op.what}];
      ++row.count;
      row.seconds += op.seconds.total();
    }
  }
  Calls calls(rows.begin(), rows.end());
  llvm::stable_sort(
      calls, [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
  return calls;
}

static size_t getBusiest(const StepCost &cost) {
  size_t busiest = 0;
  for (size_t i = 1; i < cost.stages.size(); ++i)
    if (cost.stages[i].total() > cost.stages[busiest].total())
      busiest = i;
  return busiest;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printCauses(llvm::raw_ostream &os, const Seconds &seconds, double total) {
  os << llvm::right_justify(tpc::formatSeconds(total), 13);
  for (double cause : getCauses(seconds))
    os << llvm::right_justify(tpc::formatSeconds(cause), 12);
}

void ProgramSimulation::print(llvm::raw_ostream &os) const {
  int64_t ranks = spec.grid.numRanks();
  os << name << " on " << machine.name << ", " << spec.str() << ": " << ranks
     << (ranks == 1 ? " rank" : " ranks") << ", at ";
  llvm::interleaveComma(shape, os,
                        [&](const auto &size) { os << size.first << "=" << size.second; });
  os << "\n";
  for (const SimulatedStep &step : steps) {
    os << "\n"
       << llvm::left_justify(step.name, 12)
       << "      seconds     compute      memory      launch      tensor    pipeline  bubble\n"
       << llvm::left_justify("", 12);
    printCauses(os, step.cost.seconds, step.cost.seconds.total());
    os << llvm::format("%7.0f%%\n", step.cost.bubble * 100);
    if (step.cost.stages.size() > 1)
      for (auto [stage, seconds] : llvm::enumerate(step.cost.stages)) {
        os << llvm::left_justify("  stage " + std::to_string(stage), 12);
        printCauses(os, seconds, seconds.total());
        os << "\n";
      }
    Calls calls = getCalls(step, getBusiest(step.cost));
    os << "Longest calls" << (step.cost.stages.size() > 1 ? " of the busiest stage" : "") << ":\n";
    for (const auto &[key, row] : llvm::ArrayRef(calls).take_front(8))
      os << llvm::right_justify(formatSeconds(row.seconds), 13)
         << llvm::right_justify(std::to_string(row.count), 8) << "  " << key.first << " "
         << key.second << "\n";
    if (step.cost.extrapolated > 0)
      os << step.cost.extrapolated << " of " << step.cost.extrapolated + step.cost.measured
         << " times are outside of the machine's tables\n";
  }
  if (generation) {
    double total = generation->seconds.total();
    os << "\nGeneration of " << generation->newTokens << " tokens after a prompt of "
       << generation->promptTokens << ": " << formatSeconds(total) << "\n"
       << llvm::left_justify("", 12);
    printCauses(os, generation->seconds, total);
    os << "\n";
  }
  os << "\nMemory of a rank:\n";
  for (auto [stage, memory] : llvm::enumerate(memories)) {
    os << llvm::left_justify("  stage " + std::to_string(stage), 12);
    memory.print(os);
    if (!memory.peakNode.empty())
      os << "; peak at '" << memory.peakNode << "'";
    os << "\n";
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static json::Object toJSON(const Seconds &seconds) {
  json::Object object{{"seconds", seconds.total()}};
  for (auto [name, value] : llvm::zip(causeNames, getCauses(seconds)))
    object[name] = value;
  return object;
}

/// Describes an axis: its groups, and the nodes of the first group.
static json::Object toJSON(const ShardSpec::NamedAxis &axis, int64_t world, int64_t perNode) {
  std::set<int64_t> nodes;
  json::Array group;
  for (int64_t i = 0; i < axis.size; ++i) {
    int64_t rank = i * axis.stride;
    group.push_back(rank);
    nodes.insert(perNode > 0 ? rank / perNode : 0);
  }
  return json::Object{{"name", axis.name},
                      {"size", axis.size},
                      {"stride", axis.stride},
                      {"groups", world / axis.size},
                      {"first_group", std::move(group)},
                      {"nodes", int64_t(nodes.size())}};
}

json::Value ProgramSimulation::toJSON() const {
  int64_t world = spec.grid.numRanks();
  json::Object sizes;
  for (const auto &[symbol, size] : shape)
    sizes[symbol] = size;
  json::Array axes, classes, stepRows;
  for (const ShardSpec::NamedAxis &axis : spec.axes())
    if (axis.size > 1)
      axes.push_back(::toJSON(axis, world, spec.gpusPerNode));
  for (auto [stage, memory] : llvm::enumerate(memories))
    classes.push_back(json::Object{{"stage", int64_t(stage)},
                                   {"ranks", getRanksOfStage()},
                                   {"layers", report.stages[stage].layers},
                                   {"memory", memory.toJSON()}});
  for (const SimulatedStep &step : steps) {
    json::Object row = ::toJSON(step.cost.seconds);
    row["name"] = step.name;
    row["bubble"] = step.cost.bubble;
    row["measured"] = step.cost.measured;
    row["extrapolated"] = step.cost.extrapolated;
    json::Array stages, collectives, calls;
    for (const Seconds &seconds : step.cost.stages)
      stages.push_back(::toJSON(seconds));
    for (const CollectiveRow &collective : step.collectives)
      collectives.push_back(collective.toJSON());
    size_t busiest = getBusiest(step.cost);
    for (const auto &[key, call] : getCalls(step, busiest))
      calls.push_back(json::Object{{"kind", key.first},
                                   {"what", key.second},
                                   {"count", call.count},
                                   {"seconds", call.seconds}});
    double path = 0;
    for (int32_t event : step.timeline.simulation.criticalPath) {
      const SimulatedEvent &one = step.timeline.simulation.events[size_t(event)];
      path += one.end - one.begin;
    }
    row["stages"] = std::move(stages);
    row["collectives"] = std::move(collectives);
    row["busiest_stage"] = int64_t(busiest);
    row["calls"] = std::move(calls);
    row["critical_path"] = path;
    stepRows.push_back(std::move(row));
  }
  json::Object object{{"program", name},
                      {"machine", machine.name},
                      {"source", machine.source},
                      {"grid", spec.str()},
                      {"ranks", world},
                      {"gpus_per_node", spec.gpusPerNode},
                      {"shape", std::move(sizes)},
                      {"axes", std::move(axes)},
                      {"classes", std::move(classes)},
                      {"steps", std::move(stepRows)}};
  if (generation) {
    json::Object row = ::toJSON(generation->seconds);
    row["prompt_tokens"] = generation->promptTokens;
    row["new_tokens"] = generation->newTokens;
    object["generation"] = std::move(row);
  }
  return object;
}
