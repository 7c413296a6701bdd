//===- TuningCache.h - what devices have measured, from run to run --------===//
//
// A file of lines, in the folder that TPC_CACHE names, or else in that of the user's caches
// (XDG_CACHE_HOME, or .cache at home):
//
//   tpc measurements 1
//   QUESTION<tab>ANSWER          for each, the last one that was measured last
//   end DIGEST                   of all before
//
// It is written beside its place and renamed. Whatever is damaged, of another version or not there
// is as if nothing had been measured.
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
  /// Of more, those that were measured first are dropped.
  static constexpr size_t maxEntries = 16384;

  /// In this folder; empty: nothing is kept.
  explicit TuningCache(const std::string &folder);
  /// As the environment says.
  static std::string folderOfUser();

  /// The answer, or null.
  const std::string *find(const std::string &question);
  /// Keeps answers, beside what others have kept meanwhile.
  void add(const std::vector<std::pair<std::string, std::string>> &answers);
  /// What is to be said of the file, once; empty: nothing.
  std::string takeNote() { return std::exchange(note, ""); }

private:
  using Answers = std::vector<std::pair<std::string, std::string>>;
  Answers read();
  void write(const Answers &answers);

  const std::string folder, path;
  bool isRead = false;
  std::unordered_map<std::string, std::string> known;
  std::string note;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TUNINGCACHE_H
