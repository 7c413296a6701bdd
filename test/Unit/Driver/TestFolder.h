//===- TestFolder.h - Temporary folder of a test ----------------*- C++ -*-===//

#ifndef TPC_TEST_UNIT_DRIVER_TESTFOLDER_H
#define TPC_TEST_UNIT_DRIVER_TESTFOLDER_H

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace tpc {

class TestFolder : public testing::Test {
protected:
  TestFolder() : root(testing::TempDir() + "tpc-driver-XXXXXX") {
    EXPECT_TRUE(mkdtemp(root.data())) << root;
  }
  ~TestFolder() override {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }

  std::string path(const std::string &name) const { return root + "/" + name; }
  std::string write(const std::string &name, const std::string &text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string read(const std::string &name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void link(const std::string &name, const std::string &to) const {
    std::filesystem::create_symlink(to, path(name));
  }
  /// Number of entries in the folder.
  int64_t count() const {
    return std::distance(std::filesystem::directory_iterator(root),
                         std::filesystem::directory_iterator());
  }

  std::string root;
};

} // namespace tpc

#endif // TPC_TEST_UNIT_DRIVER_TESTFOLDER_H
