//===- staged_file.h - File that becomes visible only when it is complete -===//
//
// Plain C++, shared by the compiler and the runtime. A StagedFile is written without a name, in the
// folder of its target, and renamed over the target:
//   * A reader sees the old file, no file, or all of the new one.
//   * A program can be executed as soon as it is visible: no writable descriptor is open when the
//     file receives its name ("text file busy" otherwise).
//   * A killed process leaves no incomplete file. On file systems without unnamed files, the file
//     is called .tpc-PROCESS-NUMBER and locked. The next process that writes to the folder removes
//     such files that have no lock.
// Functions return 0 or an error number.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_STAGED_FILE_H
#define TPC_STAGED_FILE_H

#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tpc {

class StagedFile {
public:
  StagedFile() = default;
  StagedFile(const StagedFile &) = delete;
  StagedFile &operator=(const StagedFile &) = delete;
  /// Removes an uncommitted file.
  ~StagedFile() { discard(); }

  /// Opens a staged file for the target `path`, which must not be a link. `mode` is subject to the
  /// umask.
  int open(const std::string &path, mode_t mode) {
    target = path;
    folder = path.substr(0, path.rfind('/') + 1);
    if (folder.empty())
      folder = "./";
    removeAbandoned();
    if (access(kProcessFiles, X_OK) == 0)
      fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    while (fd < 0) {
      temporary = freeName();
      fd = ::open(temporary.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, mode);
      if (fd < 0 && errno != EEXIST) {
        temporary.clear();
        return errno;
      }
      // Another process may have removed the file before it was locked.
      struct stat status = {};
      if (fd >= 0 && flock(fd, LOCK_SH) == 0 && fstat(fd, &status) == 0 && status.st_nlink == 0) {
        close(fd);
        fd = -1;
      }
    }
    return 0;
  }

  /// Descriptor for writing; -1 before `open` and after `commit`.
  int descriptor() const { return fd; }

  /// Closes the file and renames it to its target.
  int commit() {
    if (fd < 0)
      return EBADF;
    // A second, read-only descriptor keeps the unnamed file and its lock alive.
    int readOnly = ::open(pathOf(fd).c_str(), O_RDONLY | O_CLOEXEC);
    if (readOnly >= 0) {
      flock(readOnly, LOCK_SH | LOCK_NB);
      if (close(std::exchange(fd, readOnly)) != 0)
        return errno;
    } else if (!temporary.empty() && close(std::exchange(fd, -1)) != 0) {
      return errno; // there is no /proc
    }
    while (temporary.empty()) {
      std::string name = freeName();
      if (linkat(AT_FDCWD, pathOf(fd).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
        temporary = name;
      else if (errno != EEXIST)
        return errno;
    }
    if (rename(temporary.c_str(), target.c_str()) != 0)
      return errno;
    temporary.clear();
    discard();
    return 0;
  }

private:
  static constexpr const char *kProcessFiles = "/proc/self/fd/";
  static constexpr std::string_view kPrefix = ".tpc-";

  static std::string pathOf(int descriptor) { return kProcessFiles + std::to_string(descriptor); }

  std::string freeName() const {
    static std::atomic<unsigned> next = 0;
    return folder + std::string(kPrefix) + std::to_string(getpid()) + "-" + std::to_string(next++);
  }

  /// Whether `name` has the form .tpc-PROCESS-NUMBER.
  static bool isTemporary(std::string_view name) {
    size_t dash = name.rfind('-');
    if (!name.starts_with(kPrefix) || dash < kPrefix.size())
      return false;
    std::string_view process = name.substr(kPrefix.size(), dash - kPrefix.size());
    std::string_view number = name.substr(dash + 1);
    auto isNumber = [](std::string_view text) {
      return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
    };
    return isNumber(process) && isNumber(number);
  }

  /// Removes the files that killed processes left in the folder. Does this once per folder.
  void removeAbandoned() const {
    static std::mutex mutex;
    static std::set<std::string> searched;
    std::lock_guard lock(mutex);
    if (!searched.insert(folder).second)
      return;
    DIR *entries = opendir(folder.c_str());
    if (!entries)
      return;
    while (dirent *entry = readdir(entries)) {
      if (!isTemporary(entry->d_name))
        continue;
      int abandoned =
          openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
      struct stat status = {};
      if (abandoned < 0)
        continue;
      if (fstat(abandoned, &status) == 0 && S_ISREG(status.st_mode) &&
          flock(abandoned, LOCK_EX | LOCK_NB) == 0)
        unlinkat(dirfd(entries), entry->d_name, 0);
      close(abandoned);
    }
    closedir(entries);
  }

  void discard() {
    if (fd >= 0)
      close(std::exchange(fd, -1));
    if (!temporary.empty())
      unlink(temporary.c_str());
    temporary.clear();
  }

  std::string target, folder, temporary;
  int fd = -1;
};

} // namespace tpc

#endif // TPC_STAGED_FILE_H
