//===- Tpcc.h - The compiler driver ----------------------------------------===//

#ifndef TPC_DRIVER_TPCC_H
#define TPC_DRIVER_TPCC_H

namespace tpc {

/// What tpcc does. Returns the exit status: 0, or 1 after it has said on stderr what is wrong.
int tpccMain(int argc, char **argv);

} // namespace tpc

#endif // TPC_DRIVER_TPCC_H
