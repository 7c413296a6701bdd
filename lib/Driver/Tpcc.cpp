//===- Tpcc.cpp - Entry point of the compiler driver -------------------------===//

#include "tpc/Driver/Tpcc.h"
#include "OutputFile.h"
#include "PrintGroups.h"
#include "TpccSession.h"

#include "tpc/Driver/Register.h"

#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/PrettyStackTrace.h"

#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>

using namespace tpc;
using llvm::Error;

int tpc::tpccMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // Ignores SIGXFSZ, so that write() returns an error if a file exceeds the size limit.
  std::signal(SIGXFSZ, SIG_IGN);
  llvm::setBugReportMsg("tpcc has crashed. This is a bug in tpcc: please report it, with the "
                        "model's structure and the command line.\n");
  registerTargets();
  TpccOptions options;
  if (!options.parse(argc, argv))
    return 1;
  if (options.parent) {
    // SIGTERM, because LLVM's handler then removes temporary files.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != options.parent)
      return fail(options, "--end-with: process " + std::to_string(options.parent) +
                               " is not the parent of tpcc, or has ended");
  }

  bool groups = !options.printGroups.empty();
  std::string error;
  bool isAuto = options.megatronShard == kAutoShard;
  if (isAuto && groups)
    return fail(options, "--print-groups: --megatron-shard=auto has no grid yet; name one");
  std::optional<ShardSpec> spec =
      ShardSpec::parse(isAuto ? "tp1" : options.megatronShard, error,
                       groups ? ShardSpec::For::Groups : ShardSpec::For::Partition);
  if (!spec)
    return fail(options, "--megatron-shard: " + error);
  for (const std::string &note : spec->notes)
    ::note(options, "--megatron-shard: " + note);

  if (groups) {
    Error problem = writeOutput("-", [&](llvm::raw_pwrite_stream &os) -> Error {
      if (printGroups(*spec, options.printGroups, options.json, os, error))
        return Error::success();
      return makeError("--print-groups: " + error);
    });
    if (problem)
      return fail(options, llvm::toString(std::move(problem)));
    if (options.input.empty() || !options.needsProgram())
      return 0;
  }

  TpccSession session(options, *spec);
  if (Error problem = session.check())
    return fail(options, llvm::toString(std::move(problem)));
  return mlir::failed(session.run());
}
