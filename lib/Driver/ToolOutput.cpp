//===- ToolOutput.cpp - Input and output checks for upstream's tool mains -===//

#include "tpc/Driver/ToolOutput.h"
#include "OutputFile.h"
#include "tpc/Support/ReadFile.h"
#include "tpc/staged_file.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/WithColor.h"

#include <memory>
#include <unistd.h>

using llvm::StringRef;

static bool fail(const char *tool, const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), tool) << message << "\n";
  return false;
}

/// Returns the values of a flag that may be paths: the flag's value, or the values of options in
/// --pass="reference=FILE kind=list".
static llvm::SmallVector<StringRef> findPaths(StringRef text) {
  llvm::SmallVector<StringRef> paths;
  while (!text.empty()) {
    size_t end = text.find_first_of("= {}(),\t\n");
    StringRef word = text.take_front(end);
    if (word.contains('/') && word != "/dev/stdout" && word != "/dev/stderr")
      paths.push_back(word);
    text = end == StringRef::npos ? StringRef() : text.drop_front(end + 1);
  }
  return paths;
}

/// Returns whether the path is a named pipe (opening it may block).
static bool isNamedPipe(StringRef path) {
  llvm::sys::fs::file_status status;
  return !path.starts_with("/dev/") && !path.starts_with("/proc/") &&
         !llvm::sys::fs::status(path, status) &&
         status.type() == llvm::sys::fs::file_type::fifo_file;
}

namespace {

/// Temporary output file for -o, which MLIR's main functions open as /dev/fd/N.
struct StagedOutput {
  std::string path;
  std::string argument; ///< storage of the replaced element of argv
  tpc::StagedFile file;
};

} // namespace

static std::unique_ptr<StagedOutput> stagedOutput;

/// Opens a temporary file for the output `path` and sets `argument` to `prefix` followed by the
/// path of its descriptor. Leaves devices and pipes unchanged.
static bool stageOutput(const char *tool, StringRef path, StringRef prefix, char *&argument) {
  llvm::sys::fs::file_status status;
  bool exists = !llvm::sys::fs::status(path, status);
  if (path == "-" || (exists && !llvm::sys::fs::is_regular_file(status)) ||
      access("/proc/self/fd", X_OK) != 0)
    return true;
  auto output = std::make_unique<StagedOutput>();
  output->path = path.str();
  if (int error = output->file.open(tpc::resolveOutput(path).str().str(), 0666))
    return fail(tool, "cannot write '" + path +
                          "': " + std::error_code(error, std::generic_category()).message());
  output->argument = (prefix + "/proc/self/fd/" + llvm::Twine(output->file.descriptor())).str();
  argument = output->argument.data();
  stagedOutput = std::move(output);
  return true;
}

bool tpc::checkToolFiles(const char *tool, int argc, char **argv) {
  std::vector<std::string> outputs, others;
  StringRef prefix; // "-o" or "-o=" in the argument with the output path
  int argument = 0;
  for (int i = 1; i < argc; ++i) {
    StringRef text = argv[i];
    bool isFlag = text.consume_front("--") || (text.size() > 1 && text.consume_front("-"));
    if (isFlag && text == "o" && i + 1 < argc) {
      outputs.push_back(argv[++i]);
      prefix = "";
      argument = i;
    } else if (isFlag && text.consume_front("o=")) {
      outputs.push_back(text.str());
      prefix = StringRef(argv[i]).drop_back(text.size());
      argument = i;
    } else {
      if (!isFlag)
        others.push_back(text.str());
      llvm::SmallVector<StringRef> paths = findPaths(text);
      if (!isFlag)
        paths.push_back(text);
      for (StringRef path : paths) {
        std::string why = describeUnreadable(path.str(), kMaxProgramBytes);
        if (isNamedPipe(path))
          why = "it is a pipe";
        if (!why.empty() && !llvm::sys::fs::is_directory(path))
          return fail(tool, "cannot read '" + path + "': " + why);
      }
    }
  }
  for (const std::string &output : outputs)
    if (llvm::Error error = checkOutputPath(output, others))
      return fail(tool, llvm::toString(std::move(error)));
  // The tool itself rejects several outputs.
  return outputs.size() != 1 || stageOutput(tool, outputs[0], prefix, argv[argument]);
}

int tpc::finishToolOutput(const char *tool, int status) {
  if (std::unique_ptr<StagedOutput> output = std::move(stagedOutput); output && status == 0)
    if (int error = output->file.commit()) {
      fail(tool, "cannot write '" + output->path +
                     "': " + std::error_code(error, std::generic_category()).message());
      status = 1;
    }
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return status;
  fail(tool, "cannot write to standard output: " + llvm::outs().error().message());
  llvm::outs().clear_error();
  return 1;
}
