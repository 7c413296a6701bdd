//===- OutputFileTest.cpp - Atomic output files ---------------------------===//

#include "OutputFile.h"
#include "TestFolder.h"
#include "tpc/Driver/ToolOutput.h"

#include <sys/stat.h>
#include <thread>

using namespace tpc;

namespace {

class OutputFile : public TestFolder {
protected:
  /// Returns the reason that `name` is not writable; empty if it is.
  std::string check(const std::string &name, std::vector<std::string> inputs = {},
                    bool executable = false) {
    llvm::Error error = checkOutputPath(path(name), inputs, executable);
    return error ? llvm::toString(std::move(error)) : "";
  }
  std::string write(const std::string &name, const std::string &text, bool fails = false) {
    llvm::Error error = writeOutput(path(name), [&](llvm::raw_pwrite_stream &os) -> llvm::Error {
      os << text;
      if (fails)
        return llvm::createStringError(std::make_error_code(std::errc::io_error), "no more");
      return llvm::Error::success();
    });
    return error ? llvm::toString(std::move(error)) : "";
  }
};

} // namespace

TEST_F(OutputFile, ReplacesAWholeFile) {
  EXPECT_EQ(write("a", "first"), "");
  EXPECT_EQ(write("a", "2"), "");
  EXPECT_EQ(read("a"), "2");
  EXPECT_EQ(count(), 1) << "a temporary file is left behind";
}

TEST_F(OutputFile, FailuresKeepTheOldFile) {
  EXPECT_EQ(write("a", "first"), "");
  EXPECT_EQ(write("a", "half of the sec", /*fails=*/true), "no more");
  EXPECT_EQ(read("a"), "first");
  EXPECT_EQ(write("b", "half", /*fails=*/true), "no more");
  EXPECT_EQ(count(), 1) << "b, or a temporary file, is there";
}

TEST_F(OutputFile, FollowsLinks) {
  TestFolder::write("target", "old");
  link("link", path("target"));
  EXPECT_EQ(write("link", "new"), "");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read("target"), "new");
  // A dangling link, by a relative path, through another link.
  link("to-nothing", "nothing");
  link("to-link", "to-nothing");
  EXPECT_EQ(write("to-link", "made"), "");
  EXPECT_TRUE(std::filesystem::is_symlink(path("to-link")));
  EXPECT_EQ(read("nothing"), "made");
}

TEST_F(OutputFile, WritesIntoPipesAndDevices) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read("pipe"); });
  EXPECT_EQ(write("pipe", "through"), "");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_EQ(count(), 1) << "the pipe was replaced";
  EXPECT_NE(check("pipe", {}, /*executable=*/true).find("is a device or a pipe"),
            std::string::npos);
  EXPECT_EQ(check("pipe"), "");
}

TEST_F(OutputFile, RejectsInputsAsOutputs) {
  std::string model = TestFolder::write("model.onnx", "m");
  link("link", model);
  std::filesystem::create_hard_link(model, path("hard"));
  for (const char *name : {"model.onnx", "link", "hard"})
    EXPECT_NE(check(name, {"/nowhere", model}).find("the input would be overwritten"),
              std::string::npos)
        << name;
  EXPECT_EQ(check("other", {model}), "");
}

TEST_F(OutputFile, RejectsUnwritablePaths) {
  EXPECT_EQ(check(""), "the output '" + path("") + "' is a folder; name a file in it");
  EXPECT_EQ(check("none/file"),
            "cannot write '" + path("none/file") + "': No such file or directory");
  link("a", path("b"));
  link("b", path("a"));
  EXPECT_EQ(check("a"), "cannot write '" + path("a") + "': Too many levels of symbolic links");
  llvm::Error error = checkOutputPath("-", {}, true);
  EXPECT_FALSE(error) << "standard output is no path";
  EXPECT_NE(write("none/file", "x"), "");
}

TEST_F(OutputFile, ComparesFilesByIdentity) {
  std::string file = TestFolder::write("a", "");
  link("link", file);
  std::filesystem::create_directory(path("d"));
  EXPECT_TRUE(isSameFile(file, path("link")));
  EXPECT_TRUE(isSameFile(file, path("d/../a")));
  // Paths of a file that does not exist are compared too.
  EXPECT_TRUE(isSameFile(path("new"), path("d/../new")));
  EXPECT_FALSE(isSameFile(path("new"), path("d/new")));
  EXPECT_FALSE(isSameFile(file, path("new")));
  EXPECT_TRUE(isSameFile("-", "-"));
  EXPECT_FALSE(isSameFile("-", file));
}

TEST_F(OutputFile, ChecksInputsAndOutputsOfTools) {
  std::string input = TestFolder::write("in.mlir", "x");
  auto accepts = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "tool");
    std::vector<char *> argv;
    for (std::string &word : words)
      argv.push_back(word.data());
    return checkToolFiles("tool", static_cast<int>(argv.size()), argv.data());
  };
  EXPECT_TRUE(accepts({input}));
  EXPECT_TRUE(accepts({input, "-o", path("out")}));
  EXPECT_TRUE(accepts({input, "-o", "-"}));
  testing::internal::CaptureStderr();
  for (std::vector<std::string> flags :
       {std::vector<std::string>{"-o", input}, {"--o", input}, {"-o=" + input}, {"--o=" + input}}) {
    flags.insert(flags.begin(), input);
    EXPECT_FALSE(accepts(flags)) << flags[1];
  }
  // Flags may come first. An argument after any other flag is an input.
  EXPECT_FALSE(accepts({"-o", input, "--canonicalize", input}));
  EXPECT_FALSE(accepts({input, "-o", path("none/out")}));
  // Any device may be an output. Only devices whose data end may be inputs (/dev/null, terminals),
  // regardless of the flag that names them.
  EXPECT_TRUE(accepts({input, "-o", "/dev/full"}));
  EXPECT_TRUE(accepts({"/dev/null"}));
  for (const char *flag :
       {"/dev/zero", "--irdl-file=/dev/zero", "--pass=reference=/dev/zero kind=x",
        "--pass-pipeline=m(pass{file=/dev/zero})"})
    EXPECT_FALSE(accepts({flag})) << flag;
  std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_NE(errors.find("tool: error: the output '" + input + "' is the input"), std::string::npos);
  EXPECT_NE(errors.find("none/out': No such file or directory"), std::string::npos);
  EXPECT_NE(errors.find("tool: error: cannot read '/dev/zero': it is a device"), std::string::npos);
}
