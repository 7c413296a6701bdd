//===- File.cpp - files by descriptor -------------------------------------===//

#include "program/File.h"
#include "program/Error.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace tpc::rt {
namespace {
/// Linux moves at most 2 GiB a call.
constexpr uint64_t maxTransfer = uint64_t(1) << 30;

/// The name of the file, which need not exist, that `path` leads to.
std::string endOfLinks(std::string path) {
  namespace fs = std::filesystem;
  for (int links = 0; links < 40; ++links) {
    std::error_code none;
    fs::path next = fs::read_symlink(path, none);
    if (none)
      return path;
    path = (fs::path(path).parent_path() / next).string();
  }
  throw UserError("cannot write '" + path + "': too many links");
}

constexpr const char *processFiles = "/proc/self/fd/";

/// A file in the folder of `target` without a name, so that nothing is left of it however this
/// process ends. -1: the file system has no such files.
int openNameless(const std::string &target) {
  std::string folder = target.substr(0, target.rfind('/') + 1);
  if (access(processFiles, X_OK) != 0)
    return -1;
  return open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}
} // namespace

File::File(const std::string &path) : name(path) {
  // Non-blocking, so that opening a FIFO by mistake does not hang.
  fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    throw UserError("cannot open '" + path + "': " + std::strerror(errno));
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    throw UserError("'" + path + "' is not a regular file");
  }
  bytes = status.st_size;
}

File::~File() { close(fd); }

bool File::readAt(void *to, uint64_t count, uint64_t offset) const {
  char *at = static_cast<char *>(to);
  while (count) {
    ssize_t got = pread(fd, at, std::min(count, maxTransfer), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    at += got;
    offset += got;
    count -= got;
  }
  return true;
}

bool isReadableFile(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), R_OK) == 0;
}

OutputFile::OutputFile(const std::string &path) : name(path), target(path) {
  // A link stays a link. /dev/stdout may be one to a file that has no name any more, or, where it
  // is closed, to nothing: what a link to nothing leads to is a file to be made.
  std::unique_ptr<char, void (*)(void *)> real(realpath(path.c_str(), nullptr), std::free);
  if (real)
    target = real.get();
  else
    target = endOfLinks(path);
  // Device files such as /dev/null are written directly: there is nothing to rename.
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && (!real || !S_ISREG(status.st_mode))) {
    if (S_ISDIR(status.st_mode))
      throw UserError("cannot write '" + path + "': it is a directory");
    fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else if ((fd = openNameless(target)) >= 0) {
    isNameless = true;
  } else {
    temporary = target + ".XXXXXX";
    fd = mkostemp(temporary.data(), O_CLOEXEC);
    if (fd < 0)
      temporary.clear();
    else {
      mode_t mask = umask(0);
      umask(mask);
      fchmod(fd, 0666 & ~mask);
    }
  }
  if (fd < 0)
    refuse(std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd >= 0)
    close(fd);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

void OutputFile::giveName() {
  std::string own = processFiles + std::to_string(fd);
  for (int number = 0;; ++number) {
    std::string free = target + "." + std::to_string(getpid()) + "-" + std::to_string(number);
    if (linkat(AT_FDCWD, own.c_str(), AT_FDCWD, free.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary = free;
      return;
    }
    if (errno != EEXIST)
      refuse(std::strerror(errno));
  }
}

void OutputFile::refuse(const char *what) {
  throw UserError("cannot write '" + name + "': " + what);
}

void OutputFile::write(const void *data, uint64_t count) {
  const char *at = static_cast<const char *>(data);
  while (count) {
    ssize_t put = ::write(fd, at, std::min(count, maxTransfer));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      refuse(std::strerror(errno));
    at += put;
    count -= put;
  }
}

void OutputFile::commit() {
  if (isNameless)
    giveName();
  int descriptor = fd;
  fd = -1;
  if (close(descriptor) != 0)
    refuse(std::strerror(errno));
  if (!temporary.empty() && rename(temporary.c_str(), target.c_str()) != 0)
    refuse(std::strerror(errno));
  temporary.clear();
}

} // namespace tpc::rt
