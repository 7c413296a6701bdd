//===- TuningCache.cpp - Persistent cache of tuning results ---------------===//

#include "program/TuningCache.h"
#include "program/Error.h"
#include "program/File.h"
#include "tpc/fnv1a.h"
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace tpc::rt {
namespace {

constexpr std::string_view header = "tpc measurements 1\n", end = "end ";
/// Maximum size of a tuning cache; larger files are not read.
constexpr int64_t maxBytes = 64 << 20;

std::string lastLine(std::string_view before) {
  return std::string(end) + toHexDigits(spreadBits(fnv1a(before))) + "\n";
}

/// Exclusive lock of the file for writing. After ten seconds the write proceeds without it: results
/// written at the same time may be lost, and are measured again.
class Lock {
public:
  explicit Lock(const std::string &path)
      : fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    for (int i = 0; fd >= 0 && i < 1000 && flock(fd, LOCK_EX | LOCK_NB) != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Lock(const Lock &) = delete;
  Lock &operator=(const Lock &) = delete;
  ~Lock() {
    if (fd >= 0)
      close(fd);
  }

private:
  int fd;
};

} // namespace

TuningCache::TuningCache(const std::string &folder) : folder(folder), path(folder + "/measured") {}

std::string TuningCache::folderOfUser() {
  if (const char *own = std::getenv("TPC_CACHE"))
    return own;
  // The XDG standard requires relative paths to be ignored.
  if (const char *caches = std::getenv("XDG_CACHE_HOME"); caches && *caches == '/')
    return std::string(caches) + "/tpc";
  const char *home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/tpc" : "";
}

TuningCache::Entries TuningCache::read() {
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::exists(path, ignored))
    return {};
  auto ignore = [&](const std::string &why) {
    note = "'" + path + "' " + why + ": it is ignored, and new measurements replace it";
    return Entries();
  };
  std::string text;
  try {
    File file(path);
    if (file.size() > maxBytes)
      return ignore("is too large for a cache");
    text.resize(static_cast<size_t>(file.size()));
    if (!file.readAt(text.data(), text.size(), 0))
      return ignore("cannot be read");
  } catch (const UserError &error) {
    return ignore(std::string("cannot be read (") + error.what() + ")");
  }
  std::string_view rest = text;
  if (!rest.starts_with(header))
    return ignore(rest.starts_with(header.substr(0, header.find('1')))
                      ? "is of another version of tpc"
                      : "is damaged");
  size_t last = rest.rfind("\n", rest.size() < 2 ? 0 : rest.size() - 2) + 1;
  if (rest.substr(last) != lastLine(rest.substr(0, last)))
    return ignore("is damaged");
  rest = rest.substr(0, last);
  rest.remove_prefix(header.size());
  Entries tunings;
  while (!rest.empty()) {
    size_t tab = rest.find('\t'), line = rest.find('\n');
    if (tab >= line)
      return ignore("is damaged");
    tunings.emplace_back(rest.substr(0, tab), rest.substr(tab + 1, line - tab - 1));
    rest.remove_prefix(line + 1);
  }
  return tunings;
}

void TuningCache::write(const Entries &tunings) {
  std::string text(header);
  size_t dropped = tunings.size() > maxEntries ? tunings.size() - maxEntries : 0;
  for (size_t i = dropped; i < tunings.size(); ++i)
    text += tunings[i].first + "\t" + tunings[i].second + "\n";
  text += lastLine(text);
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

const std::string *TuningCache::find(const std::string &tuningKey) {
  if (!std::exchange(isRead, true))
    for (auto &[key, tuning] : read())
      known[key] = tuning;
  auto found = known.find(tuningKey);
  return found == known.end() ? nullptr : &found->second;
}

void TuningCache::add(const std::vector<std::pair<std::string, std::string>> &tunings) {
  if (folder.empty() || tunings.empty())
    return;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  Lock lock(path + ".lock");
  std::unordered_map<std::string, std::string> added;
  for (const auto &[tuningKey, tuning] : tunings)
    known[tuningKey] = added[tuningKey] = tuning;
  std::string before = std::exchange(note, "");
  Entries all = read();
  // A damaged file was already reported when it was first read.
  note = std::move(before);
  std::erase_if(all, [&](const auto &one) { return added.contains(one.first); });
  all.insert(all.end(), added.begin(), added.end());
  try {
    write(all);
  } catch (const UserError &error) {
    note = std::string(error.what()) + ": algorithms are measured again next time";
  }
}

} // namespace tpc::rt
