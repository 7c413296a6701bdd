//===- OutputFile.h - Atomic output files -----------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_OUTPUTFILE_H
#define TPC_LIB_DRIVER_OUTPUTFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace tpc {

/// Returns an error if the output is one of the inputs or cannot be written. "-" is standard
/// output. An executable must not be a device, because the file is replaced.
llvm::Error checkOutputPath(llvm::StringRef path, llvm::ArrayRef<std::string> inputs,
                            bool executable = false);

/// Returns the path that is written for the output `path`: the target of symbolic links, which may
/// not exist.
llvm::SmallString<128> resolveOutput(llvm::StringRef path);

/// Returns whether two paths name the same file, which need not exist.
bool isSameFile(llvm::StringRef a, llvm::StringRef b);

/// Writes a temporary file next to `path` and then renames it, so that readers never see an
/// incomplete file. "-" writes to standard output.
llvm::Error writeOutput(llvm::StringRef path,
                        llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write);

} // namespace tpc

#endif // TPC_LIB_DRIVER_OUTPUTFILE_H
