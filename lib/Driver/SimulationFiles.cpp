//===- SimulationFiles.cpp - Trace and HTML page of --simulate ------------===//

#include "Simulation.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir::tpc;
using ::tpc::ProgramSimulation;
using ::tpc::SimulatedEvent;
using ::tpc::SimulatedStep;
namespace json = llvm::json;

static constexpr char pageTemplate[] = {
#include "SimulationPage.inc"
};

/// Returns the cause with the most seconds.
static llvm::StringRef getMainCause(const Seconds &seconds) {
  std::array<double, 5> causes = getCauses(seconds);
  return causeNames[llvm::max_element(causes) - causes.begin()];
}

//===----------------------------------------------------------------------===//
// Trace
//===----------------------------------------------------------------------===//

namespace {

class TraceWriter {
public:
  explicit TraceWriter(llvm::raw_ostream &os) : out(os) {}
  void write(const ProgramSimulation &simulation);

private:
  void writeName(llvm::StringRef kind, int64_t process, int64_t thread, const std::string &name);
  void writeSlice(const std::string &name, llvm::StringRef category, int64_t process,
                  int64_t thread, double begin, double end, llvm::function_ref<void()> arguments);
  void writeRun(const SimulatedStep &step, const SimulatedEvent &event);

  json::OStream out;
  double offset = 0; // seconds at which the step begins
};

} // namespace

/// Threads of a class in a trace. Each chunk of the class has its own messages, from `Messages` on.
enum Thread : int64_t { Compute = 0, Messages = 1 };

/// Returns the microseconds that readers truncate to this number of nanoseconds. Perfetto drops
/// slices of a thread that overlap after the truncation.
static double toMicroseconds(int64_t nanoseconds) {
  double value = double(nanoseconds) / 1000;
  return int64_t(value * 1000) == nanoseconds ? value : std::nextafter(value, INFINITY);
}

void TraceWriter::writeName(llvm::StringRef kind, int64_t process, int64_t thread,
                            const std::string &name) {
  out.object([&] {
    out.attribute("ph", "M");
    out.attribute("name", kind);
    out.attribute("pid", process);
    out.attribute("tid", thread);
    out.attributeObject("args", [&] { out.attribute("name", name); });
  });
}

void TraceWriter::writeSlice(const std::string &name, llvm::StringRef category, int64_t process,
                             int64_t thread, double begin, double end,
                             llvm::function_ref<void()> arguments) {
  out.object([&] {
    out.attribute("ph", "X");
    out.attribute("name", name);
    out.attribute("cat", category);
    out.attribute("pid", process);
    out.attribute("tid", thread);
    int64_t from = std::llround((offset + begin) * 1e9), to = std::llround((offset + end) * 1e9);
    out.attribute("ts", toMicroseconds(from));
    out.attribute("dur", toMicroseconds(to - from));
    out.attributeObject("args", arguments);
  });
}

/// Writes a run, its calls in it, and the bytes of the stack. Shared cores lengthen all calls
/// alike.
void TraceWriter::writeRun(const SimulatedStep &step, const SimulatedEvent &event) {
  const std::vector<OpEvent> &ops =
      step.timeline.chunks[size_t(event.chunk)].getRun({event.chunk, event.microBatch});
  std::string name = event.microBatch < 0
                         ? "prologue"
                         : step.name + ", micro-batch " + std::to_string(event.microBatch);
  writeSlice(name, "run", event.rankClass, Compute, event.begin, event.end, [&] {
    out.attribute("chunk", event.chunk);
    out.attribute("micro_batch", event.microBatch);
  });
  double opSeconds = 0;
  for (const OpEvent &op : ops)
    opSeconds += op.seconds.total() - op.seconds.pipeline;
  double factor = opSeconds > 0 ? (event.end - event.begin) / opSeconds : 0, at = event.begin;
  int64_t live = -1;
  for (const OpEvent &op : ops) {
    double seconds = (op.seconds.total() - op.seconds.pipeline) * factor;
    if (op.liveBytes != live)
      out.object([&] {
        live = op.liveBytes;
        out.attribute("ph", "C");
        out.attribute("name", "stack");
        out.attribute("pid", event.rankClass);
        out.attribute("ts", (offset + at) * 1e6);
        out.attributeObject("args", [&] { out.attribute("bytes", live); });
      });
    if (seconds == 0 && (op.bytes == 0 || op.kind == "send"))
      continue;
    writeSlice(op.kind + (op.what.empty() ? "" : " " + op.what), "call", event.rankClass, Compute,
               std::min(at, event.end), std::min(at + seconds, event.end), [&] {
                 out.attribute("node", json::fixUTF8(op.node));
                 out.attribute("cause", getMainCause(op.seconds));
                 if (op.bytes > 0)
                   out.attribute("bytes", op.bytes);
               });
    at += seconds;
  }
}

