/* Preloaded into a program that writes files: looks at how they get their names.
 *
 *   STAGING_NAMED=1   the file system has no files without a name
 *   STAGING_KILL      the process ends, as if it was killed, at
 *                       open    the file is there, and empty
 *                       write   a part of it is there
 *                       rename  it is whole, and has not its name
 *
 * Where a file is renamed that an open descriptor could write to, the process ends with status 98:
 * a program of that name could not be started. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int staged = -1;

static int is_at(const char *place) {
  const char *asked = getenv("STAGING_KILL");
  return asked && strcmp(asked, place) == 0;
}

static void end(void) { raise(SIGKILL); }

static int open_at(int folder, const char *path, int flags, mode_t mode) {
  int nameless = (flags & O_TMPFILE) == O_TMPFILE;
  const char *name = strrchr(path, '/');
  int named = (flags & O_EXCL) && strncmp(name ? name + 1 : path, ".tpc-", 5) == 0;
  if (nameless && getenv("STAGING_NAMED")) {
    errno = EOPNOTSUPP;
    return -1;
  }
  int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
  if (fd >= 0 && (nameless || named)) {
    staged = fd;
    if (is_at("open"))
      end();
  }
  return fd;
}

static mode_t mode_of(int flags, va_list more) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

#define OPEN(name)                                                                                 \
  int name(const char *path, int flags, ...) {                                                     \
    va_list more;                                                                                  \
    va_start(more, flags);                                                                         \
    mode_t mode = mode_of(flags, more);                                                            \
    va_end(more);                                                                                  \
    return open_at(AT_FDCWD, path, flags, mode);                                                   \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *bytes, size_t count) {
  if (fd >= 0 && fd == staged && is_at("write")) {
    syscall(SYS_write, fd, bytes, count / 2);
    end();
  }
  return syscall(SYS_write, fd, bytes, count);
}

int rename(const char *from, const char *to) {
  struct stat status;
  if (stat(from, &status) == 0 && S_ISREG(status.st_mode)) {
    if (is_at("rename"))
      end();
    /* The system grants a lease for reading only on files that are not open for writing. */
    int fd = (int)syscall(SYS_openat, AT_FDCWD, from, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
      fprintf(stderr, "'%s' is renamed to '%s' while it can be written to: %s\n", from, to,
              strerror(errno));
      _exit(98);
    }
    fcntl(fd, F_SETLEASE, F_UNLCK);
    close(fd);
  }
  return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
