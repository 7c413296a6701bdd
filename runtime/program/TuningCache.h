//===- TuningCache.h - Persistent cache of tuning results -----------------===//
//
// A text file in the folder TPC_CACHE, or else in the user's cache folder (XDG_CACHE_HOME, or
// ~/.cache):
//
//   tpc measurements 1
//   TUNING<tab>RESULT          most recent result of each tuning, oldest first
//   end DIGEST                 of all lines above
//
// Updates write a temporary file and rename it. A damaged file, or one of another version, is
// treated as empty.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_TUNINGCACHE_H
#define TPC_RT_PROGRAM_TUNINGCACHE_H

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tpc::rt {

class TuningCache {
public:
  /// Beyond this number, the oldest results are dropped.
  static constexpr size_t maxEntries = 16384;

  /// Cache in this folder; empty: no persistence.
  explicit TuningCache(const std::string &folder);
  /// Returns the folder that the environment variables select.
  static std::string folderOfUser();

  /// Returns the result, or null.
  const std::string *find(const std::string &tuningKey);
  /// Adds results, and keeps those that other processes added meanwhile.
  void add(const std::vector<std::pair<std::string, std::string>> &tunings);
  /// Returns and clears the pending note about the file; empty: none.
  std::string takeNote() { return std::exchange(note, ""); }

private:
  using Entries = std::vector<std::pair<std::string, std::string>>;
  Entries read();
  void write(const Entries &tunings);

  const std::string folder, path;
  bool isRead = false;
  std::unordered_map<std::string, std::string> known;
  std::string note;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TUNINGCACHE_H
