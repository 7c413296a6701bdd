//===- ExternalData.cpp - External data files of a model ------------------===//

#include "tpc/Dialect/MakeError.h"
#include "tpc/Import/ONNX/TensorSource.h"
#include "tpc/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir::tpc::frontend;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;
using mlir::tpc::makeError;

static bool isInside(llvm::StringRef file, llvm::StringRef folder) {
  return file.consume_front(folder) && (folder.ends_with("/") || file.starts_with("/"));
}

/// Returns the `blobs` folder of the Hugging Face cache if `folder` (a real path) is one of its
/// snapshots. Returns an empty string otherwise.
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

/// Returns true if a relative path cannot refer to a file outside of its folder.
static bool staysBelow(llvm::StringRef location) {
  return !path::is_absolute(location) && !location.contains('\\') &&
         !llvm::is_contained(llvm::make_range(path::begin(location), path::end(location)), "..");
}

llvm::Error mlir::tpc::frontend::resolveInFolder(llvm::StringRef folder, llvm::StringRef relative,
                                                 std::string &file) {
  llvm::SmallString<256> real, candidate, resolved, clean(relative);
  if (std::error_code e = fs::real_path(folder, real))
    return makeError("'" + folder + "': " + e.message());
  path::remove_dots(clean);
  candidate = real;
  path::append(candidate, clean);
  if (!staysBelow(relative) || clean.empty() || relative.contains('\0'))
    return makeError("'" + ::tpc::printable(relative) + "' is not a path below '" + folder + "'");
  if (std::error_code e = fs::real_path(candidate, resolved))
    return makeError("'" + ::tpc::printable(candidate.str()) + "': " + e.message());
  std::string blobs = findBlobs(real);
  bool isBlob = !blobs.empty() && isInside(resolved, blobs);
  if (!isInside(resolved, real) && !isBlob)
    return makeError("'" + candidate + "' is a link that leads out of '" + folder +
                     "'; name the file, --weights=" + resolved);
  if (!fs::is_regular_file(resolved))
    return makeError("'" + candidate + "' is not a regular file");
  // The executable searches for the file's name, which a blob does not have.
  file = std::string(isBlob ? candidate : resolved);
  return llvm::Error::success();
}

/// Resolves `location` in --weights. If it names a folder, tries the relative path and then only
/// the file name; if it names a file, uses that file. The path in the flag is trusted, but links in
/// the folder to files outside of it are not.
static llvm::Error resolveAt(llvm::StringRef weights, llvm::StringRef location, std::string &file) {
  llvm::SmallString<256> real;
  if (std::error_code e = fs::real_path(weights, real))
    return makeError("--weights=" + weights + ": " + e.message());
  if (fs::is_regular_file(real)) {
    file = std::string(real);
    return llvm::Error::success();
  }
  if (!fs::is_directory(real))
    return makeError("--weights=" + weights + " is neither a file nor a folder");
  for (llvm::StringRef below : {location, path::filename(location)}) {
    llvm::SmallString<256> candidate(real);
    path::append(candidate, below);
    if (staysBelow(below) && fs::exists(candidate))
      return resolveInFolder(weights, below, file);
  }
  return makeError("--weights=" + weights + " has no data file '" + location + "'");
}

llvm::Error mlir::tpc::frontend::resolveDataFile(llvm::StringRef modelPath,
                                                 llvm::StringRef location, std::string &file,
                                                 std::string &dataPath, bool &exists,
                                                 llvm::StringRef weights) {
  std::string quoted = "external data file '" + location.str() + "'";
  if (location.empty() || location.contains('\0'))
    return makeError("the name of the external data file is empty or malformed");
  if (!weights.empty()) {
    if (llvm::Error e = resolveAt(weights, location, file))
      return e;
    dataPath = file;
    exists = true;
    return llvm::Error::success();
  }
  constexpr llvm::StringLiteral advice = "; if you trust the file, pass its location with tpcc's "
                                         "--weights=FILE or --weights=FOLDER";
  if (path::is_absolute(location) || location.contains('\\'))
    return makeError(quoted + " must be a path relative to the model's folder" + advice);
  if (!staysBelow(location))
    return makeError(quoted + " is outside of the model's folder" + advice);

  // Folder of the model's path, and folder of the file that a link resolves to.
  llvm::SmallString<256> absolute(modelPath), real;
  fs::make_absolute(absolute);
  path::remove_dots(absolute, /*remove_dot_dot=*/false);
  if (std::error_code e = fs::real_path(absolute, real))
    return makeError("cannot resolve the model's path: " + e.message());
  llvm::SmallString<256> folder(path::parent_path(absolute)), realFolder;
  if (std::error_code e = fs::real_path(folder, realFolder))
    return makeError("cannot resolve the model's folder: " + e.message());
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
        return makeError(quoted + ": " + e.message());
      first = false;
      continue;
    }
    if (!isInside(resolved, base) && (blobs.empty() || !isInside(resolved, blobs)))
      return makeError(quoted + " is a link that leads outside of the model's folder, to '" +
                       resolved + "'" + advice);
    if (!fs::is_regular_file(resolved))
      return makeError(quoted + " is not a regular file");
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
