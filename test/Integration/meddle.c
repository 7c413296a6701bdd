/* Preloaded library that changes a file when the program maps it: after the program has compared
 * the file's digest, and before it has read the tensors.
 *
 *   MEDDLE_FILE    the file's absolute path
 *   MEDDLE_TURN    the mapping of the file before which it acts, counted from 1
 *   MEDDLE_ACTION  rewrite    writes the bytes of MEDDLE_OTHER over those of the file
 *                  restore    rewrite, and restores the modification time
 *                  map        rewrite, through memory that was mapped before the program began
 *                  cut        truncates the file to half
 *                  grow       appends a byte
 *                  empty      truncates it to zero bytes and writes the bytes of MEDDLE_OTHER
 *                  replace    renames a copy of MEDDLE_OTHER over the file
 *                  remove     removes the file
 *                  link       gives it a second name
 *                  read       reads it
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int count;
static char *mapped;
static char bytes[1 << 20];

static const char *setting(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

static void need(int condition, const char *what) {
  if (!condition) {
    perror(what);
    _exit(99);
  }
}

static int is(const char *action) { return strcmp(setting("MEDDLE_ACTION"), action) == 0; }

static long read_other(void) {
  int fd = open(setting("MEDDLE_OTHER"), O_RDONLY);
  need(fd >= 0, "MEDDLE_OTHER");
  long size = read(fd, bytes, sizeof bytes);
  close(fd);
  return size;
}

static void write_to(const char *path, int flags) {
  long size = read_other();
  int fd = open(path, O_WRONLY | flags, 0644);
  need(fd >= 0 && write(fd, bytes, size) == size, path);
  close(fd);
}

__attribute__((constructor)) static void begin(void) {
  if (!is("map"))
    return;
  const char *path = setting("MEDDLE_FILE");
  int fd = open(path, O_RDWR);
  struct stat status;
  need(fd >= 0 && fstat(fd, &status) == 0, path);
  mapped = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  need(mapped != MAP_FAILED, "map");
  close(fd);
  for (long i = 0; i < status.st_size; ++i) /* its pages are dirty from now on */
    ((volatile char *)mapped)[i] = mapped[i];
}

static void meddle(const char *path) {
  char other[4096];
  struct stat status;
  need(stat(path, &status) == 0, path);
  if (is("rewrite") || is("restore")) {
    write_to(path, 0);
    struct timespec times[] = {status.st_atim, status.st_mtim};
    if (is("restore"))
      need(utimensat(AT_FDCWD, path, times, 0) == 0, "utimensat");
  } else if (is("map")) {
    long size = read_other();
    memcpy(mapped, bytes, size);
  } else if (is("cut")) {
    need(truncate(path, status.st_size / 2) == 0, "truncate");
  } else if (is("grow")) {
    need(truncate(path, status.st_size + 1) == 0, "truncate");
  } else if (is("empty")) {
    write_to(path, O_TRUNC);
  } else if (is("replace")) {
    snprintf(other, sizeof other, "%s.new", path);
    write_to(other, O_CREAT);
    need(rename(other, path) == 0, "rename");
  } else if (is("remove")) {
    need(unlink(path) == 0, "unlink");
  } else if (is("link")) {
    snprintf(other, sizeof other, "%s.link", path);
    need(link(path, other) == 0, "link");
  } else if (is("read")) {
    int fd = open(path, O_RDONLY);
    need(read(fd, bytes, sizeof bytes) >= 0, path);
    close(fd);
  } else {
    need(0, "MEDDLE_ACTION");
  }
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && !(flags & MAP_SHARED)) {
    char name[64], path[4096] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) > 0 && strcmp(path, setting("MEDDLE_FILE")) == 0 &&
        ++count == atoi(setting("MEDDLE_TURN")))
      meddle(path);
  }
  return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  return mmap(address, length, protection, flags, fd, offset);
}
