//===- Safetensors.cpp - Headers of safetensors files ---------------------===//

#include "Safetensors.h"

#include "Json.h"
#include "tpc/Import/ONNX/TensorSource.h"
#include "tpc/Support/ReadFile.h"
#include "tpc/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir::tpc::frontend;
using llvm::StringRef;
using llvm::Twine;
using ::tpc::printable;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// Limit of the safetensors library.
static constexpr uint64_t kMaxHeader = 100'000'000;

static constexpr StringRef kSuffix = ".safetensors", kIndexSuffix = ".safetensors.index.json";

/// Returns the bits of an element, or 0 for a type that safetensors does not define.
static int64_t getBits(StringRef dtype) {
  return llvm::StringSwitch<int64_t>(dtype)
      .Case("F4", 4)
      .Cases({"F6_E2M3", "F6_E3M2"}, 6)
      .Cases({"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"}, 8)
      .Cases({"U16", "I16", "F16", "BF16"}, 16)
      .Cases({"U32", "I32", "F32"}, 32)
      .Cases({"U64", "I64", "F64", "C64"}, 64)
      .Default(0);
}

/// Reads the entry of a tensor. `data`: bytes of the file after its header. Sets the offset
/// relative to the end of the header. Returns the reason if the entry is malformed.
static std::string readEntry(const Json &entry, uint64_t data, StoredTensor &tensor) {
  if (entry.kind != Json::Object)
    return "has no dtype, shape and data_offsets";
  const Json *dtype = entry.find("dtype"), *shape = entry.find("shape"),
             *offsets = entry.find("data_offsets");
  if (!dtype || dtype->kind != Json::String)
    return "has no dtype";
  tensor.dtype = dtype->text;
  int64_t bits = getBits(tensor.dtype);
  if (!bits)
    return "has dtype '" + printable(tensor.dtype) + "', which safetensors does not define";
  if (!shape || shape->kind != Json::Array || shape->items.size() > 32)
    return "has no shape of at most 32 dimensions";
  int64_t total = bits;
  for (const Json &item : shape->items) {
    std::optional<int64_t> size = item.asSize();
    if (!size)
      return "has size '" + printable(item.text) + "' in its shape";
    if (__builtin_mul_overflow(total, *size, &total))
      return "is too large";
    tensor.shape.push_back(*size);
  }
  if (!offsets || offsets->kind != Json::Array || offsets->items.size() != 2)
    return "has no data_offsets of two numbers";
  std::optional<int64_t> begin = offsets->items[0].asSize(), end = offsets->items[1].asSize();
  if (!begin || !end || *begin > *end)
    return "has malformed data_offsets";
  if (uint64_t(*end) > data)
    return "needs bytes " + std::to_string(*begin) + " to " + std::to_string(*end) +
           " of the data, which has " + std::to_string(data) + " (is the file truncated?)";
  if (total % 8 || *end - *begin != total / 8)
    return "needs " + std::to_string(llvm::divideCeil(uint64_t(total), 8)) +
           " bytes, but its data_offsets span " + std::to_string(*end - *begin);
  tensor.offset = *begin;
  tensor.bytes = *end - *begin;
  return "";
}

llvm::Error mlir::tpc::frontend::readSafetensors(StringRef file, Checkpoint &tensors) {
  auto fault = [&](const Twine &what) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "'" + printable(file) + "' " + what);
  };
  uint64_t size = 0;
  if (std::error_code e = fs::file_size(file, size))
    return fault("cannot be read: " + e.message());
  if (::tpc::isLfsPointer(file.str()))
    return fault("is a pointer of Git LFS: run `git lfs pull` in its folder");
  if (size < 8)
    return fault("is not a safetensors file: it has " + Twine(size) + " bytes");
  auto readSlice = [&](uint64_t bytes, uint64_t offset) {
    return llvm::MemoryBuffer::getFileSlice(file, bytes, offset, /*IsVolatile=*/true);
  };
  auto prefix = readSlice(8, 0);
  if (!prefix)
    return fault("cannot be read: " + prefix.getError().message());
  uint64_t length = llvm::support::endian::read64le((*prefix)->getBufferStart());
  if (length > kMaxHeader)
    return fault("is not a safetensors file: its header would have " + Twine(length) +
                 " bytes, more than " + Twine(kMaxHeader));
  if (length > size - 8)
    return fault("has a header of " + Twine(length) + " bytes, but only " + Twine(size - 8) +
                 " bytes follow (is the file truncated?)");
  auto text = readSlice(length, 8);
  if (!text)
    return fault("cannot be read: " + text.getError().message());
  llvm::Expected<Json> header = parseJson((*text)->getBuffer());
  if (!header)
    return fault("has a malformed header: " + llvm::toString(header.takeError()));
  if (header->kind != Json::Object)
    return fault("has a malformed header: it is not an object");

  uint64_t begin = 8 + length;
  std::vector<std::pair<std::string, StoredTensor>> found;
  for (const auto &[name, entry] : llvm::zip(header->names, header->items)) {
    if (name == "__metadata__")
      continue;
    StoredTensor tensor;
    if (std::string why = readEntry(entry, size - begin, tensor); !why.empty())
      return fault("is malformed: tensor '" + printable(name) + "' " + why);
    tensor.file = file.str();
    tensor.offset += begin;
    found.emplace_back(name, std::move(tensor));
  }
  llvm::sort(found, [](const auto &a, const auto &b) {
    return std::tie(a.second.offset, a.second.bytes) < std::tie(b.second.offset, b.second.bytes);
  });
  for (size_t i = 1; i < found.size(); ++i)
    if (found[i - 1].second.offset + found[i - 1].second.bytes > found[i].second.offset)
      return fault("is malformed: the bytes of '" + printable(found[i - 1].first) + "' and '" +
                   printable(found[i].first) + "' overlap");
  for (auto &[name, tensor] : found)
    if (auto [it, isNew] = tensors.try_emplace(name, std::move(tensor)); !isNew)
      return fault("has tensor '" + printable(name) + "', and so has '" +
                   printable(it->second.file) + "'");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

