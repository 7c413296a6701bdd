//===- Assemble.cpp - Assembly of PTX by ptxas ----------------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Dialect/MakeError.h"
#include "tpc/dependent_launch.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Threading.h"

#include <chrono>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

/// A run of ptxas has a limit of kSecondsPerKernel for each kernel, but at least kMinSeconds. It is
/// assumed to hang if its CPU time exceeds the limit, or if it uses no CPU time for that long.
/// ptxas takes about 0.1 s of CPU time for a kernel. Elapsed time is not limited, because it
/// depends on the machine's load.
static constexpr unsigned kSecondsPerKernel = 10, kMinSeconds = 60;

/// Remedy for a faulty ptxas.
static constexpr char kOtherAssembler[] =
    "; select another ptxas by CUDA_HOME or PATH, or none by CUDA_HOME=/nonexistent";

std::string cuda::findAssembler() {
  auto inFolder = [](StringRef folder) -> std::string {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "bin", "ptxas");
    return llvm::sys::fs::can_execute(path) ? std::string(path) : std::string();
  };
  // An explicit CUDA_HOME is the only toolkit that is searched.
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"); home && !home->empty())
    return inFolder(*home);
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return inFolder("/usr/local/cuda");
}

std::string cuda::getAssemblerSearchPaths() {
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"); home && !home->empty())
    return "in CUDA_HOME, which is '" + *home + "'";
  return "in PATH or /usr/local/cuda, and CUDA_HOME is not set";
}

//===----------------------------------------------------------------------===//
// Output of ptxas
//===----------------------------------------------------------------------===//

/// Returns the number before a word, such as "32 registers".
static unsigned getNumber(StringRef line, StringRef word) {
  size_t at = line.find(" " + word.str());
  unsigned number = 0;
  if (at != StringRef::npos)
    line.take_front(at).rsplit(' ').second.getAsInteger(10, number);
  return number;
}

/// Parses lines of `ptxas -v`:
///   Compiling entry function 'layer_norm' for 'sm_80'
///   Function properties for layer_norm
///       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
///   Used 32 registers, used 1 barriers, 64 bytes smem, 400 bytes cmem[0]
static llvm::StringMap<Resources> parseResources(StringRef text) {
  llvm::StringMap<Resources> found;
  Resources *current = nullptr;
  while (!text.empty()) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    if (line.contains("Compiling entry function '"))
      current = &found[line.split('\'').second.split('\'').first];
    if (!current)
      continue;
    if (line.contains("spill stores")) {
      current->stackBytes = getNumber(line, "bytes stack frame");
      current->spillBytes =
          getNumber(line, "bytes spill stores") + getNumber(line, "bytes spill loads");
    }
    if (line.contains(" registers")) {
      current->registers = getNumber(line, "registers");
      current->sharedBytes = getNumber(line, "bytes smem");
    }
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static constexpr char kFolder[] = "tpc-ptxas", kLock[] = "lock";

namespace {
/// Files of one call, removed at its end. A killed process leaves its files behind, but loses its
/// lock, so the next call removes them.
struct Files {
  llvm::SmallString<128> folder;
  int lock = -1;

  ~Files() {
    if (!folder.empty())
      llvm::sys::fs::remove_directories(folder);
    if (lock >= 0)
      ::close(lock);
  }
  std::error_code make();
  static void removeStale();
  std::string path(const llvm::Twine &name) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return std::string(path);
  }
};

std::error_code Files::make() {
  removeStale();
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory(kFolder, folder))
    return error;
  // O_CLOEXEC: ptxas must not inherit the lock, because it may outlive this process.
  lock = ::open(path(kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock >= 0)
    ::flock(lock, LOCK_EX);
  return {};
}

void Files::removeStale() {
  llvm::SmallString<128> all;
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, all);
  std::error_code error;
  SmallVector<std::string> stale;
  for (llvm::sys::fs::directory_iterator it(all, error), end; !error && it != end;
       it.increment(error)) {
    if (!llvm::sys::path::filename(it->path()).starts_with(std::string(kFolder) + "-"))
      continue;
    llvm::SmallString<128> path(it->path());
    llvm::sys::path::append(path, kLock);
    // A folder without a lock file is still being created by another process.
    int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
      continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0)
      stale.push_back(it->path());
    ::close(file);
  }
  for (const std::string &path : stale)
    llvm::sys::fs::remove_directories(path);
}

