//===- Link.cpp - In-process linker for executables and libraries ---------===//
//
// Links with lld, without a C compiler: tpc_shared.o and, for executables, tpc_start.o replace the
// compiler's startup files. Shared libraries are searched in the runtime's folder, then in those of
// `libraryDirs`. An executable is a shared library with an entry point.
//
//===----------------------------------------------------------------------===//

#include "tpc/Conversion/Lower.h"
#include "tpc/Dialect/MakeError.h"
#include "tpc/staged_file.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace mlir;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;
namespace cl = llvm::cl;
using mlir::tpc::makeError;

/// Directories in which Linux distributions for this processor install shared libraries.
static constexpr const char *libraryDirs[] = {"/usr/lib/x86_64-linux-gnu",
                                              "/lib/x86_64-linux-gnu",
                                              "/usr/local/lib",
                                              "/usr/lib64",
                                              "/lib64",
                                              "/usr/lib",
                                              "/lib"};

static std::string findLibrary(llvm::StringRef name, llvm::StringRef first) {
  llvm::SmallVector<llvm::StringRef> dirs{first};
  dirs.append(std::begin(libraryDirs), std::end(libraryDirs));
  for (llvm::StringRef dir : dirs) {
    llvm::SmallString<128> file(dir);
    path::append(file, name);
    if (!dir.empty() && fs::exists(file))
      return file.str().str();
  }
  return "";
}

static std::string defaultRuntimeDir() {
  static int anchor;
  llvm::SmallString<128> dir(fs::getMainExecutable(nullptr, &anchor));
  path::remove_filename(dir);
  path::append(dir, "..", "lib");
  path::remove_dots(dir, /*remove_dot_dot=*/true);
  return dir.str().str();
}

namespace {
/// Unregisters the LLVM command-line options of the host program while lld runs, because lld resets
/// all registered options to their defaults.
class HiddenOptions {
public:
  HiddenOptions() {
    for (cl::SubCommand *command : cl::getRegisteredSubcommands()) {
      hidden.push_back({command, *command});
      clear(*command);
    }
  }
  ~HiddenOptions() {
    for (auto &[command, options] : hidden) {
      // Keeps options that were registered in the meantime.
      options.OptionsMap.insert(command->OptionsMap.begin(), command->OptionsMap.end());
      append(options.PositionalOpts, command->PositionalOpts);
      append(options.SinkOpts, command->SinkOpts);
      command->OptionsMap = std::move(options.OptionsMap);
      command->PositionalOpts = std::move(options.PositionalOpts);
      command->SinkOpts = std::move(options.SinkOpts);
      command->ConsumeAfterOpt = options.ConsumeAfterOpt;
    }
  }

private:
  struct Options {
    Options(const cl::SubCommand &command)
        : OptionsMap(command.OptionsMap), PositionalOpts(command.PositionalOpts),
          SinkOpts(command.SinkOpts), ConsumeAfterOpt(command.ConsumeAfterOpt) {}
    llvm::DenseMap<llvm::StringRef, cl::Option *> OptionsMap;
    llvm::SmallVector<cl::Option *, 4> PositionalOpts, SinkOpts;
    cl::Option *ConsumeAfterOpt;
  };
  static void clear(cl::SubCommand &command) {
    command.OptionsMap.clear();
    command.PositionalOpts.clear();
    command.SinkOpts.clear();
    command.ConsumeAfterOpt = nullptr;
  }
  static void append(llvm::SmallVectorImpl<cl::Option *> &to, llvm::ArrayRef<cl::Option *> more) {
    for (cl::Option *option : more)
      if (!llvm::is_contained(to, option))
        to.push_back(option);
  }

  llvm::SmallVector<std::pair<cl::SubCommand *, Options>> hidden;
};

/// An in-memory input with a path that lld can open.
class MemoryFile {
public:
  explicit MemoryFile(const char *name) : fd(memfd_create(name, MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd >= 0)
      close(fd);
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd); }
  const int fd;
};

/// Pipe that receives lld's output. With a regular file, lld would create a temporary file next to
/// it, and exit the process if the disk is full.
class MemoryOutput {
public:
  MemoryOutput() {
    if (pipe2(ends, O_CLOEXEC))
      return;
    isOpen = true;
    reader = std::thread([this] {
      llvm::SmallVector<char, 0> piece(1 << 16);
      while (true) {
        ssize_t size =
            llvm::sys::RetryAfterSignal(-1, read, ends[0], (void *)piece.data(), piece.size());
        if (size <= 0)
          return;
        bytes.append(piece.begin(), piece.begin() + size);
      }
    });
  }
  ~MemoryOutput() { (void)finish(); }
  MemoryOutput(const MemoryOutput &) = delete;
  MemoryOutput &operator=(const MemoryOutput &) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(ends[1]); }
  /// Closes the pipe and returns all output.
  llvm::ArrayRef<char> finish() {
    if (reader.joinable()) {
      close(ends[1]);
      reader.join();
      close(ends[0]);
    }
    return bytes;
  }

  bool isOpen = false;

private:
  int ends[2] = {-1, -1};
  llvm::SmallVector<char, 0> bytes;
  std::thread reader;
};
} // namespace

