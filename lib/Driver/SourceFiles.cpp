//===- SourceFiles.cpp - Detection of changed input files -----------------===//

#include "SourceFiles.h"

#include <sys/stat.h>

using namespace tpc;

SourceFiles::Stamp SourceFiles::readStamp(const std::string &path) {
  auto nanoseconds = [](const timespec &time) {
    return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0)
    return {};
  return {status.st_dev,
          status.st_ino,
          uint64_t(status.st_size),
          status.st_nlink,
          nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

void SourceFiles::add(llvm::StringRef path) {
  files.try_emplace(path.str(), readStamp(path.str()));
}

llvm::Error SourceFiles::check() const {
  for (const auto &[path, stamp] : files)
    if (readStamp(path) != stamp)
      return llvm::createStringError(
          std::make_error_code(std::errc::invalid_argument),
          "'" + path +
              "' changed during compilation: the compiler may have read two versions. Compile "
              "again when no program writes to it");
  return llvm::Error::success();
}
