//===- ExternalDataTest.cpp - External data files of a model --------------===//

#include "../TestFiles.h"
#include "tpc/Import/ONNX/TensorSource.h"

#include "gtest/gtest.h"

using namespace tpc::test;

namespace {
struct Resolved {
  std::string file, path, error;
  bool exists = false;
};
} // namespace

static Resolved resolve(const std::string &model, const std::string &location) {
  Resolved r;
  if (llvm::Error e =
          mlir::tpc::frontend::resolveDataFile(model, location, r.file, r.path, r.exists))
    r.error = llvm::toString(std::move(e));
  return r;
}

TEST(ExternalData, IsInTheModelsFolder) {
  Folder folder;
  std::string model = folder.write("m.onnx", "m"), data = folder.write("sub/m.data", "d");
  Resolved r = resolve(model, "./sub/m.data");
  EXPECT_EQ(r.error, "");
  EXPECT_TRUE(r.exists);
  EXPECT_EQ(r.file, "sub/m.data");
  EXPECT_EQ(r.path, data);
}

TEST(ExternalData, MayBeMissing) {
  Folder folder;
  Resolved r = resolve(folder.write("m.onnx", "m"), "m.data");
  EXPECT_EQ(r.error, "");
  EXPECT_FALSE(r.exists);
  EXPECT_EQ(r.path, folder.file("m.data"));
}

TEST(ExternalData, RejectsPathsOutsideOfTheFolder) {
  Folder folder;
  std::string model = folder.write("model/m.onnx", "m");
  std::string secret = folder.write("secret", "s");
  EXPECT_NE(resolve(model, "../secret").error.find("outside"), std::string::npos);
  EXPECT_NE(resolve(model, "a/../../secret").error.find("outside"), std::string::npos);
  EXPECT_NE(resolve(model, secret).error.find("relative"), std::string::npos);
  EXPECT_NE(resolve(model, "").error.find("empty"), std::string::npos);
  EXPECT_NE(resolve(model, std::string("m\0x", 3)).error.find("malformed"), std::string::npos);
  folder.link("model/link", "../secret");
  EXPECT_NE(resolve(model, "link").error.find("leads outside"), std::string::npos);
  // The same link, through a subfolder.
  folder.link("model/up", "..");
  EXPECT_NE(resolve(model, "up/secret").error.find("leads outside"), std::string::npos);
  // A folder whose name has the model's folder as a prefix is outside of it.
  folder.write("model2/d", "d");
  folder.link("model/next", "../model2/d");
  EXPECT_NE(resolve(model, "next").error.find("leads outside"), std::string::npos);
  folder.write("model/folder/file", "f");
  EXPECT_NE(resolve(model, "folder").error.find("not a regular file"), std::string::npos);
}

TEST(ExternalData, FollowsLinksInsideOfTheFolder) {
  Folder folder;
  std::string model = folder.write("m.onnx", "m");
  folder.write("real.data", "d");
  folder.link("m.data", "real.data");
  Resolved r = resolve(model, "m.data");
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r.file, "m.data");
}

TEST(ExternalData, FollowsHuggingFaceCaches) {
  Folder folder;
  std::string root = "hub/models--a--b/";
  folder.write(root + "blobs/1111", "m");
  std::string blob = folder.write(root + "blobs/2222", "d");
  std::string model = folder.link(root + "snapshots/rev/onnx/model.onnx", "../../../blobs/1111");
  folder.link(root + "snapshots/rev/onnx/model.onnx_data", "../../../blobs/2222");
  Resolved r = resolve(model, "model.onnx_data");
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r.file, "model.onnx_data");
  EXPECT_EQ(r.path, blob);
  // A link to another model's cache is rejected.
  folder.write("hub/models--c--d/blobs/3333", "s");
  folder.link(root + "snapshots/rev/onnx/other", "../../../../models--c--d/blobs/3333");
  EXPECT_NE(resolve(model, "other").error.find("leads outside"), std::string::npos);
}

TEST(ExternalData, LinkedModelsHaveTheirDataNextToTheTarget) {
  Folder folder;
  folder.write("real/m.onnx", "m");
  std::string data = folder.write("real/m.data", "d");
  std::string model = folder.link("here/m.onnx", "../real/m.onnx");
  Resolved r = resolve(model, "m.data");
  EXPECT_EQ(r.error, "");
  EXPECT_TRUE(r.exists);
  EXPECT_EQ(r.file, data); // absolute path: the file is not in the given folder
}
