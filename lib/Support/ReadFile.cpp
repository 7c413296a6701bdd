//===- ReadFile.cpp - Reading of text files with limits -------------------===//

#include "tpc/Support/ReadFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

using namespace tpc;

/// Returns whether reading a device comes to an end. On Linux: /dev/null (major 1, minor 3) and
/// terminals (major 4, 5, and 136 to 143).
static bool hasEnd(dev_t device) {
  unsigned kind = major(device);
  return (kind == 1 && minor(device) == 3) || kind == 4 || kind == 5 ||
         (kind >= 136 && kind <= 143);
}

static std::string describeLimit(uint64_t maxBytes) {
  return "it has more than " + std::to_string(maxBytes) + " bytes";
}

std::string tpc::describeUnreadable(const std::string &path, uint64_t maxBytes) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0)
    return "";
  if (S_ISDIR(status.st_mode))
    return "it is a folder";
  if (S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) > maxBytes)
    return describeLimit(maxBytes);
  bool isDevice = S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && !hasEnd(status.st_rdev));
  return isDevice ? "it is a device" : "";
}

bool tpc::isLfsPointer(const std::string &path) {
  constexpr std::string_view begin = "version https://git-lfs.github.com/spec/";
  std::string text(begin.size(), 0);
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return false;
  ssize_t got = read(fd, text.data(), text.size());
  close(fd);
  return got == static_cast<ssize_t>(begin.size()) && text == begin;
}

/// Returns the result of ::read, or -1 with errno EAGAIN after a timeout.
static ssize_t readPiece(int fd, char *to, size_t count, int maxSeconds) {
  while (true) {
    ssize_t got = read(fd, to, count);
    // On a pipe without a writer, ::read returns end of file; ::poll waits for a writer.
    pollfd wait{fd, POLLIN, 0};
    bool isEarly = got == 0 && poll(&wait, 1, 0) == 0;
    if (got > 0 || (got == 0 && !isEarly) || (got < 0 && errno != EAGAIN && errno != EINTR))
      return got;
    if (got < 0 && errno == EINTR)
      continue;
    int ready = poll(&wait, 1, maxSeconds * 1000);
    if (ready == 0)
      errno = EAGAIN;
    if (ready == 0 || (ready < 0 && errno != EINTR))
      return -1;
  }
}

std::string tpc::readFile(const std::string &path, uint64_t maxBytes, std::string &bytes,
                          int maxSeconds) {
  bytes.clear();
  if (std::string why = describeUnreadable(path, maxBytes); !why.empty())
    return why;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return std::strerror(errno);
  std::string problem;
  char piece[1 << 16];
  while (problem.empty()) {
    ssize_t count = readPiece(fd, piece, sizeof piece, maxSeconds);
    if (count < 0)
      problem = errno == EAGAIN
                    ? "nothing was written to it for " + std::to_string(maxSeconds) + " s"
                    : std::strerror(errno);
    if (count <= 0)
      break;
    if (static_cast<uint64_t>(count) > maxBytes - bytes.size())
      problem = describeLimit(maxBytes);
    else
      bytes.append(piece, static_cast<size_t>(count));
  }
  close(fd);
  return problem;
}
