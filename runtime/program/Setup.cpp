//===- Setup.cpp - Setup before a program runs ----------------------------===//

#include "program/Setup.h"
#include "core/Device.h"
#include "core/RankThreads.h"
#include "program/AssignDevices.h"
#include "program/Error.h"
#include "program/Execution.h"
#include "program/Notes.h"
#include <algorithm>

namespace tpc::rt {

Manifest readManifest(const tpc_program &program) {
  if (program.abi_version != TPC_ABI_VERSION)
    throw UserError("the program was compiled for version " + std::to_string(program.abi_version) +
                    " of the runtime's interface, but this runtime has version " +
                    std::to_string(TPC_ABI_VERSION));
  Manifest manifest = parseManifest(program.manifest);
  if (program.num_stages != manifest.numStages())
    throw UserError("the program's manifest is damaged: it has " +
                    std::to_string(manifest.numStages()) + " stages, the program " +
                    std::to_string(program.num_stages) + "; compile the program again");
  return manifest;
}

void checkThreads(const Manifest &manifest, const Options &options) {
  int64_t ranks = manifest.grid.numRanks();
  int64_t threads = ranks * std::max(1, options.threadsPerRank);
  ThreadLimit limit = threadLimit();
  if (ranks == 1 || threads <= limit.threads)
    return;
  throw UserError(
      std::to_string(ranks) + " ranks as threads of one process" +
      (threads > ranks ? ", with " + std::to_string(options.threadsPerRank) + " threads each,"
                       : "") +
      " are more than the " + std::to_string(limit.threads) + " threads that this system allows (" +
      limit.setting + "); start a process for each rank, on several machines:\n  mpirun -n " +
      std::to_string(ranks) + " " + options.program + " …\nor compile for fewer ranks");
}

void selectDevice(const tpc_program &program, Session *session, const Launcher &launcher,
                  const Manifest &manifest, const Options &options) {
  if (!program.gpu_code && options.shareGpus)
    throw UserError("--share-gpus: this program computes on processors; compile it with "
                    "--target=cuda");
  if (!program.gpu_code)
    return;
  selectDevices(assignDevices(program, session, launcher, manifest, options.shareGpus));
}

/// Selects the same kernels on all ranks of a run. Instruction sets round differently, and results
/// that each rank computes separately, such as the expert of a token, must agree.
static void shareKernels(Session *session) {
  if (!session)
    return;
  std::string best = deviceKind().kernels();
  std::vector<std::string> all = session->textsOfAll(best);
  auto other = std::find_if(all.begin(), all.end(),
                            [&](const std::string &name) { return name != all.front(); });
  if (other == all.end())
    return;
  deviceKind().shareKernels(all);
  std::string rank = "rank " + std::to_string(other - all.begin());
  if (session->rank() == 0 && deviceKind().name() == std::string("cpu"))
    note("rank 0 has " + best + " kernels and " + rank + " has " + *other +
         " (by its processor, or TPC_CPU): all ranks use the " + deviceKind().kernels() +
         " kernels, which all of them support, so that they compute the same bits");
}

void chooseProducts(Session *session, const Options &options) {
  shareKernels(session);
  agreeOn(session, [&] {
    std::string problem;
    const DeviceKind *kind = deviceKind().withProducts(options.products, problem);
    if (!kind)
      throw UserError(session && session->size() > 1
                          ? "rank " + std::to_string(session->rank()) + ": " + problem
                          : problem);
    selectDevices(*kind);
  });
  std::optional<std::string> difference = compareRanks(
      session,
      {{"library for products", deviceKind().products()},
       {"library for communication", deviceKind().communication()},
       {"choice of algorithms", options.deterministic ? "no measured ones" : "measured ones"}});
  deviceKind().enableTuning(!options.deterministic);
  agreeOn(session, [&] {
    if (difference)
      throw UserError(*difference);
  });
}

} // namespace tpc::rt
