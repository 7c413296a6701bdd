//===- EstimateMemory.cpp - Estimate of device memory ---------------------===//

#include "program/EstimateMemory.h"
#include "core/DryRunDevices.h"
#include "core/Step.h"
#include "program/Error.h"
#include "program/Execution.h"
#include "program/View.h"
#include "program/Weights.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <sys/sysinfo.h>

namespace tpc::rt {
namespace {

/// Estimates of memory that libraries and the driver allocate without reporting it: cuBLASLt
/// kernels and, with several ranks, NCCL buffers. Used only in notes.
constexpr int64_t unreported = 256 << 20, unreportedOfSeveral = 768 << 20;

/// During its lifetime, ranks of this thread use another kind of device.
class OnDevices {
public:
  explicit OnDevices(const DeviceKind &kind) : before(selectDevicesOfThread(&kind)) {}
  OnDevices(const OnDevices &) = delete;
  OnDevices &operator=(const OnDevices &) = delete;
  ~OnDevices() { selectDevicesOfThread(before); }

private:
  const DeviceKind *const before;
};

/// Ignores outputs, which are in host memory.
struct NoOutputs : OutputSink {
  void take(tpc_context &, int32_t, const void *, int32_t, const int64_t *, const int64_t *,
            const int64_t *, const Selection *) override {}
};

/// Memory of a rank and its device.
struct Row {
  int rank = 0;
  int64_t free = 0;
  MemoryNeed need;
  DeviceAssignment assignment;
};

std::string pack(const Row &row) {
  std::ostringstream text;
  text << row.rank << " " << row.free << " " << row.need.libraries << " " << row.need.weights << " "
       << row.need.caches << " " << row.need.step << " " << row.need.peak << " "
       << row.assignment.id << " " << row.assignment.name << "\n";
  return text.str();
}

std::vector<Row> unpack(const std::string &text) {
  std::vector<Row> rows;
  std::istringstream from(text);
  for (Row row; from >> row.rank >> row.free >> row.need.libraries >> row.need.weights >>
                    row.need.caches >> row.need.step >> row.need.peak >> row.assignment.id &&
                std::getline(from >> std::ws, row.assignment.name);)
    rows.push_back(row);
  return rows;
}

std::string sizeText(int64_t bytes) {
  bool large = bytes >= int64_t(1) << 30;
  char text[64];
  std::snprintf(text, sizeof(text), large ? "%.2f GiB" : "%.1f MiB",
                static_cast<double>(bytes) / (large ? 1 << 30 : 1 << 20));
  return text;
}

/// Returns the size, followed by the exact number of bytes.
std::string exactText(int64_t bytes) {
  return sizeText(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

std::string listOf(const std::vector<const Row *> &rows) {
  std::string text = rows.size() > 1 ? "ranks " : "rank ";
  for (size_t i = 0; i < rows.size(); ++i)
    text += (i == 0 ? "" : i + 1 == rows.size() ? " and " : ", ") + std::to_string(rows[i]->rank);
  return text;
}

/// Returns the sizes of the steps, one of which needs the most memory.
std::string sizesOf(std::span<const Inputs> steps) {
  std::vector<std::string> found;
  for (const Inputs &step : steps)
    if (std::string text = textOf(step.symbols);
        std::find(found.begin(), found.end(), text) == found.end())
      found.push_back(std::move(text));
  std::string all;
  for (const std::string &text : found)
    all += (all.empty() ? "" : " or ") + text;
  return all;
}

/// Returns the error if the ranks of one device do not fit on it, or an empty string.
std::string problemOf(const std::vector<const Row *> &rows, int64_t need, int64_t free,
                      const std::string &sizes) {
  if (need <= free)
    return "";
  const MemoryNeed &one = rows[0]->need;
  std::string ranksText = listOf(rows);
  bool hasCaches = one.caches > 0;
  return ranksText + (rows.size() > 1 ? " have " : " has ") + rows[0]->assignment.name + " " +
         rows[0]->assignment.id + ", of which " + exactText(free) + " are free, but " +
         (rows.size() > 1 ? "together need " : "needs ") + exactText(need) + ": " +
         (rows.size() > 1 ? "on rank " + std::to_string(rows[0]->rank) + ", " : "") + "weights " +
         sizeText(one.weights) + (hasCaches ? ", caches " + sizeText(one.caches) : "") +
         ", a step" + (sizes.empty() ? "" : " with " + sizes) + " " + sizeText(one.step) +
         ", libraries " + sizeText(one.libraries) +
         ".\nNothing was loaded. Split the model over more ranks (tpcc --memory-plan=SIZE lists "
         "splits that fit), or " +
         (hasCaches ? "ask for fewer or shorter sequences" : "run smaller sizes");
}

} // namespace

std::string textOf(const SymbolValues &sizes) {
  std::string text;
  for (const auto &[name, value] : sizes)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(value);
  return text;
}

MemoryNeed estimateMemory(const tpc_program &program, const Manifest &manifest,
                          std::span<const Inputs> steps, int rank) {
  const DeviceKind &kind = dryRunDevices();
  OnDevices dryRun(kind);
  MemoryUse &use = kind.use();
  use.peak = use.now;
  use.peakRequested = use.requested;
  const MemoryUse before = use;
  NoOutputs outputs;
  std::unique_ptr<World> world = World::alone(manifest.grid, rank);
  tpc_context &ctx = world->local(0);
  WeightSources nothing;
  nothing.isNothing = true;
  MemoryNeed need;
  try {
    ctx.transport->connect(ctx);
    need.libraries = use.requested - before.requested;
    loadWeights(ctx, manifest, nothing);
    ctx.device->load(program);
    need.weights = use.requested - before.requested - need.libraries;
    need.peak = use.peak - before.now;
    auto run = [&](const Inputs &inputs) {
      ctx.outputs = inputs.outputs ? inputs.outputs.get() : &outputs;
      runStep(ctx, program, manifest, inputs);
    };
    // The frame stack grows in the first step of each size. Only the repeated steps below, which
    // find it grown, are measured.
    for (const Inputs &inputs : steps)
      run(inputs);
    need.frames = static_cast<int64_t>(ctx.arena.peak());
    need.pendingTunings = ctx.device->pendingTunings();
    for (const std::string &tuningKey : need.pendingTunings)
      need.frames = std::max(need.frames, ctx.device->tuningBytes(tuningKey));
    ctx.arena.reserve(static_cast<size_t>(need.frames));
    use.peak = use.now;
    use.peakRequested = use.requested;
    for (const Inputs &inputs : steps)
      run(inputs);
  } catch (const RankStopped &) {
    throw UserError(world->errorMessage());
  }
  need.stack = static_cast<int64_t>(ctx.arena.reserved());
  need.caches = ctx.state.bytes();
  need.step = use.peakRequested - before.requested - need.libraries - need.weights - need.caches;
  need.peak = std::max(need.peak, use.peak - before.now);
  return need;
}

namespace {
/// Returns the bytes of memory and swap of this machine, or the limit of its container.
int64_t bytesOfMachine() {
  struct sysinfo info = {};
  if (sysinfo(&info) != 0)
    return std::numeric_limits<int64_t>::max();
  auto bytes = static_cast<int64_t>((info.totalram + info.totalswap) * info.mem_unit);
  int64_t limit = 0;
  if (std::ifstream file("/sys/fs/cgroup/memory.max"); file >> limit && limit > 0)
    bytes = std::min(bytes, limit);
  return bytes;
}
} // namespace

void checkHostMemory(const tpc_program &program, const Manifest &manifest,
                     std::span<const Inputs> steps, int first, int end, const std::string &limits) {
  double need = 0; // sums may overflow 64 bits
  MemoryNeed one;
  for (int rank = first; rank < end; ++rank) {
    one = estimateMemory(program, manifest, steps, rank);
    need += static_cast<double>(one.caches) + static_cast<double>(one.step);
  }
  int64_t available = bytesOfMachine();
  if (need <= static_cast<double>(available))
    return;
  throw UserError(
      "memory for " + limits + " exceeds the memory of this machine, " + exactText(available) +
      ": rank " + std::to_string(end - 1) + " needs caches of " + sizeText(one.caches) + " and " +
      sizeText(one.step) + " for a step" +
      (end - first > 1 ? ", and there are " + std::to_string(end - first) + " ranks" : "") +
      ". Nothing was loaded. Give a smaller --max-batch or --max-sequence");
}

static std::string memoryLine(int64_t weights, const MemoryNeed &need) {
  return "weights " + sizeText(weights) + ", caches " + sizeText(need.caches) + ", a step " +
         sizeText(need.step) + (need.libraries ? ", libraries " + sizeText(need.libraries) : "") +
         ": " + exactText(weights + need.caches + need.step + need.libraries);
}

/// Returns the memory of a rank in a training step: that of its parameters, and the peak of its
/// frames, which contain gradients and activations.
static std::string trainingLine(const TrainingBytes &bytes, const MemoryNeed &need) {
  return "weights " + exactText(bytes.weights) + ", optimizer state " + exactText(bytes.state) +
         ", gradients " + exactText(bytes.gradients) + ", activations " +
         exactText(need.frames - bytes.gradients) +
         (need.libraries ? ", libraries " + sizeText(need.libraries) : "") + ": " +
         exactText(bytes.weights + bytes.state + need.frames + need.libraries);
}

std::string memoryPlan(const tpc_program &program, const Manifest &manifest,
                       std::span<const Inputs> steps) {
  std::string text;
  // ranks with equal memory share a line
  std::vector<std::pair<std::string, std::vector<int>>> lines;
  for (int rank = 0; rank < manifest.grid.numRanks(); ++rank) {
    MemoryNeed need = estimateMemory(program, manifest, steps, rank);
    std::string line = manifest.training ? trainingLine(trainingBytesOf(manifest, rank), need)
                                         : memoryLine(weightBytesOf(manifest, rank).total(), need);
    auto same = std::find_if(lines.begin(), lines.end(),
                             [&](const auto &other) { return other.first == line; });
    if (same == lines.end())
      same = lines.insert(lines.end(), {line, {}});
    same->second.push_back(rank);
  }
  for (const auto &[line, ranks] : lines) {
    text += ranks.size() > 1 ? "ranks" : "rank";
    for (int rank : ranks)
      text += " " + std::to_string(rank);
    text += ": " + line + "\n";
  }
  return text;
}

std::string checkMemory(const tpc_program &program, const Manifest &manifest,
                        std::span<const Inputs> steps, Session *session) {
  if (!deviceKind().dryRun())
    return "";
  std::string mine;
  agreeOn(session, [&] {
    for (int rank = session ? session->rank() : 0,
             end = session ? rank + 1 : manifest.grid.numRanks();
         rank < end; ++rank)
      mine +=
          pack({rank, deviceKind().freeBytes(rank), estimateMemory(program, manifest, steps, rank),
                deviceKind().assignmentOf(rank)});
  });
  std::string all = mine;
  if (session) {
    all.clear();
    for (const std::string &text : session->textsOfAll(mine))
      all += text;
  }
  std::vector<Row> rows = unpack(all);
  std::map<std::string, std::vector<const Row *>> byDevice;
  for (const Row &row : rows)
    byDevice[row.assignment.id].push_back(&row);
  std::string problem, note;
  int first = manifest.grid.numRanks();
  for (const auto &[id, own] : byDevice) {
    int64_t need = 0, free = own[0]->free;
    for (const Row *row : own) {
      need += row->need.peak;
      free = std::min(free, row->free);
    }
    std::string found = problemOf(own, need, free, sizesOf(steps));
    // Reports the error of the lowest rank.
    if (!found.empty() && own[0]->rank < first) {
      problem = found;
      first = own[0]->rank;
    }
    int64_t rest = free - need;
    if (note.empty() && rest < (rows.size() > 1 ? unreportedOfSeveral : unreported))
      note = listOf(own) + (own.size() > 1 ? " leave " : " leaves ") + sizeText(rest) + " of " +
             own[0]->assignment.name + " " + id +
             " free, which may not suffice for memory that its driver and libraries do not report";
  }
  agreeOn(session, [&] {
    if (!problem.empty())
      throw UserError(problem);
  });
  return note;
}

} // namespace tpc::rt
