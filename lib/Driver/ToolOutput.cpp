//===- ToolOutput.cpp - Where tools may write ------------------------------===//

#include "tpc/Driver/ToolOutput.h"
#include "OutputFile.h"

#include "llvm/Support/WithColor.h"

using llvm::StringRef;

bool tpc::checkToolOutput(const char *tool, int argc, char **argv) {
  std::vector<std::string> outputs, others;
  for (int i = 1; i < argc; ++i) {
    StringRef text = argv[i];
    bool isFlag = text.consume_front("--") || (text.size() > 1 && text.consume_front("-"));
    if (isFlag && text == "o" && i + 1 < argc)
      outputs.push_back(argv[++i]);
    else if (isFlag && text.consume_front("o="))
      outputs.push_back(text.str());
    else if (!isFlag)
      others.push_back(text.str());
  }
  for (const std::string &output : outputs)
    if (llvm::Error error = checkOutputPath(output, others)) {
      llvm::WithColor::error(llvm::errs(), tool) << llvm::toString(std::move(error)) << "\n";
      return false;
    }
  return true;
}
