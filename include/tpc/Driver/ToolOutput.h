//===- ToolOutput.h - Input and output checks for upstream's tool mains ---===//

#ifndef TPC_DRIVER_TOOLOUTPUT_H
#define TPC_DRIVER_TOOLOUTPUT_H

namespace tpc {

/// Checks the paths on the command line before MlirOptMain or mlirTranslateMain runs. These
/// functions open -o before they read the input, so an input with the same path would be lost. They
/// also read devices, which may have no end. Prints an error and returns false if an input is a
/// device, or if -o names an input or a path that cannot be written.
///
/// Replaces the path of -o in `argv` by a temporary file (tpc/staged_file.h).
bool checkToolFiles(const char *tool, int argc, char **argv);

/// Renames the temporary file to the path of -o if `status` is 0. Returns the exit status of the
/// tool: `status`, or 1 with an error if the file or standard output could not be written.
int finishToolOutput(const char *tool, int status);

} // namespace tpc

#endif // TPC_DRIVER_TOOLOUTPUT_H
