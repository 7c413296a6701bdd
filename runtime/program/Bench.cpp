//===- Bench.cpp - Benchmark of a program ---------------------------------===//

#include "program/Bench.h"
#include "core/Device.h"
#include "program/CommandLine.h"
#include "program/Error.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

namespace tpc::rt {

std::vector<std::pair<int, Counters::Row>>
largestByStage(const Manifest &manifest, const std::vector<std::vector<Counters::Row>> &byRank) {
  std::vector<std::pair<int, Counters::Row>> result;
  for (int stage = 0; stage < manifest.numStages(); ++stage) {
    size_t begin = result.size();
    for (size_t rank = 0; rank < byRank.size(); ++rank) {
      if (manifest.stageOf(static_cast<int>(rank)) != stage)
        continue;
      for (const Counters::Row &row : byRank[rank]) {
        auto same = std::find_if(result.begin() + begin, result.end(), [&](const auto &entry) {
          return entry.second.axis == row.axis && entry.second.kind == row.kind;
        });
        if (same == result.end())
          result.push_back({stage, row});
        else if (std::pair(row.bytes, row.count) >
                 std::pair(same->second.bytes, same->second.count))
          same->second = row;
      }
    }
  }
  return result;
}

/// Returns the time profile of the rank with the most computation in each stage.
static nlohmann::ordered_json profileOf(const Manifest &manifest,
                                        const std::vector<std::vector<ProfileRow>> &byRank,
                                        const std::vector<double> &seconds) {
  auto computing = [&](size_t rank) {
    double sum = 0;
    for (const ProfileRow &row : byRank[rank])
      sum += row.seconds;
    return sum;
  };
  double steps = static_cast<double>(seconds.size());
  double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  auto result = nlohmann::ordered_json::array();
  for (int stage = 0; stage < manifest.numStages(); ++stage) {
    std::optional<size_t> busiest;
    for (size_t rank = 0; rank < byRank.size(); ++rank)
      if (manifest.stageOf(static_cast<int>(rank)) == stage &&
          (!busiest || computing(rank) > computing(*busiest)))
        busiest = rank;
    if (!busiest)
      continue;
    auto work = nlohmann::ordered_json::array();
    for (const ProfileRow &row : byRank[*busiest]) {
      nlohmann::ordered_json entry = {{"kind", row.kind}};
      if (row.what != "-")
        entry["what"] = row.what;
      entry["count"] = static_cast<double>(row.count) / steps;
      entry["seconds"] = row.seconds / steps;
      if (row.flops > 0)
        entry["gflops_per_second"] = row.flops / row.seconds / 1e9;
      work.push_back(std::move(entry));
    }
    result.push_back({{"stage", stage},
                      {"rank", *busiest},
                      {"computing", computing(*busiest) / steps},
                      {"elsewhere", (all - computing(*busiest)) / steps},
                      {"work", std::move(work)}});
  }
  return result;
}

/// Writes Chrome's trace format: a process for each rank, with its calls.
static void writeTrace(const std::string &path, const Manifest &manifest,
                       const std::vector<std::vector<TimedCall>> &byRank) {
  auto events = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < byRank.size(); ++rank) {
    std::string name = "stage " + std::to_string(manifest.stageOf(static_cast<int>(rank))) +
                       ", rank " + std::to_string(rank);
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", rank},
                      {"tid", 0},
                      {"args", {{"name", name}}}});
    for (const TimedCall &call : byRank[rank])
      events.push_back({{"ph", "X"},
                        {"name", call.kind + (call.what.empty() ? "" : " " + call.what)},
                        {"cat", "call"},
                        {"pid", rank},
                        {"tid", 0},
                        {"ts", call.begin * 1e6},
                        {"dur", call.seconds * 1e6}});
  }
  nlohmann::ordered_json trace = {{"displayTimeUnit", "ms"},
                                  {"otherData", {{"program", manifest.name}}},
                                  {"traceEvents", std::move(events)}};
  std::ofstream file(path);
  file << trace.dump() << "\n";
  if (!file.flush())
    throw UserError("--trace: cannot write '" + path + "'");
}

Inputs benchInputs(const Manifest &manifest, const Options &options) {
  if (options.inputs.empty() && options.positional.empty())
    return makeInputs(manifest, options.shape);
  return readInputs(manifest, requestsOf(options, manifest).at(0).inputs, options.shape);
}

/// Returns the bytes that each rank sends in these collectives; null if they are the same in each
/// run with these shapes.
static nlohmann::ordered_json sentByRank(const std::vector<std::vector<Counters::Row>> &counters,
                                         const Counters::Row &row) {
  if (row.kind != CollectiveKind::Dispatch && row.kind != CollectiveKind::Combine)
    return nullptr;
  auto list = nlohmann::ordered_json::array();
  for (const std::vector<Counters::Row> &rows : counters) {
    int64_t bytes = 0;
    for (const Counters::Row &own : rows)
      bytes += own.axis == row.axis && own.kind == row.kind ? own.bytes : 0;
    list.push_back(bytes);
  }
  return list;
}

void bench(Execution &execution, const Manifest &manifest, const Options &options) {
  Inputs inputs = benchInputs(manifest, options);
  auto [seconds, counters, profiles, timelines] =
      execution.measure(inputs, options.warmup, options.repeat);
  if (!execution.isRankZero())
    return;
  if (!options.trace.empty())
    writeTrace(options.trace, manifest, timelines);
  std::sort(seconds.begin(), seconds.end());
  size_t middle = seconds.size() / 2;
  double median =
      seconds.size() % 2 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;

  using json = nlohmann::ordered_json;
  json result = {{"name", manifest.name},          {"seconds", median},
                 {"min_seconds", seconds.front()}, {"max_seconds", seconds.back()},
                 {"iterations", seconds.size()},   {"warmup", options.warmup}};
  result["shape"] = json::object();
  for (const auto &[symbol, value] : inputs.symbols)
    result["shape"][symbol] = value;
  int64_t tokens = tokensOf(inputs);
  result["tokens"] = tokens;
  result["tokens_per_second"] = static_cast<double>(tokens) / median;
  result["ranks"] = manifest.grid.numRanks();
  result["threads_per_rank"] = execution.threadsPerRank();
  result["transport"] = execution.transportName();
  result["kernels"] = deviceKind().kernels();
  result["products"] = deviceKind().products();
  result["communication"] = deviceKind().communication();
  result["load_seconds"] = execution.loadSeconds();
  result["collectives"] = json::array();
  for (const auto &[stage, row] : largestByStage(manifest, counters)) {
    json entry = {{"stage", stage},
                  {"axis", row.axis},
                  {"kind", spell(row.kind)},
                  {"count", row.count},
                  {"bytes", row.bytes}};
    if (json sent = sentByRank(counters, row); !sent.is_null())
      entry["sent_by_rank"] = std::move(sent);
    result["collectives"].push_back(std::move(entry));
  }
  if (options.profile)
    result["profile"] = profileOf(manifest, profiles, seconds);
  std::printf("%s\n", result.dump(2).c_str());
}

} // namespace tpc::rt
