//===- OutputFile.cpp - Atomic output files -------------------------------===//

#include "OutputFile.h"
#include "tpc/staged_file.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <filesystem>

using namespace tpc;
using llvm::Error;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

static Error fail(const llvm::Twine &message) {
  return llvm::createStringError(std::make_error_code(std::errc::invalid_argument), message);
}

static Error fail(StringRef path, StringRef what, std::error_code code) {
  return fail(what + " '" + path + "': " + code.message());
}

llvm::SmallString<128> tpc::resolveOutput(StringRef path) {
  llvm::SmallString<128> real;
  if (!fs::real_path(path, real))
    return real;
  std::filesystem::path at(path.str());
  for (int links = 0; links < 40; ++links) {
    std::error_code none;
    std::filesystem::path next = std::filesystem::read_symlink(at, none);
    if (none)
      break;
    at = at.parent_path() / next;
  }
  return llvm::SmallString<128>(at.string());
}

static llvm::SmallString<128> folderOf(StringRef path) {
  llvm::SmallString<128> folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  return folder;
}

/// Returns whether the output is a regular file or does not exist, so that a temporary file can be
/// renamed to it. Other outputs (devices, pipes, unnamed files such as /dev/stdout) are written
/// directly.
static bool isRegularOrNew(StringRef path) {
  fs::file_status status;
  llvm::SmallString<128> real;
  return fs::status(path, status) || (fs::is_regular_file(status) && !fs::real_path(path, real));
}

bool tpc::isSameFile(StringRef a, StringRef b) {
  llvm::SmallString<128> paths[] = {resolveOutput(a), resolveOutput(b)};
  for (llvm::SmallString<128> &path : paths) {
    // If a file does not exist, compares its folder and name.
    llvm::SmallString<128> folder;
    if (path == "-" || fs::real_path(folderOf(path), folder))
      continue;
    llvm::sys::path::append(folder, llvm::sys::path::filename(path));
    path = folder;
  }
  return paths[0] == paths[1];
}

Error tpc::checkOutputPath(StringRef path, llvm::ArrayRef<std::string> inputs, bool executable) {
  if (path == "-")
    return Error::success();
  for (const std::string &input : inputs)
    if (fs::equivalent(path, input))
      return fail("the output '" + path + "' is the input '" + input +
                  "': the input would be overwritten; choose another name");
  fs::file_status status;
  std::error_code found = fs::status(path, status);
  if (found == std::errc::too_many_symbolic_link_levels)
    return fail(path, "cannot write", found);
  if (!found && fs::is_directory(status))
    return fail("the output '" + path + "' is a folder; name a file in it");
  if (executable && !isRegularOrNew(path))
    return fail("the output '" + path +
                "' is a device or a pipe, but an executable must be a file");
  llvm::SmallString<128> folder = folderOf(resolveOutput(path));
  if (std::error_code code = fs::access(folder, fs::AccessMode::Exist))
    return fail(path, "cannot write", code);
  if (!fs::is_directory(folder))
    return fail("cannot write '" + path + "': '" + folder + "' is not a folder");
  if (!isRegularOrNew(path))
    return fs::access(path, fs::AccessMode::Write)
               ? fail(path, "cannot write", std::make_error_code(std::errc::permission_denied))
               : Error::success();
  StagedFile probe;
  if (int error = probe.open(resolveOutput(path).str().str(), 0600))
    return fail(path, "cannot write", std::error_code(error, std::generic_category()));
  return Error::success();
}

static Error writeTo(llvm::raw_fd_ostream &os, StringRef path,
                     llvm::function_ref<Error(llvm::raw_pwrite_stream &)> write) {
  Error error = write(os);
  os.flush();
  std::error_code code = os.error();
  os.clear_error();
  if (error)
    return error;
  return code ? fail(path, "cannot write", code) : Error::success();
}

Error tpc::writeOutput(StringRef path, llvm::function_ref<Error(llvm::raw_pwrite_stream &)> write) {
  if (path == "-")
    return writeTo(llvm::outs(), "standard output", write);
  if (!isRegularOrNew(path)) {
    llvm::SmallString<0> buffer; // a pipe cannot seek
    llvm::raw_svector_ostream buffered(buffer);
    if (Error error = write(buffered))
      return error;
    std::error_code code;
    llvm::raw_fd_ostream os(path, code, fs::CD_OpenExisting);
    if (code)
      return fail(path, "cannot write", code);
    return writeTo(os, path, [&](llvm::raw_pwrite_stream &) {
      os << buffer;
      return Error::success();
    });
  }
  llvm::SmallString<128> target = resolveOutput(path);
  StagedFile file;
  if (int error = file.open(target.str().str(), 0666))
    return fail(path, "cannot write", std::error_code(error, std::generic_category()));
  Error error = [&] {
    llvm::raw_fd_ostream os(file.descriptor(), /*shouldClose=*/false);
    return writeTo(os, path, write);
  }();
  if (error)
    return error;
  if (int code = file.commit())
    return fail(path, "cannot write", std::error_code(code, std::generic_category()));
  return Error::success();
}
