//===- TpccOptions.h - tpcc's command line ---------------------------------===//

#ifndef TPC_LIB_DRIVER_TPCCOPTIONS_H
#define TPC_LIB_DRIVER_TPCCOPTIONS_H

#include <string>
#include <vector>

namespace tpc {

struct TpccOptions {
  std::string megatronShard;
  std::vector<std::string> printGroups;
  bool json = false;

  /// Returns false after an error, which has been printed. Ends the program after --help.
  bool parse(int argc, char **argv);
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_TPCCOPTIONS_H