static llvm::Error flagFault(StringRef weights, const Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "--weights=" + printable(weights) + what);
}

/// Returns the snapshot of `main` in the root of a repository of a Hugging Face cache; otherwise
/// the folder itself.
static std::string findSnapshot(StringRef folder) {
  llvm::SmallString<256> reference(folder), snapshot(folder);
  path::append(reference, "refs", "main");
  path::append(snapshot, "snapshots");
  std::string revision;
  if (!fs::is_directory(snapshot) || !fs::is_regular_file(reference) ||
      !::tpc::readFile(std::string(reference), 256, revision).empty())
    return folder.str();
  StringRef name = StringRef(revision).trim();
  if (name.empty() || name.starts_with(".") || name.contains('/') || name.contains('\0'))
    return folder.str();
  path::append(snapshot, name);
  return fs::is_directory(snapshot) ? std::string(snapshot) : folder.str();
}

llvm::Expected<std::string> mlir::tpc::frontend::findCheckpoint(StringRef weights) {
  llvm::SmallString<256> absolute(weights);
  if (weights.empty() || fs::make_absolute(absolute))
    return "";
  if (!fs::is_directory(absolute)) {
    bool isCheckpoint = weights.ends_with(kSuffix) || weights.ends_with(kIndexSuffix);
    return isCheckpoint && fs::exists(absolute) ? std::string(absolute) : "";
  }
  std::string folder = findSnapshot(absolute);
  std::vector<std::string> files, indices;
  std::error_code e;
  for (fs::directory_iterator it(folder, e), end; it != end && !e; it.increment(e)) {
    StringRef file = it->path();
    if (path::filename(file) == "model.safetensors")
      return file.str();
    if (file.ends_with(kIndexSuffix))
      indices.push_back(file.str());
    else if (file.ends_with(kSuffix))
      files.push_back(file.str());
  }
  if (e)
    return flagFault(weights, ": " + e.message());
  std::vector<std::string> &lists = indices.empty() ? files : indices;
  if (lists.size() < 2)
    return lists.empty() ? "" : lists[0];
  llvm::sort(lists);
  return flagFault(weights, " has several checkpoints, '" + printable(path::filename(lists[0])) +
                                "' and '" + printable(path::filename(lists[1])) +
                                "': name one of these files");
}

/// Reads an index: `{"weight_map": {"wte.weight": "model-00001-of-00002.safetensors"}}`.
static llvm::Error readIndex(StringRef file, Checkpoint &tensors) {
  auto fault = [&](const Twine &what) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "'" + printable(file) + "' " + what);
  };
  std::string text;
  if (std::string why = ::tpc::readFile(file.str(), kMaxHeader, text); !why.empty())
    return fault("cannot be read: " + why);
  llvm::Expected<Json> index = parseJson(text);
  if (!index)
    return fault("is malformed: " + llvm::toString(index.takeError()));
  const Json *map = index->find("weight_map");
  if (!map || map->kind != Json::Object)
    return fault("is malformed: it has no weight_map");
  std::map<std::string, Checkpoint> shards;
  for (const auto &[name, shard] : llvm::zip(map->names, map->items)) {
    if (shard.kind != Json::String)
      return fault("is malformed: tensor '" + printable(name) + "' has no file name");
    auto [it, isNew] = shards.try_emplace(shard.text);
    if (isNew) {
      std::string path;
      if (llvm::Error e = resolveInFolder(path::parent_path(file), shard.text, path))
        return fault("names a file that cannot be used: " + llvm::toString(std::move(e)));
      if (llvm::Error e = readSafetensors(path, it->second))
        return e;
    }
    auto found = it->second.find(name);
    if (found == it->second.end())
      return fault("lists tensor '" + printable(name) + "' in '" + printable(shard.text) +
                   "', which does not have it");
    tensors.insert(*found);
  }
  return llvm::Error::success();
}

llvm::Expected<Checkpoint> mlir::tpc::frontend::readCheckpoint(StringRef file) {
  Checkpoint tensors;
  llvm::Error e =
      file.ends_with(kIndexSuffix) ? readIndex(file, tensors) : readSafetensors(file, tensors);
  if (e)
    return e;
  return tensors;
}
