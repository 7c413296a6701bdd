//===- TestFiles.h - Folders and protobuf messages for tests ----*- C++ -*-===//

#ifndef TPC_TEST_UNIT_TESTFILES_H
#define TPC_TEST_UNIT_TESTFILES_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fstream>
#include <string>

namespace tpc::test {

/// A temporary folder that the destructor removes.
class Folder {
public:
  Folder() {
    llvm::SmallString<128> p;
    (void)llvm::sys::fs::createUniqueDirectory("tpc-import", p);
    llvm::SmallString<128> real;
    (void)llvm::sys::fs::real_path(p, real);
    path = std::string(real);
  }
  ~Folder() { (void)llvm::sys::fs::remove_directories(path); }

  std::string file(const std::string &name) const { return path + "/" + name; }
  /// Writes a file, and creates its parent folders.
  std::string write(const std::string &name, const std::string &bytes) const {
    std::string f = file(name);
    (void)llvm::sys::fs::create_directories(llvm::sys::path::parent_path(f));
    std::ofstream(f, std::ios::binary) << bytes;
    return f;
  }
  std::string link(const std::string &name, const std::string &target) const {
    std::string f = file(name);
    (void)llvm::sys::fs::create_directories(llvm::sys::path::parent_path(f));
    (void)llvm::sys::fs::create_link(target, f);
    return f;
  }

  std::string path;
};

// The protobuf wire format, by hand.

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7)
    out += char(value | 0x80);
  return out += char(value);
}
inline std::string number(int field, uint64_t value) { return varint(field << 3) + varint(value); }
inline std::string bytes(int field, const std::string &value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}

/// A TensorProto of f32 with raw data.
inline std::string tensor(const std::string &name, int64_t size, const std::string &raw) {
  return number(1, size) + number(2, 1) + bytes(8, name) + bytes(9, raw);
}

} // namespace tpc::test

#endif