/// One process of ptxas.
struct Run {
  unsigned architecture = 0;
  std::string input, output, log;
  llvm::sys::ProcessInfo process;
  std::chrono::nanoseconds used{0};             // CPU time
  std::chrono::steady_clock::time_point worked; // when CPU time last increased
  bool ended = false;

  std::string name() const { return "sm_" + std::to_string(architecture); }
};
} // namespace

static std::string readText(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

/// Keeps PTX that ptxas rejected, for a bug report.
static std::string keep(StringRef ptx) {
  llvm::SmallString<128> path;
  int file;
  if (llvm::sys::fs::createTemporaryFile("tpc-kernels", "ptx", file, path))
    return "";
  llvm::raw_fd_ostream os(file, /*shouldClose=*/true);
  os << ptx;
  os.close();
  if (!os.has_error())
    return std::string(path);
  os.clear_error();
  llvm::sys::fs::remove(path);
  return "";
}

static llvm::Error start(Run &run, StringRef assembler) {
  std::string arch = "-arch=" + run.name(), error;
  StringRef args[] = {assembler, "-v", arch, "-o", run.output, run.input};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(run.log), StringRef(run.log)};
  bool failed = false;
  run.worked = std::chrono::steady_clock::now();
  run.process = llvm::sys::ExecuteNoWait(assembler, args, std::nullopt, redirects,
                                         /*MemoryLimit=*/0, &error, &failed);
  if (failed || run.process.Pid == llvm::sys::ProcessInfo::InvalidPid)
    return makeError("'" + assembler + "' cannot be started: " + error + kOtherAssembler);
  return llvm::Error::success();
}

