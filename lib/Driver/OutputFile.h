//===- OutputFile.h - Files that are whole or not there --------------------===//

#ifndef TPC_LIB_DRIVER_OUTPUTFILE_H
#define TPC_LIB_DRIVER_OUTPUTFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Is the file that is to be written one of those that are read, or can it not be written? Asked
/// before the work begins. "-" is standard output. An executable replaces what is there, and so may
/// not have a device's name.
llvm::Error checkOutputPath(llvm::StringRef path, llvm::ArrayRef<std::string> inputs,
                            bool executable = false);

/// Where a file called `path` is written: links are followed, so that a link stays a link, also one
/// to a file that does not exist.
llvm::SmallString<128> resolveOutput(llvm::StringRef path);

/// Do two paths name the same file, whether it exists or not?
bool samePlace(llvm::StringRef a, llvm::StringRef b);

/// Writes a file beside its place and then renames it: whoever looks sees the old file, or none, or
/// all of the new one. "-" writes to standard output.
llvm::Error writeOutput(llvm::StringRef path,
                        llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);

} // namespace tpc

#endif // TPC_LIB_DRIVER_OUTPUTFILE_H