static llvm::Error cannotWrite(llvm::StringRef path, const llvm::Twine &why) {
  return makeError("cannot write '" + path + "': " + why);
}

/// Writes `bytes` to `fd`, an open file at `path`. Does not close it.
static llvm::Error writeAll(int fd, llvm::ArrayRef<char> bytes, llvm::StringRef path) {
  llvm::raw_fd_ostream os(fd, /*shouldClose=*/false, /*unbuffered=*/true);
  os.write(bytes.data(), bytes.size());
  std::error_code error = os.error();
  os.clear_error();
  return error ? cannotWrite(path, error.message()) : llvm::Error::success();
}

/// Runs lld in one thread at a time, because its state is global.
static llvm::Error runLinker(llvm::ArrayRef<std::string> args) {
  static std::mutex mutex;
  static bool usable = true;
  std::lock_guard lock(mutex);
  if (!usable)
    return makeError("the linker failed before and cannot be run again in this process");
  std::vector<const char *> argv;
  for (const std::string &arg : args)
    argv.push_back(arg.c_str());
  std::string messages;
  llvm::raw_string_ostream os(messages);
  HiddenOptions hidden;
  lld::Result status = lld::lldMain(argv, os, os, {{lld::Gnu, &lld::elf::link}});
  usable = status.canRunAgain;
  if (status.retCode)
    return makeError("linking failed: " + llvm::StringRef(messages).trim());
  return llvm::Error::success();
}

/// Version script: exports only tpc/session.h, so that several programs in one process do not share
/// symbols.
static constexpr llvm::StringLiteral exports = R"({
  global: tpc_session_version; tpc_last_error; tpc_describe; tpc_model_*; tpc_results_*; tpc_generation_*;
  local: *;
};
)";

llvm::Error mlir::tpc::link(llvm::ArrayRef<char> object, llvm::StringRef output, Linked kind,
                            const LinkOptions &options) {
  bool starts = kind == Linked::Executable;
  // The output is written to a temporary file and then renamed, so that a failure leaves no file.
  ::tpc::StagedFile file;
  if (int error = file.open(output.str(), starts ? 0777 : 0666))
    return cannotWrite(output, llvm::sys::StrError(error));

  MemoryFile objectFile("tpc-object"), exportsFile("tpc-exports");
  MemoryOutput result;
  if (objectFile.fd < 0 || exportsFile.fd < 0 || !result.isOpen)
    return makeError("cannot make a file in memory: " + llvm::sys::StrError());
  if (llvm::Error error = writeAll(objectFile.fd, object, output))
    return error;
  if (llvm::Error error = writeAll(exportsFile.fd, {exports.data(), exports.size()}, output))
    return error;

  std::vector<std::string> args{"ld.lld",        "-o", result.path(), objectFile.path(),
                                "--gc-sections", "-z", "noexecstack"};
  std::string dir = options.runtimeDir.empty() ? defaultRuntimeDir() : options.runtimeDir;
  std::string shared = dir + "/tpc_shared.o", runtime = dir + "/libtpc_runtime.a";
  std::vector<std::string> runtimeFiles{shared, runtime};
  if (starts)
    runtimeFiles.insert(runtimeFiles.begin(), dir + "/tpc_start.o");
  for (const std::string &file : runtimeFiles)
    if (!fs::exists(file))
      return makeError("there is no '" + file + "': the runtime is not built or installed");
  // The library must not be unloaded (nodelete): threads of the runtime and per-thread data of the
  // C library may outlive dlclose.
  args.insert(args.end(), {"-shared", "-z", "nodelete", "-z", "defs", "--version-script",
                           exportsFile.path(), "-u", "tpc_model_open", "-u", "tpc_model_generate",
                           "-u", "tpc_model_save", "--eh-frame-hdr", "--build-id", "--as-needed"});
  if (starts)
    args.insert(args.end(), {"-e", "_start"});
  args.insert(args.end(), runtimeFiles.begin(), runtimeFiles.end());
#ifdef TPC_SANITIZER_RUNTIME
  // The sanitizer runtime has to be the first shared library.
  for (const char *file : {TPC_SANITIZER_RUNTIME}) {
    args.push_back(file);
    args.insert(args.end(), {"-rpath", path::parent_path(file).str()});
  }
  // The sanitizer runtime calls dlopen on behalf of the program: only DT_RPATH applies to callers
  // other than the program itself.
  args.push_back("--disable-new-dtags");
#endif
  for (const char *name :
       {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}) {
    std::string file = findLibrary(name, dir);
    if (file.empty())
      return makeError(llvm::Twine("cannot find ") + name +
                       ", which programs need; install it (on Debian: "
                       "libstdc++6, libgcc-s1, libc6)");
    args.push_back(file);
  }
  // The runtime's folder may have its own copies of these libraries.
  args.insert(args.end(), {"-rpath", dir});

  if (llvm::Error error = runLinker(args))
    return error;

  if (llvm::Error error = writeAll(file.descriptor(), result.finish(), output))
    return error;
  if (int error = file.commit())
    return cannotWrite(output, llvm::sys::StrError(error));
  return llvm::Error::success();
}
