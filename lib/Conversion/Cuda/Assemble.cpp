//===- Assemble.cpp - ptxas, where there is one -----------------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/ThreadPool.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;

/// ptxas takes about 0.1 s for a kernel; one that takes minutes hangs.
static constexpr unsigned kSecondsPerKernel = 10, kLeastSeconds = 60;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

std::string cuda::findAssembler() {
  auto inFolder = [](StringRef folder) -> std::string {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "bin", "ptxas");
    return llvm::sys::fs::can_execute(path) ? std::string(path) : std::string();
  };
  // Whoever names a toolkit means it, and no other.
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME"); home && !home->empty())
    return inFolder(*home);
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return inFolder("/usr/local/cuda");
}

//===----------------------------------------------------------------------===//
// What ptxas says
//===----------------------------------------------------------------------===//

/// The number before a word, such as "32 registers".
static unsigned getNumber(StringRef line, StringRef word) {
  size_t at = line.find(" " + word.str());
  unsigned number = 0;
  if (at != StringRef::npos)
    line.take_front(at).rsplit(' ').second.getAsInteger(10, number);
  return number;
}

/// Lines of `ptxas -v`:
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

namespace {
/// Files of one call, gone at its end.
struct Files {
  llvm::SmallString<128> folder;
  ~Files() {
    if (!folder.empty())
      llvm::sys::fs::remove_directories(folder);
  }
  std::string path(const llvm::Twine &name) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return std::string(path);
  }
};

struct Run {
  bool failed = false;
  std::string message;
  Cubin cubin;
};
} // namespace

static std::string readText(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

static Run runAssembler(Files &files, StringRef assembler, const Code &code,
                        unsigned architecture) {
  Run run;
  run.cubin.architecture = architecture;
  std::string name = "sm_" + std::to_string(architecture);
  std::string output = files.path(name + ".cubin"), log = files.path(name + ".log");
  std::string in = files.path("kernels.ptx"), arch = "-arch=" + name;
  StringRef args[] = {assembler, "-v", arch, "-o", output, in};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log), StringRef(log)};
  std::string error;
  unsigned seconds = std::max<unsigned>(kLeastSeconds, kSecondsPerKernel * code.launches.size());
  int status = llvm::sys::ExecuteAndWait(assembler, args, std::nullopt, redirects, seconds,
                                         /*MemoryLimit=*/0, &error);
  std::string text = readText(log);
  if (status != 0) {
    run.failed = true;
    run.message = name + ": " + (error.empty() ? text : error + "\n" + text);
    return run;
  }
  auto bytes = llvm::MemoryBuffer::getFile(output, /*IsText=*/false);
  if (!bytes) {
    run.failed = true;
    run.message = name + ": ptxas has written nothing";
    return run;
  }
  run.cubin.bytes.assign((*bytes)->getBufferStart(), (*bytes)->getBufferEnd());
  llvm::StringMap<Resources> resources = parseResources(text);
  for (const Launch &launch : code.launches)
    run.cubin.kernels.push_back(resources.lookup(launch.name));
  return run;
}

/// For whoever looks into what ptxas refused.
static std::string keep(StringRef ptx) {
  llvm::SmallString<128> path;
  int file;
  if (llvm::sys::fs::createTemporaryFile("tpc-kernels", "ptx", file, path))
    return "";
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << ptx;
  return std::string(path);
}

llvm::Error cuda::assemble(Code &code, const Architectures &architectures, StringRef assembler) {
  Files files;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("tpc-ptxas", files.folder))
    return makeError("no folder for ptxas can be made: " + error.message());
  {
    std::error_code error;
    llvm::raw_fd_ostream os(files.path("kernels.ptx"), error);
    os << code.ptx;
    os.close();
    if (error || os.has_error()) {
      os.clear_error();
      return makeError("PTX for ptxas cannot be written: " +
                       (error ? error : os.error()).message());
    }
  }
  std::vector<Run> runs(architectures.size());
  {
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(architectures.size()));
    for (auto [i, architecture] : llvm::enumerate(architectures))
      pool.async([&, i, architecture = architecture] {
        runs[i] = runAssembler(files, assembler, code, architecture);
      });
    pool.wait();
  }
  for (Run &run : runs) {
    if (run.failed)
      return makeError(
          "this is a mistake of tpcc's: ptxas does not take its PTX, which is kept in '" +
          keep(code.ptx) + "'\n" + run.message);
    code.cubins.push_back(std::move(run.cubin));
  }
  return llvm::Error::success();
}
