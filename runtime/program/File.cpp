//===- File.cpp - Files by descriptor -------------------------------------===//

#include "program/File.h"
#include "program/Error.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace tpc::rt {
namespace {
/// Linux transfers at most 2 GiB per call.
constexpr uint64_t maxTransfer = uint64_t(1) << 30;

/// Returns the final target of the links at `path`; it need not exist.
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

/// Opens a device, or a pipe, for writing. A pipe needs a reader: waits some seconds for it.
/// Returns -1, with errno, on failure.
int openDevice(const std::string &path, bool isPipe) {
  constexpr auto period = std::chrono::milliseconds(50), longest = std::chrono::milliseconds(10000);
  int fd = -1;
  for (auto waited = period; (fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)) < 0 &&
                             isPipe && errno == ENXIO && waited < longest;
       waited += period)
    std::this_thread::sleep_for(period);
  if (fd >= 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

constexpr const char *processFiles = "/proc/self/fd/";
} // namespace

File::File(const std::string &path) : name(path) {
  // Nonblocking, so that opening a FIFO by mistake does not hang.
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

/// Size and time stamps (in nanoseconds) at one moment.
struct File::Stamp {
  int64_t bytes, modified, changed;
  uint64_t links;
};

static int64_t nanoseconds(const timespec &time) {
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

File::Stamp File::readStamp() const {
  // Opening a file makes a network file system query its server.
  int reopened =
      open((processFiles + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  bool isRead = fstat(reopened < 0 ? fd : reopened, &status) == 0;
  int error = errno;
  if (reopened >= 0)
    close(reopened);
  if (!isRead)
    throw UserError("cannot read the size of '" + name + "': " + std::strerror(error));
  return {status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim),
          status.st_nlink};
}

void File::watch() {
  constexpr int64_t tick = 20'000'000,
                    coarseTick = 2'000'000'000; // clock ticks of kernels and of old file systems
  for (int turn = 0; turn < 5; ++turn) {
    watched = std::make_unique<Stamp>(readStamp());
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = nanoseconds(now) - watched->changed;
    int64_t resolution = watched->changed % 1'000'000'000 == 0 ? coarseTick : tick;
    if (age < 0 || age >= resolution)
      return;
    std::this_thread::sleep_for(std::chrono::nanoseconds(resolution - age));
  }
}

std::string File::change() const {
  Stamp now = readStamp();
  if (now.bytes != watched->bytes)
    return "it has " + std::to_string(now.bytes) + " bytes instead of " +
           std::to_string(watched->bytes);
  if (now.modified != watched->modified)
    return "it was written to";
  // Adding or removing a link to the file changes its change time, but not its bytes.
  if (now.changed != watched->changed && now.links == watched->links)
    return "its change time is different";
  return "";
}

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

OutputFile::OutputFile(const std::string &path) : name(path) {
  // Resolves links instead of replacing them. /dev/stdout may link to an unnamed file or, if
  // closed, to no file. A link without a target is the path of a file to create.
  std::unique_ptr<char, void (*)(void *)> real(realpath(path.c_str(), nullptr), std::free);
  std::string target = real ? real.get() : endOfLinks(path);
  // Device files such as /dev/null are written directly: there is nothing to rename.
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && (!real || !S_ISREG(status.st_mode))) {
    if (S_ISDIR(status.st_mode))
      throw UserError("cannot write '" + path + "': it is a directory");
    fd = openDevice(path, S_ISFIFO(status.st_mode));
    if (fd < 0 && errno == ENXIO && S_ISFIFO(status.st_mode))
      throw UserError("cannot write '" + path + "': no process reads this pipe");
    if (fd < 0)
      refuse(errno);
  } else if (int error = staged.open(target, 0666)) {
    refuse(error);
  }
}

OutputFile::~OutputFile() {
  if (fd >= 0)
    close(fd);
}

void OutputFile::refuse(int error) {
  throw UserError("cannot write '" + name + "': " + std::strerror(error));
}

void OutputFile::write(const void *data, uint64_t count) {
  const char *at = static_cast<const char *>(data);
  while (count) {
    ssize_t put = ::write(fd < 0 ? staged.descriptor() : fd, at, std::min(count, maxTransfer));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      refuse(errno);
    at += put;
    count -= put;
  }
}

void OutputFile::commit() {
  int error = fd < 0 ? staged.commit() : close(std::exchange(fd, -1)) ? errno : 0;
  if (error)
    refuse(error);
}

void OutputFile::check(const std::string &path, bool makesFolders) {
  namespace fs = std::filesystem;
  struct stat status;
  bool isThere = stat(path.c_str(), &status) == 0;
  // Opening a pipe would wait for its reader.
  if (isThere && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    if (access(path.c_str(), W_OK) != 0)
      throw UserError("cannot write '" + path + "': " + std::strerror(errno));
    return;
  }
  if (!isThere && makesFolders) {
    fs::path folder = fs::path(path).parent_path(), existing = folder;
    std::error_code none;
    while (!existing.empty() && !fs::exists(fs::symlink_status(existing, none)))
      existing = existing.parent_path();
    if (existing.empty())
      existing = ".";
    StagedFile probe;
    int error =
        fs::is_directory(existing, none) ? probe.open((existing / "file").string(), 0600) : ENOTDIR;
    if (error)
      throw UserError("cannot make directory '" + folder.string() + "': " + std::strerror(error));
    return;
  }
  OutputFile file(path);
}

} // namespace tpc::rt
