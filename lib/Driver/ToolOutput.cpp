//===- ToolOutput.cpp - Files of tools with upstream's mains ---------------===//

#include "tpc/Driver/ToolOutput.h"
#include "OutputFile.h"
#include "tpc/Support/ReadFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/WithColor.h"

using llvm::StringRef;

static bool fail(const char *tool, const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), tool) << message << "\n";
  return false;
}

/// The words of a flag that may be paths: its value, or, in --pass="reference=FILE kind=list",
/// those of options.
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

/// A pipe with a name of its own; whether it has a writer cannot be seen.
static bool isNamedPipe(StringRef path) {
  llvm::sys::fs::file_status status;
  return !path.starts_with("/dev/") && !path.starts_with("/proc/") &&
         !llvm::sys::fs::status(path, status) &&
         status.type() == llvm::sys::fs::file_type::fifo_file;
}

bool tpc::checkToolFiles(const char *tool, int argc, char **argv) {
  std::vector<std::string> outputs, others;
  for (int i = 1; i < argc; ++i) {
    StringRef text = argv[i];
    bool isFlag = text.consume_front("--") || (text.size() > 1 && text.consume_front("-"));
    if (isFlag && text == "o" && i + 1 < argc) {
      outputs.push_back(argv[++i]);
    } else if (isFlag && text.consume_front("o=")) {
      outputs.push_back(text.str());
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
  return true;
}

int tpc::finishToolOutput(const char *tool, int status) {
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return status;
  fail(tool, "cannot write to standard output: " + llvm::outs().error().message());
  llvm::outs().clear_error();
  return 1;
}
