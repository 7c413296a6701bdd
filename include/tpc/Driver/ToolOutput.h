//===- ToolOutput.h - Where tools may write ---------------------*- C++ -*-===//

#ifndef TPC_DRIVER_TOOLOUTPUT_H
#define TPC_DRIVER_TOOLOUTPUT_H

namespace tpc {

/// Upstream's mains open what -o names before they look at their input, which is then lost if it is
/// the same file. Prints an error and returns false if it is, or if -o names nothing that can be
/// written.
bool checkToolOutput(const char *tool, int argc, char **argv);

} // namespace tpc

#endif // TPC_DRIVER_TOOLOUTPUT_H
