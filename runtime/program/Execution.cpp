//===- Execution.cpp - Ranks of a program, ready to run steps -------------===//

#include "program/Execution.h"
#include "core/Cores.h"
#include "core/Diagnostic.h"
#include "core/Step.h"
#include "program/Error.h"
#include "program/EstimateMemory.h"
#include "program/Notes.h"
#include "program/Weights.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <malloc.h>
#include <sstream>
#include <unistd.h>

namespace tpc::rt {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Serializes counters for rank 0.
std::string pack(const std::vector<Counters::Row> &rows) {
  std::string text;
  for (const Counters::Row &row : rows)
    text += row.axis + " " + std::to_string(static_cast<int>(row.kind)) + " " +
            std::to_string(row.count) + " " + std::to_string(row.bytes) + "\n";
  return text;
}

std::string pack(const std::vector<ProfileRow> &rows) {
  std::ostringstream text;
  text.precision(17);
  for (const ProfileRow &row : rows)
    text << row.kind << "\t" << (row.what.empty() ? "-" : row.what) << "\t" << row.count << " "
         << row.seconds << " " << row.flops << "\n";
  return text.str();
}

std::istringstream textOf(const std::vector<std::byte> &bytes) {
  return std::istringstream(
      std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
}

std::vector<Counters::Row> unpackCounters(const std::vector<std::byte> &bytes) {
  std::istringstream text = textOf(bytes);
  std::vector<Counters::Row> rows;
  int kind;
  for (Counters::Row row; text >> row.axis >> kind >> row.count >> row.bytes; rows.push_back(row))
    row.kind = static_cast<CollectiveKind>(kind);
  return rows;
}

/// Gathers the text of each rank on rank 0.
std::vector<std::vector<std::byte>> gather(tpc_context &ctx, const std::string &text) {
  std::vector<std::vector<std::byte>> gathered;
  ctx.transport->gatherBytes(ctx, text.data(), std::ssize(text), gathered);
  return gathered;
}

std::vector<std::vector<Counters::Row>> gatherCounters(tpc_context &ctx) {
  std::vector<std::vector<Counters::Row>> rows;
  for (const auto &bytes : gather(ctx, pack(ctx.counters.rows(ctx.grid))))
    rows.push_back(unpackCounters(bytes));
  return rows;
}

std::vector<ProfileRow> unpackProfile(const std::vector<std::byte> &bytes) {
  std::istringstream text = textOf(bytes);
  std::vector<ProfileRow> rows;
  for (ProfileRow row; std::getline(text, row.kind, '\t') && std::getline(text, row.what, '\t') &&
                       text >> row.count >> row.seconds >> row.flops && text.ignore();)
    rows.push_back(row);
  return rows;
}

std::string pack(const std::vector<TimedCall> &calls, double origin) {
  std::ostringstream text;
  text.precision(9);
  for (const TimedCall &call : calls)
    text << call.kind << "\t" << call.what << "\t" << call.begin - origin << "\t" << call.seconds
         << "\n";
  return text.str();
}

std::vector<TimedCall> unpackTimeline(const std::vector<std::byte> &bytes) {
  std::istringstream text = textOf(bytes);
  std::vector<TimedCall> calls;
  for (TimedCall call; std::getline(text, call.kind, '\t') && std::getline(text, call.what, '\t') &&
                       text >> call.begin >> call.seconds && text.ignore();)
    calls.push_back(call);
  return calls;
}

/// Like agreeOn, for files, which may differ between hosts: an error names its rank.
void agreeOnFiles(Session *session, const std::function<void()> &work) {
  agreeOn(session, [&] {
    try {
      work();
    } catch (const UserError &error) {
      if (session && session->size() > 1)
        throw UserError("rank " + std::to_string(session->rank()) + ": " + error.what());
      throw;
    }
  });
}

} // namespace

void compareDigests(Session *session, const std::string &digest, const char *what) {
  if (!session)
    return;
  int rank = session->firstDifference(digest);
  agreeOn(session, [&] {
    if (rank >= 0)
      throw UserError("rank " + std::to_string(rank) + " " + what);
  });
}

void agreeOn(Session *session, const std::function<void()> &work) {
  std::string message;
  bool failed = false;
  try {
    work();
  } catch (const std::exception &error) {
    failed = true;
    message = error.what();
  }
  if (session) {
    Session::Agreement agreement = session->agree(failed);
    failed = agreement.failed;
    // A launcher ends all processes as soon as one exits with an error. So processes agree once
    // more after one of them has printed the error.
    if (agreement.isReporter)
      printError(message);
    if (failed)
      session->agree(true);
    message.clear();
  }
  if (failed)
    throw UserError(message);
}

void printError(const std::string &message) {
  if (!message.empty())
    printDiagnostic("error", message);
}

Execution::Execution(const tpc_program &program, const Manifest &manifest, const Options &options,
                     std::shared_ptr<Session> session)
    : program(program), manifest(manifest), embedded(options.embedded),
      tuner(!options.deterministic) {
#ifdef M_MMAP_THRESHOLD
  // Fixes the size above which blocks are allocated by mmap. By default the C library raises this
  // threshold whenever such a block is freed. Then about a tenth of the memory, freed while weights
  // are loaded, would not return to the system.
  if (!embedded)
    mallopt(M_MMAP_THRESHOLD, 1 << 18);
#endif
  if (session)
    session->doing = "while weights are loaded";
  WeightSources sources;
  agreeOnFiles(session.get(),
               [&] { sources = openWeights(manifest, options.weights, options.verifyWeights); });
  bool alone = !session || session->size() == 1;
  bool digested = std::any_of(manifest.files.begin(), manifest.files.end(),
                              [](const WeightFile &file) { return !file.tensors.empty(); });
  if (options.verifyWeights && (!digested || sources.seed) && (!session || session->rank() == 0))
    note(std::string("--verify-weights compares ") +
         (sources.seed ? "nothing: the weights are random"
          : alone ? "only samples: the program has no digests of all bytes; compile it with tpcc "
                    "--digest-weights"
                  : "all bytes between processes, but not with those at compile time: the program "
                    "has no digests of all bytes; compile it with tpcc --digest-weights"));
  std::optional<std::string> difference =
      compareRanks(session.get(), {{"set of weights", sources.identity}});
  agreeOn(session.get(), [&] {
    if (difference)
      throw UserError(*difference);
  });
  countsMemory = deviceKind().dryRun() != nullptr;
  int onThisMachine = session ? session->ranksOnHost() : manifest.grid.numRanks();
  int threads = options.threadsPerRank
                    ? options.threadsPerRank
                    : std::max(1, static_cast<int>(usableCores()) / std::max(1, onThisMachine));
  if (session) {
    transport = session->transportName();
    world = World::processes(manifest.grid, threads, std::move(session));
  } else {
    world = World::threads(manifest.grid, threads, options.timeout);
  }
  if (manifest.groups)
    world->expectGroups(*manifest.groups);
  double begin = now();
  run([&](tpc_context &ctx) {
    ctx.outputs = &assembler;
    loadWeights(ctx, manifest, sources);
  });
  // A file may change between the first check and the loading of its bytes.
  agreeOnFiles(world->session(), [&] { checkUnchanged(manifest, sources); });
  secondsToLoad = now() - begin;
  loadedWeights = sources.identity;
}

// The memory of outputs is pinned for a device of the world.
Execution::~Execution() { assembler.closeMemory(/*unpins=*/world != nullptr); }

void Execution::run(const std::function<void(tpc_context &)> &fn) {
  auto error = world->run(fn);
  for (const std::string &text : deviceKind().takeNotes())
    note(text);
  if (!error)
    return;
  // Destructors would wait for a failed or hung device. Its memory is freed with the process.
  if (program.gpu_code) {
    if (!embedded) {
      printError(*error);
      _exit(1);
    }
    (void)world.release();
  }
  throw UserError(*error);
}

bool Execution::isPrepared(const Inputs &inputs) const {
  return !countsMemory || frameBytes.contains(inputs.symbols);
}

void Execution::prepare(const Inputs &inputs) {
  if (Session *session = world->session())
    session->doing = "at the end of a step";
  assembler.prepare(manifest, inputs.symbols, world->local(0));
  prepareSizes(inputs);
}

void Execution::prepareSizes(const Inputs &inputs) {
  if (isPrepared(inputs))
    return;
  if (frameBytes.size() == maxSizes)
    frameBytes.clear();
  std::vector<int64_t> &frames = frameBytes[inputs.symbols];
  std::vector<std::vector<std::string>> pendingTunings;
  for (int i = 0; i < world->numLocal(); ++i) {
    MemoryNeed need = estimateMemory(program, manifest, {&inputs, 1}, world->local(i).rank);
    frames.push_back(need.frames);
    pendingTunings.push_back(std::move(need.pendingTunings));
  }
  tuner.tunePending(*world, pendingTunings, [&](const std::function<void(tpc_context &)> &fn) {
    run([&](tpc_context &ctx) {
      reserveFrames(ctx, inputs.symbols);
      fn(ctx);
    });
  });
}

void runStep(tpc_context &ctx, const tpc_program &program, const Manifest &manifest,
             const Inputs &inputs) {
  ctx.data.inputs.clear();
  for (const Tensor &tensor : inputs.tensors)
    ctx.data.inputs.push_back(ctx.device->share(tensor.data.data(), tensor.data.size()));
  ctx.stateRows = inputs.stateRows;
  ctx.stepRows = inputs.stepRows;
  ctx.stateRow = inputs.stateRow;
  runStage(ctx, program, manifest.stageOf(ctx.rank), inputs.symbolList(manifest));
  for (const void *input : ctx.data.inputs)
    ctx.device->unshare(input);
}

void Execution::reserveFrames(tpc_context &ctx, const SymbolValues &sizes) {
  auto known = frameBytes.find(sizes);
  if (known == frameBytes.end())
    return;
  // The frames of a step are one block, whatever sizes ran before.
  int64_t bytes = known->second[static_cast<size_t>(ctx.rank - world->local(0).rank)];
  if (!ctx.arena.reserve(static_cast<size_t>(bytes)))
    fail(ctx, "out of memory: a step with " + textOf(sizes) + " needs " + std::to_string(bytes) +
                  " bytes in addition to the weights");
}

bool Execution::isAgreed(const tpc_context &ctx, const Inputs &inputs) const {
  return ctx.steps->isAgreed(program, manifest.stageOf(ctx.rank),
                             envOf(ctx, inputs.symbolList(manifest)), inputs.tensors.size(),
                             inputs.stateRows, inputs.stateRow);
}

void Execution::runRank(tpc_context &ctx, const Inputs &inputs) {
  reserveFrames(ctx, inputs.symbols);
  runStep(ctx, program, manifest, inputs);
}

void Execution::runStage(tpc_context &ctx, const Inputs &inputs) {
  runRank(ctx, inputs);
  assembler.collect(ctx);
}

std::vector<Tensor> &Execution::step(const Inputs &inputs) {
  prepare(inputs);
  run([&](tpc_context &ctx) { runStage(ctx, inputs); });
  if (Session *session = world->session())
    session->doing = "while inputs are read or outputs written";
  if (std::string problem = assembler.problem(); !problem.empty())
    throw UserError(problem);
  return assembler.tensors();
}

Execution::Measurement Execution::measure(const Inputs &inputs, int warmup, int repeat) {
  for (int use = 0; use < 2; ++use) // the memory of outputs of repeated steps may be pinned
    prepare(inputs);
  Measurement result;
  run([&](tpc_context &ctx) {
    double begin = 0;
    for (int i = 0; i < warmup + repeat; ++i) {
      ctx.counters.reset();
      takeTimeline(*ctx.device);
      if (i == warmup)
        takeProfile(*ctx.device);
      ctx.transport->barrier(ctx);
      begin = now();
      runStage(ctx, inputs);
      ctx.transport->barrier(ctx);
      // Writes to the caches, because reads of unwritten memory map to a single zero page and would
      // be too fast.
      if (i == 0)
        ctx.state.clear(*ctx.device);
      if (ctx.rank != 0)
        continue;
      if (i >= warmup)
        result.seconds.push_back(now() - begin);
      if (std::string problem = assembler.problem(); !problem.empty())
        fail(ctx, problem);
    }
    auto counters = gatherCounters(ctx);
    auto profiles = gather(ctx, pack(takeProfile(*ctx.device)));
    auto timelines = gather(ctx, pack(takeTimeline(*ctx.device), begin));
    if (ctx.rank != 0)
      return;
    result.counters = std::move(counters);
    for (const auto &bytes : profiles)
      result.profiles.push_back(unpackProfile(bytes));
    for (const auto &bytes : timelines)
      result.timelines.push_back(unpackTimeline(bytes));
  });
  return result;
}

std::vector<std::vector<Counters::Row>> Execution::counters() {
  std::vector<std::vector<Counters::Row>> result;
  run([&](tpc_context &ctx) {
    if (auto all = gatherCounters(ctx); ctx.rank == 0)
      result = std::move(all);
  });
  return result;
}

} // namespace tpc::rt
