//===- SourceFiles.h - Files that must not change meanwhile ----------------===//

#ifndef TPC_LIB_DRIVER_SOURCEFILES_H
#define TPC_LIB_DRIVER_SOURCEFILES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>

namespace tpc {

/// The files that a program is compiled from. The compiler reads them at several times: structure
/// at first, constants when they are folded, digests of weights at the end.
class SourceFiles {
public:
  /// Records size, place and time stamps of a file, if there is one.
  void add(llvm::StringRef path);
  /// Fails with the name of the first file that is not the one that was recorded.
  llvm::Error check() const;

private:
  struct Stamp {
    uint64_t device = 0, inode = 0, bytes = 0, links = 0;
    int64_t modified = 0, changed = 0;
    /// A file that gains or loses a name has another time of change, and the same bytes.
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
