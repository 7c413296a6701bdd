/* Preloaded library that checks how a program creates and renames staged files
 * (tpc/staged_file.h), and kills the program in between.
 *
 *   STAGING_NAMED=1   simulates a file system without unnamed files
 *   STAGING_KILL      kills the process
 *                       open    after the file was created, empty
 *                       write   after a part of it was written
 *                       rename  after the whole file was written, before it is renamed
 *
 * If a file is renamed while a descriptor of it is open for writing, the process ends with status
 * 98: the system would refuse to execute that file. */

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
    /* The kernel grants a read lease only if the file is not open for writing. */
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
