//===- OutputFile.h - Atomic output files -----------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_OUTPUTFILE_H
#define TPC_LIB_DRIVER_OUTPUTFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Returns an error if the output is one of the inputs or cannot be written. Called before the work
/// begins. "-" is standard output. An executable replaces the existing file, and so may not have a
/// device's name.
llvm::Error checkOutputPath(llvm::StringRef path, llvm::ArrayRef<std::string> inputs,
                            bool executable = false);

/// Returns the path that an output `path` is written to. Links are followed, so that a link stays a
/// link, even if its target does not exist.
llvm::SmallString<128> resolveOutput(llvm::StringRef path);

/// Returns whether two paths name the same file, which need not exist.
bool isSameFile(llvm::StringRef a, llvm::StringRef b);

/// Writes a file next to its destination and then renames it: readers see the old file, no file, or
/// the complete new file. "-" writes to standard output.
llvm::Error writeOutput(llvm::StringRef path,
                        llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);

} // namespace tpc

#endif // TPC_LIB_DRIVER_OUTPUTFILE_H
