//===- ExternalData.cpp - Data files beside a model -----------------------===//

#include "TensorSource.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir::tpc::frontend;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static llvm::Error fault(const llvm::Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), what);
}

static bool isInside(llvm::StringRef file, llvm::StringRef folder) {
  return file.consume_front(folder) && (folder.ends_with("/") || file.starts_with("/"));
}

/// The `blobs` folder of the Hugging Face cache that `folder` (a real path) is a snapshot in;
/// empty if it is none.
static std::string findBlobs(llvm::StringRef folder) {
  for (llvm::StringRef at = folder; !at.empty() && at != "/"; at = path::parent_path(at)) {
    llvm::StringRef snapshots = path::parent_path(at);
    if (path::filename(snapshots) != "snapshots")
      continue;
    llvm::SmallString<256> blobs(path::parent_path(snapshots)), real;
    path::append(blobs, "blobs");
    if (!fs::real_path(blobs, real) && fs::is_directory(real))
      return std::string(real);
  }
  return "";
}

llvm::Error mlir::tpc::frontend::resolveDataFile(llvm::StringRef modelPath,
                                                 llvm::StringRef location, std::string &file,
                                                 std::string &dataPath, bool &exists) {
  std::string quoted = "external data file '" + location.str() + "'";
  if (location.empty() || location.contains('\0'))
    return fault("the name of the external data file is empty or malformed");
  if (path::is_absolute(location) || location.contains('\\'))
    return fault(quoted + " must be a path relative to the model's folder");
  for (auto it = path::begin(location), end = path::end(location); it != end; ++it)
    if (*it == "..")
      return fault(quoted + " lies outside of the model's folder");

  // The model's folder, and that of the file which a link to it ends at.
  llvm::SmallString<256> absolute(modelPath), real;
  fs::make_absolute(absolute);
  path::remove_dots(absolute, /*remove_dot_dot=*/false);
  if (std::error_code e = fs::real_path(absolute, real))
    return fault("cannot resolve the model's path: " + e.message());
  llvm::SmallString<256> folder(path::parent_path(absolute)), realFolder;
  if (std::error_code e = fs::real_path(folder, realFolder))
    return fault("cannot resolve the model's folder: " + e.message());
  llvm::SmallString<256> targetFolder(path::parent_path(real));

  llvm::SmallString<256> relative(location);
  path::remove_dots(relative);
  std::string blobs = findBlobs(realFolder);
  bool first = true;
  for (llvm::StringRef base : {realFolder.str(), targetFolder.str()}) {
    llvm::SmallString<256> candidate(base), resolved;
    path::append(candidate, relative);
    if (!first && base == realFolder)
      break;
    if (std::error_code e = fs::real_path(candidate, resolved)) {
      if (e != std::errc::no_such_file_or_directory)
        return fault(quoted + ": " + e.message());
      first = false;
      continue;
    }
    if (!isInside(resolved, base) && (blobs.empty() || !isInside(resolved, blobs)))
      return fault(quoted + " is a link that leads outside of the model's folder");
    if (!fs::is_regular_file(resolved))
      return fault(quoted + " is not a regular file");
    exists = true;
    file = first ? std::string(relative) : std::string(candidate);
    dataPath = std::string(resolved);
    return llvm::Error::success();
  }
  exists = false;
  file = std::string(relative);
  path::append(folder, relative);
  dataPath = std::string(folder);
  return llvm::Error::success();
}
