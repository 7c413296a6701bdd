//===- TpccOptions.cpp - tpcc's command line -------------------------------===//

#include "TpccOptions.h"

#include "llvm/Support/CommandLine.h"

using namespace tpc;
namespace cl = llvm::cl;

bool TpccOptions::parse(int argc, char **argv) {
  // LLVM's own options (there are hundreds) are none of tpcc's.
  cl::ResetCommandLineParser();

  cl::OptionCategory partitioning("Partitioning");
  cl::opt<std::string, true> shard("megatron-shard", cl::desc("How to split, such as tp8,pp4"),
                                   cl::value_desc("spec"), cl::location(megatronShard),
                                   cl::init("tp1"), cl::cat(partitioning));
  cl::list<std::string, std::vector<std::string>> groups(
      "print-groups", cl::desc("Print the groups of ranks over these axes, such as tp,dp,tp-dp"),
      cl::value_desc("axes"), cl::CommaSeparated, cl::location(printGroups), cl::cat(partitioning));
  cl::opt<bool, true> asJson("json", cl::desc("Print as JSON"), cl::location(json),
                             cl::cat(partitioning));
  return cl::ParseCommandLineOptions(argc, argv, "tpcc\n", &llvm::errs());
}