void TraceWriter::write(const ProgramSimulation &simulation) {
  out.object([&] {
    out.attribute("displayTimeUnit", "ms");
    out.attributeObject("otherData", [&] {
      out.attribute("program", simulation.name);
      out.attribute("machine", simulation.machine.name);
      out.attribute("grid", simulation.spec.str());
    });
    int64_t stages = int64_t(simulation.memories.size()), chunks = simulation.spec.chunksPerRank;
    out.attributeArray("traceEvents", [&] {
      for (size_t i = 0; i < simulation.memories.size(); ++i) {
        int64_t ranks = simulation.getRanksOfStage();
        writeName("process_name", int64_t(i), 0,
                  "stage " + std::to_string(i) + ", " + std::to_string(ranks) +
                      (ranks == 1 ? " rank" : " ranks"));
        writeName("thread_name", int64_t(i), Compute, "calls");
        for (int64_t chunk = 0; chunk < chunks; ++chunk)
          writeName("thread_name", int64_t(i), Messages + chunk,
                    chunks == 1 ? "messages" : "messages of chunk " + std::to_string(chunk));
      }
      for (const SimulatedStep &step : simulation.steps) {
        for (const SimulatedEvent &event : step.timeline.simulation.events) {
          if (!event.isMessage) {
            writeRun(step, event);
            continue;
          }
          const OpEvent &send = step.timeline.chunks[size_t(event.chunk)]
                                    .getRun({event.chunk, event.microBatch})
                                    .back();
          writeSlice("send pp", "message", event.rankClass, Messages + event.chunk / stages,
                     event.begin, event.end, [&] {
                       out.attribute("micro_batch", event.microBatch);
                       out.attribute("bytes", send.bytes);
                     });
        }
        offset += step.timeline.simulation.seconds;
      }
    });
  });
}

void ProgramSimulation::writeTrace(llvm::raw_ostream &os) const {
  TraceWriter(os).write(*this);
  os << "\n";
}

//===----------------------------------------------------------------------===//
// Page
//===----------------------------------------------------------------------===//

/// Returns the weights of all stages with the axes that split them, and those that replicate them.
static json::Array getWeights(const ProgramSimulation &simulation) {
  json::Array rows;
  for (const StageRow &stage : simulation.report.stages)
    for (const ParameterRow &parameter : stage.parameters) {
      json::Array replicated;
      for (const ::tpc::ShardSpec::NamedAxis &axis : simulation.spec.axes()) {
        auto isSplit = [&](llvm::StringRef axes) {
          llvm::SmallVector<llvm::StringRef> names;
          axes.split(names, '-');
          return llvm::is_contained(names, axis.name);
        };
        if (axis.size > 1 && axis.name != "pp" && llvm::none_of(parameter.axes, isSplit))
          replicated.push_back(axis.name);
      }
      rows.push_back(json::Object{{"weight", json::fixUTF8(parameter.weight)},
                                  {"stage", stage.stage},
                                  {"shape", json::Array(parameter.shape)},
                                  {"held", json::Array(parameter.localShape)},
                                  {"axes", json::Array(parameter.axes)},
                                  {"replicated", std::move(replicated)},
                                  {"bytes", parameter.bytes}});
    }
  return rows;
}

/// Returns the events of a step, and the calls of each distinct run: stages with the same calls
/// share a list.
static json::Object getTimeline(const SimulatedStep &step) {
  std::map<std::string, int64_t> seen;
  json::Array events, lists;
  auto getList = [&](const std::vector<OpEvent> &ops) {
    std::string key;
    for (const OpEvent &op : ops)
      key += llvm::formatv("{0} {1} {2} {3}\n", op.kind, op.what, op.bytes, op.liveBytes).str();
    auto [it, isNew] = seen.try_emplace(key, int64_t(lists.size()));
    if (isNew) {
      json::Array list;
      for (const OpEvent &op : ops)
        list.push_back(json::Array{op.kind, op.what, json::fixUTF8(op.node), op.seconds.total(),
                                   getMainCause(op.seconds), op.bytes, op.liveBytes});
      lists.push_back(std::move(list));
    }
    return it->second;
  };
  std::vector<bool> critical(step.timeline.simulation.events.size());
  for (int32_t event : step.timeline.simulation.criticalPath)
    critical[size_t(event)] = true;
  std::map<std::pair<int32_t, size_t>, int64_t> listOf; // by chunk and body
  for (auto [i, event] : llvm::enumerate(step.timeline.simulation.events)) {
    const ChunkEvents &chunk = step.timeline.chunks[size_t(event.chunk)];
    size_t body = event.microBatch < 0 ? SIZE_MAX : chunk.bodyOf[size_t(event.microBatch)];
    auto [it, isNew] = listOf.try_emplace({event.chunk, body}, 0);
    if (isNew)
      it->second = getList(chunk.getRun({event.chunk, event.microBatch}));
    events.push_back(json::Array{event.rankClass, event.chunk, event.microBatch,
                                 event.isMessage ? -1 : it->second, event.begin, event.end,
                                 critical[i] ? 1 : 0});
  }
  return json::Object{
      {"name", step.name}, {"events", std::move(events)}, {"lists", std::move(lists)}};
}

void ProgramSimulation::writePage(llvm::raw_ostream &os) const {
  json::Value data = toJSON();
  json::Object &object = *data.getAsObject();
  object["weights"] = getWeights(*this);
  object["splits"] = json::Array(report.splits);
  object["warnings"] = json::Array(report.warnings);
  json::Array timelines;
  for (const SimulatedStep &step : steps)
    timelines.push_back(getTimeline(step));
  object["timelines"] = std::move(timelines);
  std::string text = llvm::formatv("{0}", data).str();
  // "<" occurs only in strings.
  auto [before, after] = llvm::StringRef(pageTemplate).split("@DATA@");
  os << before;
  for (char c : text)
    if (c == '<')
      os << "\\u003c";
    else
      os << c;
  os << after;
}
