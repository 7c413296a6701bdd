//===- Tpcc.h - The compiler driver ----------------------------------------===//

#ifndef TPC_DRIVER_TPCC_H
#define TPC_DRIVER_TPCC_H

namespace tpc {

/// Main function of tpcc. Returns the exit status: 0, or 1 after an error on stderr.
int tpccMain(int argc, char **argv);

} // namespace tpc

#endif // TPC_DRIVER_TPCC_H
