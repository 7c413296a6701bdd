//===- ToolOutput.h - Files of tools with upstream's mains ------*- C++ -*-===//

#ifndef TPC_DRIVER_TOOLOUTPUT_H
#define TPC_DRIVER_TOOLOUTPUT_H

namespace tpc {

/// Upstream's mains open what -o names before they look at their input, which is then lost if it is
/// the same file, and read devices until memory ends. Prints an error and returns false if a flag
/// names a device to be read, or if -o names an input, or nothing that can be written.
///
/// Replaces the file of -o in `argv` by a staged one (tpc/staged_file.h).
bool checkToolFiles(const char *tool, int argc, char **argv);

/// Gives the file of -o its name if `status` is 0. Returns the exit status of a tool: `status`, or
/// 1 with an error where that file or standard output could not be written.
int finishToolOutput(const char *tool, int status);

} // namespace tpc

#endif // TPC_DRIVER_TOOLOUTPUT_H
