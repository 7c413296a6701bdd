//===- ToolOutput.h - Input and output checks for upstream's tool mains ---===//

#ifndef TPC_DRIVER_TOOLOUTPUT_H
#define TPC_DRIVER_TOOLOUTPUT_H

namespace tpc {

/// Upstream's mains open the output of -o before they read the input, which is lost if both are the
/// same file, and they read devices until memory is exhausted. Prints an error and returns false if
/// a flag names a device as input, or if -o names an input or a path that cannot be written.
///
/// Replaces the file of -o in `argv` by a staged one (tpc/staged_file.h).
bool checkToolFiles(const char *tool, int argc, char **argv);

/// Renames the staged file of -o if `status` is 0. Returns the exit status of a tool: `status`, or
/// 1 with an error if that file or standard output could not be written.
int finishToolOutput(const char *tool, int status);

} // namespace tpc

#endif // TPC_DRIVER_TOOLOUTPUT_H
