//===- Link.cpp - Executables, by lld in this process ---------------------===//
//
// No C compiler is needed: tpc_start.o brings the entry point, and the shared
// libraries are found where the dynamic linker finds them.
//
//===----------------------------------------------------------------------===//

#include "tpc/Conversion/Lower.h"

#include "lld/Common/CommonLinkerContext.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// The directories in which Linux distributions for this processor keep shared
/// libraries.
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

// lld registers options of LLVM's code generator, parses an (empty) list of them
// and sets all registered options back to their defaults. Those of the program
// around, which are parsed by now, must not be among them.
static void retireOptions() {
  llvm::SmallPtrSet<llvm::cl::Option *, 32> options;
  llvm::cl::SubCommand &all = llvm::cl::SubCommand::getTopLevel();
  for (auto &entry : all.OptionsMap)
    options.insert(entry.second);
  options.insert(all.PositionalOpts.begin(), all.PositionalOpts.end());
  options.insert(all.SinkOpts.begin(), all.SinkOpts.end());
  if (all.ConsumeAfterOpt)
    options.insert(all.ConsumeAfterOpt);
  for (llvm::cl::Option *option : options)
    option->removeArgument();
}

namespace {
/// Files that must not stay behind, whether linking ends, fails, or is interrupted.
class Temporaries {
public:
  explicit Temporaries(llvm::StringRef output) : output(output), handler(onFatalError, this) {}
  ~Temporaries() { remove(); }

  std::error_code create(const llvm::Twine &model, llvm::SmallVectorImpl<char> &path, int *fd) {
    std::error_code error =
        fd ? fs::createUniqueFile(model, *fd, path) : fs::createUniqueFile(model, path);
    if (!error) {
      files.push_back(std::string(path.data(), path.size()));
      llvm::sys::RemoveFileOnSignal(files.back());
    }
    return error;
  }
  void remove() {
    for (const std::string &file : files) {
      fs::remove(file);
      llvm::sys::DontRemoveFileOnSignal(file);
    }
    files.clear();
  }

private:
  /// A stream of lld's that could not be written, for instance.
  [[noreturn]] static void onFatalError(void *self, const char *reason, bool) {
    auto *temporaries = static_cast<Temporaries *>(self);
    temporaries->remove();
    llvm::WithColor::error(llvm::errs(), "tpcc")
        << "cannot write '" << temporaries->output << "': " << reason << "\n";
    std::_Exit(1);
  }

  std::string output;
  std::vector<std::string> files;
  llvm::ScopedFatalErrorHandler handler;
};
} // namespace

llvm::Error mlir::tpc::linkExecutable(llvm::ArrayRef<char> object, llvm::StringRef output,
                                      const LinkOptions &options) {
  // lld works on files: the object lies beside the output for as long as it
  // takes, and the output gets its name when it is complete.
  llvm::SmallString<128> objectPath, result;
  int fd;
  Temporaries temporaries(output);
  if (std::error_code error = temporaries.create(output + "-%%%%%%.o", objectPath, &fd))
    return makeError("cannot write '" + output + "': " + error.message());
  {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
    os.write(object.data(), object.size());
    os.close();
    if (os.has_error()) {
      std::string why = os.error().message();
      os.clear_error();
      return makeError("cannot write '" + output + "': " + why);
    }
  }
  if (std::error_code error = temporaries.create(output + "-%%%%%%", result, nullptr))
    return makeError("cannot write '" + output + "': " + error.message());

  // On a disk that is full a mapped file is a bus error. LLVM 22.1's lld does the opposite of what
  // the flag says: with it, the file is written (test_disk_that_is_full would notice).
  std::vector<std::string> args{"ld.lld",        "-o", result.str().str(), objectPath.str().str(),
                                "--gc-sections", "-z", "noexecstack",      "--mmap-output-file"};
  if (options.shared) {
    args.push_back("-shared");
  } else {
    std::string dir = options.runtimeDir.empty() ? defaultRuntimeDir() : options.runtimeDir;
    std::string start = dir + "/tpc_start.o", runtime = dir + "/libtpc_runtime.a";
    for (const std::string &file : {start, runtime})
      if (!fs::exists(file))
        return makeError("there is no '" + file + "': the runtime is not built or installed");
    std::string loader = findLibrary("ld-linux-x86-64.so.2", "/lib64");
    args.insert(args.end(), {"-pie", "--dynamic-linker", loader, "--eh-frame-hdr", "--build-id",
                             "--as-needed", start, runtime});
#ifdef TPC_SANITIZER_RUNTIME
    // It wants to be the first shared library.
    for (const char *file : {TPC_SANITIZER_RUNTIME}) {
      args.push_back(file);
      args.insert(args.end(), {"-rpath", path::parent_path(file).str()});
    }
    // It calls dlopen on the program's behalf: only the old kind of run path serves callers that
    // are not the program itself.
    args.push_back("--disable-new-dtags");
#endif
    for (const char *name :
         {"libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}) {
      std::string file = findLibrary(name, dir);
      if (file.empty())
        return makeError(llvm::Twine("cannot find ") + name +
                         ", which executables need; install it (on Debian: "
                         "libstdc++6, libgcc-s1, libc6)");
      args.push_back(file);
    }
    // Where the libraries of this machine are, should they not be in the
    // dynamic linker's own places.
    args.insert(args.end(), {"-rpath", dir});
  }
  args.insert(args.end(), options.inputs.begin(), options.inputs.end());

  std::vector<const char *> argv;
  for (const std::string &arg : args)
    argv.push_back(arg.c_str());
  // lld's state is global.
  static std::mutex mutex;
  static bool usable = true;
  std::lock_guard lock(mutex);
  if (!usable)
    return makeError("the linker failed before and cannot be run again in this process");
  retireOptions();
  std::string messages;
  llvm::raw_string_ostream os(messages);
  lld::Result status = lld::lldMain(argv, os, os, {{lld::Gnu, &lld::elf::link}});
  usable = status.canRunAgain;
  if (status.retCode)
    return makeError("linking failed: " + llvm::StringRef(messages).trim());
  if (std::error_code error = fs::rename(result, output))
    return makeError("cannot write '" + output + "': " + error.message());
  return llvm::Error::success();
}
