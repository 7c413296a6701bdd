//===- LinkTest.cpp - Linking in a process with its own global state ------===//

#include "tpc/Conversion/Lower.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

using namespace mlir;
namespace cl = llvm::cl;

namespace {

enum Letter { A, B };

cl::opt<int> number("link-test-number", cl::init(1));
cl::opt<Letter> letter(cl::values(clEnumValN(A, "link-test-a", ""),
                                  clEnumValN(B, "link-test-b", "")),
                       cl::init(A));
cl::list<std::string> rest(cl::Positional);
cl::SubCommand command("link-test-command");
cl::opt<int> commandsNumber("link-test-number", cl::sub(command), cl::init(1));

void parse(std::vector<const char *> arguments) {
  arguments.insert(arguments.begin(), "LinkTest");
  std::string messages;
  llvm::raw_string_ostream os(messages);
  EXPECT_TRUE(cl::ParseCommandLineOptions(int(arguments.size()), arguments.data(), "", &os))
      << messages;
}

/// Returns the object of a program with its own tpc_main, which exits with status `value`.
SmallVector<char> makeObject(int value) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registry.insert<LLVM::LLVMDialect>();
  MLIRContext context(registry);
  auto module = parseSourceString<ModuleOp>(
      "llvm.mlir.global external constant @tpc_program_v7(0 : i8) : i8\n"
      "llvm.func @tpc_main(%program: !llvm.ptr, %argc: i32, %argv: !llvm.ptr) -> i32 {\n"
      "  %0 = llvm.mlir.constant(" +
          std::to_string(value) + " : i32) : i32\n  llvm.return %0 : i32\n}",
      &context);
  mlir::tpc::LoweringOptions options;
  options.march = "x86-64";
  return llvm::cantFail(mlir::tpc::emitObject(*module, options));
}

class Link : public testing::Test {
protected:
  Link() { EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("link-test", folder)); }
  ~Link() override { llvm::sys::fs::remove_directories(folder); }

  std::string link(ArrayRef<char> object, const std::string &name) {
    std::string path = (folder + "/" + name).str();
    mlir::tpc::LinkOptions options;
    SmallString<128> lib(llvm::sys::fs::getMainExecutable(nullptr, (void *)&parse));
    llvm::sys::path::remove_filename(lib);
    llvm::sys::path::append(lib, "..", "..", "lib");
    options.runtimeDir = lib.str().str();
    llvm::Error error = mlir::tpc::link(object, path, mlir::tpc::Linked::Executable, options);
    return error ? llvm::toString(std::move(error)) : "";
  }
  int run(const std::string &name) {
    std::string path = (folder + "/" + name).str();
    return llvm::sys::ExecuteAndWait(path, {path});
  }
  int countFiles() {
    std::error_code error;
    int count = 0;
    for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end; it.increment(error))
      ++count;
    return count;
  }

  SmallString<128> folder;
};

} // namespace

TEST_F(Link, LinksInSeveralThreads) {
  SmallVector<char> objects[] = {makeObject(10), makeObject(11), makeObject(12), makeObject(13)};
  std::string messages[4];
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { messages[i] = link(objects[i], "p" + std::to_string(i)); });
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(messages[i], "");
    EXPECT_EQ(run("p" + std::to_string(i)), 10 + i);
  }
  EXPECT_EQ(countFiles(), 4);
}

TEST_F(Link, PreservesTheProcessOptions) {
  parse({"-link-test-number=7", "-link-test-b", "one"});
  ASSERT_EQ(link(makeObject(1), "program"), "");
  EXPECT_EQ(number, 7);
  EXPECT_EQ(number.getNumOccurrences(), 1);
  EXPECT_EQ(letter, B);
  EXPECT_EQ(rest.size(), 1u);
  EXPECT_TRUE(cl::getRegisteredOptions().contains("link-test-number"));

  // The options of the process can still be parsed.
  cl::ResetAllOptionOccurrences();
  parse({"link-test-command", "-link-test-number=5"});
  ASSERT_EQ(link(makeObject(1), "program"), "");
  EXPECT_EQ(commandsNumber, 5);
  EXPECT_TRUE(command);
  cl::ResetAllOptionOccurrences();
  EXPECT_EQ(commandsNumber, 1);
  parse({"-link-test-number=9", "-link-test-b", "one", "two"});
  EXPECT_EQ(number, 9);
  EXPECT_EQ(letter, B);
  EXPECT_EQ(rest.size(), 2u);
}

TEST_F(Link, PreservesTheFatalErrorHandler) {
  llvm::ScopedFatalErrorHandler handler([](void *, const char *reason, bool) {
    llvm::errs() << "the program's handler: " << reason << "\n";
    _exit(3);
  });
  std::thread other([&] { EXPECT_EQ(link(makeObject(1), "first"), ""); });
  EXPECT_EQ(link(makeObject(2), "second"), "");
  other.join();
  EXPECT_EXIT(llvm::report_fatal_error("to be told"), testing::ExitedWithCode(3),
              "the program's handler: to be told");
}

TEST_F(Link, RemovesFilesOfFailedLinks) {
  char noObject[] = "no object";
  EXPECT_NE(link(noObject, "program").find("linking failed: "), std::string::npos);
  EXPECT_EQ(countFiles(), 0);
  EXPECT_NE(link(makeObject(1), "none/program").find("/none/program': No such file"),
            std::string::npos);
  ASSERT_FALSE(llvm::sys::fs::create_directory(folder + "/taken"));
  EXPECT_NE(link(makeObject(1), "taken").find("cannot write '"), std::string::npos);
  EXPECT_EQ(countFiles(), 1);
}