/// Returns the CPU time of a process, without its children.
static std::chrono::nanoseconds getUsed(pid_t process) {
  clockid_t clock;
  timespec used;
  if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
    return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// Checks without waiting whether the process has ended. LLVM's own time limits use alarm(), and a
/// process has only one alarm.
static llvm::Error poll(Run &run, StringRef assembler, const Code &code) {
  std::string error;
  llvm::sys::ProcessInfo state = llvm::sys::Wait(run.process, /*SecondsToWait=*/0, &error,
                                                 /*ProcStat=*/nullptr, /*Polling=*/true);
  if (state.Pid == 0) {
    auto limit = std::chrono::seconds(
        std::max<size_t>(kMinSeconds, kSecondsPerKernel * code.launches.size()));
    auto now = std::chrono::steady_clock::now();
    if (auto used = getUsed(run.process.Pid); used > run.used) {
      run.used = used;
      run.worked = now;
    }
    bool isIdle = now - run.worked >= limit;
    if (!isIdle && run.used < limit)
      return llvm::Error::success();
    return makeError("'" + assembler + "' has not ended after " + llvm::Twine(limit.count()) +
                     (isIdle ? " s without CPU time" : " s of CPU time") + " for " + run.name() +
                     kOtherAssembler);
  }
  run.ended = true;
  if (state.ReturnCode == 0)
    return llvm::Error::success();
  std::string messages = readText(run.log);
  // -1: ptxas cannot be executed, or it is a script that starts a program that cannot be executed.
  if (state.ReturnCode < 0)
    return makeError(
        "'" + assembler +
        (state.ReturnCode == -1 ? "' cannot be executed for " : "' did not end by itself for ") +
        run.name() + ": " + error + kOtherAssembler + (messages.empty() ? "" : "\n") + messages);
  std::string kept = keep(code.ptx);
  return makeError("this is a bug in tpcc: '" + assembler + "' rejects its PTX for " + run.name() +
                   (kept.empty() ? "" : ", which is kept in '" + kept + "'") + "\n" + messages);
}

static void stop(Run &run) {
  if (run.ended || run.process.Pid == llvm::sys::ProcessInfo::InvalidPid)
    return;
  ::kill(run.process.Pid, SIGKILL);
  llvm::sys::Wait(run.process, std::nullopt);
  run.ended = true;
}

/// Returns whether a cubin is complete and has the code of each kernel: a full disk truncates
/// files.
static bool isWhole(StringRef bytes, const Code &code) {
  auto take = [](auto expected) {
    bool good = bool(expected);
    if (!good)
      llvm::consumeError(expected.takeError());
    return std::make_pair(good, good ? *expected : std::decay_t<decltype(*expected)>());
  };
  auto file = llvm::object::ELF64LEFile::create(bytes);
  if (!file) {
    llvm::consumeError(file.takeError());
    return false;
  }
  // The table of segments is at the end of the file.
  auto [good, sections] = take(file->sections());
  if (!good || !take(file->program_headers()).first)
    return false;
  llvm::StringSet<> names;
  for (const auto &section : sections) {
    auto [named, name] = take(file->getSectionName(section));
    // Shared memory has a size, but no bytes.
    bool hasBytes = section.sh_type != llvm::ELF::SHT_NOBITS;
    if (!named || (hasBytes && !take(file->getSectionContents(section)).first))
      return false;
    names.insert(name);
  }
  return llvm::all_of(code.launches, [&](const Launch &launch) {
    return names.contains((".text." + StringRef(launch.name)).str());
  });
}

static llvm::Expected<Cubin> readCubin(const Run &run, StringRef assembler, const Code &code) {
  Cubin cubin;
  cubin.architecture = run.architecture;
  auto bytes = llvm::MemoryBuffer::getFile(run.output, /*IsText=*/false);
  if (!bytes || !(*bytes)->getBuffer().starts_with(llvm::ELF::ElfMagic))
    return makeError("'" + assembler + "' has written no cubin for " + run.name() +
                     kOtherAssembler);
  cubin.bytes.assign((*bytes)->getBufferStart(), (*bytes)->getBufferEnd());
  llvm::StringMap<Resources> resources = parseResources(readText(run.log));
  for (const Launch &launch : code.launches) {
    auto found = resources.find(launch.name);
    if (found == resources.end())
      return makeError("'" + assembler + "' does not report the resources of " + launch.name +
                       " on " + run.name() + kOtherAssembler);
    cubin.kernels.push_back(found->second);
  }
  if (!isWhole((*bytes)->getBuffer(), code))
    return makeError("'" + assembler + "' has written a cubin for " + run.name() +
                     " that is cut off, or lacks a kernel" + kOtherAssembler);
  return cubin;
}

/// Runs as many processes at once as there are processors.
static llvm::Error runAll(MutableArrayRef<Run> runs, StringRef assembler, const Code &code) {
  size_t maxRunning = llvm::hardware_concurrency().compute_thread_count(), next = 0;
  auto isRunning = [](const Run &run) { return !run.ended; };
  while (next < runs.size() || llvm::any_of(runs, isRunning)) {
    for (size_t running = llvm::count_if(runs.take_front(next), isRunning);
         running < maxRunning && next < runs.size(); ++running)
      if (llvm::Error error = start(runs[next++], assembler))
        return error;
    for (Run &run : runs.take_front(next))
      if (!run.ended)
        if (llvm::Error error = poll(run, assembler, code))
          return error;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return llvm::Error::success();
}

llvm::Error cuda::assemble(Code &code, const Architectures &architectures, StringRef assembler) {
  Files files;
  if (std::error_code error = files.make())
    return makeError("no folder for ptxas can be made: " + error.message() +
                     " (TMPDIR names its parent folder)");
  std::vector<Run> runs;
  for (unsigned architecture : architectures) {
    std::string name = "sm_" + std::to_string(architecture), in = files.path(name + ".ptx");
    std::error_code error;
    llvm::raw_fd_ostream os(in, error);
    os << ::tpc::dependent_launch::getText(code.ptx, static_cast<int>(architecture));
    os.close();
    if (!error)
      error = os.error();
    os.clear_error();
    if (error)
      return makeError("cannot write '" + in + "' for ptxas: " + error.message());
    runs.push_back(
        {architecture, in, files.path(name + ".cubin"), files.path(name + ".log"), {}, {}, {}});
  }
  llvm::scope_exit atEnd([&] { llvm::for_each(runs, stop); });
  if (llvm::Error error = runAll(runs, assembler, code))
    return error;
  for (const Run &run : runs) {
    llvm::Expected<Cubin> cubin = readCubin(run, assembler, code);
    if (!cubin)
      return cubin.takeError();
    code.cubins.push_back(std::move(*cubin));
  }
  return llvm::Error::success();
}
