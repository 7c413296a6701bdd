//===- SourceFiles.h - Detection of changed input files ---------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_SOURCEFILES_H
#define TPC_LIB_DRIVER_SOURCEFILES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>

namespace tpc {

/// Detects changes of input files during a compilation. The compiler reads them several times:
/// structure at first, constants when they are folded, digests of weights at the end.
class SourceFiles {
public:
  /// Records size, inode and time stamps of a file, if it exists.
  void add(llvm::StringRef path);
  /// Returns an error that names the first file that differs from its record.
  llvm::Error check() const;

private:
  struct Stamp {
    uint64_t device = 0, inode = 0, bytes = 0, links = 0;
    int64_t modified = 0, changed = 0;
    /// Ignores the change time if the number of hard links differs, because creating a link changes
    /// only this time.
    bool operator==(const Stamp &other) const {
      return device == other.device && inode == other.inode && bytes == other.bytes &&
             modified == other.modified && (changed == other.changed || links != other.links);
    }
  };
  static Stamp readStamp(const std::string &path);

  std::map<std::string, Stamp> files;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_SOURCEFILES_H
