//===- Tpcc.cpp - The compiler driver --------------------------------------===//

#include "tpc/Driver/Tpcc.h"
#include "PrintGroups.h"
#include "TpccOptions.h"

#include "llvm/Support/WithColor.h"

using namespace tpc;

static int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "tpcc") << message << "\n";
  return 1;
}

int tpc::tpccMain(int argc, char **argv) {
  TpccOptions options;
  if (!options.parse(argc, argv))
    return 1;

  std::string error;
  std::optional<ShardSpec> spec = ShardSpec::parse(
      options.megatronShard, error,
      options.printGroups.empty() ? ShardSpec::For::Partition : ShardSpec::For::Groups);
  if (!spec)
    return fail("--megatron-shard: " + error);
  for (const std::string &note : spec->notes)
    llvm::WithColor::note(llvm::errs(), "tpcc") << "--megatron-shard: " << note << "\n";

  if (!options.printGroups.empty()) {
    if (!printGroups(*spec, options.printGroups, options.json, llvm::outs(), error))
      return fail("--print-groups: " + error);
    return 0;
  }
  return 0;
}
