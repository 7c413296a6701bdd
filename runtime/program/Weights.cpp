//===- Weights.cpp - Lookup and checks of weight files --------------------===//

#include "program/Weights.h"
#include "core/ExecutableFile.h"
#include "program/Error.h"
#include "tpc/digest.h"
#include <cstdio>
#include <filesystem>

namespace tpc::rt {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view random = "random:";

/// Returns the paths to search for a file, in order.
std::vector<std::string> candidates(const Manifest &manifest, const WeightFile &file,
                                    const std::string &choice) {
  fs::path name = fs::path(file.path).filename();
  std::error_code ignored;
  // Returns the paths in another folder: the path relative to the model's folder, and the file
  // name.
  auto within = [&](const fs::path &folder) {
    fs::path below =
        fs::path(file.path).lexically_relative(fs::path(manifest.source).parent_path());
    std::vector<std::string> paths = {(folder / name).string()};
    if (!below.empty() && *below.begin() != ".." && below != name)
      paths.insert(paths.begin(), (folder / below).string());
    return paths;
  };
  if (choice.empty()) {
    std::vector<std::string> paths = {file.path};
    if (std::string folder = ownFolder(); !folder.empty())
      for (const std::string &path : within(folder))
        if (path != file.path)
          paths.push_back(path);
    return paths;
  }
  if (fs::is_directory(choice, ignored))
    return within(choice);
  if (manifest.files.size() > 1 && fs::path(choice).filename() != name)
    throw UserError("--weights=" + choice + ": the program reads " +
                    std::to_string(manifest.files.size()) + " weight files ('" +
                    manifest.files[0].path + "', '" + manifest.files[1].path +
                    "', …): give the directory that they are in");
  return {choice};
}

uint64_t parseSeed(const std::string &text) {
  uint64_t seed = 0;
  bool valid = !text.empty();
  for (char c : text)
    valid = valid && c >= '0' && c <= '9' && !__builtin_mul_overflow(seed, 10, &seed) &&
            !__builtin_add_overflow(seed, static_cast<uint64_t>(c - '0'), &seed);
  if (!valid)
    throw UserError("--weights=random:" + text +
                    ": the seed must be an integer from 0 to 2^64 - 1");
  return seed;
}

/// Returns the digest of all bytes.
std::string digestAll(const File &file) {
  auto digest = wholeDigest(0, file.size(), [&](void *to, uint64_t bytes, uint64_t offset) {
    return file.readAt(to, bytes, offset);
  });
  if (!digest)
    throw UserError("weight file '" + file.path() + "' could not be read");
  return *digest;
}

/// Returns the digest of samples of the tensors that the program reads, or nothing if a sample
/// cannot be read.
std::optional<std::string> digestSamples(const Manifest &manifest, int index, const File &file) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Parameter &parameter : manifest.parameters)
    if (parameter.file == index)
      parameter.eachRange(
          [&](int64_t offset, int64_t bytes) { ranges.emplace_back(offset, bytes); });
  return sampleDigest(file.size(), ranges, [&](void *to, uint64_t bytes, uint64_t offset) {
    return file.readAt(to, bytes, offset);
  });
}

/// Returns the digest of samples. Compares it with the compile-time digest; with `readAll`, also
/// compares digests of whole tensors.
std::string check(const Manifest &manifest, int index, const File &file, bool readAll) {
  for (const Parameter &parameter : manifest.parameters) {
    if (parameter.file != index)
      continue;
    parameter.eachRange([&](int64_t offset, int64_t bytes) {
      if (offset + bytes > file.size())
        throw UserError("weight file '" + file.path() + "' is too short: '" + parameter.name +
                        "' ends at byte " + std::to_string(offset + bytes) + ", but the file has " +
                        std::to_string(file.size()));
    });
  }
  const WeightFile &expected = manifest.files[index];
  std::string changed =
      "weight file '" + file.path() + "' is not the one that the program was compiled with ";
  std::string advice = "; recompile, or give its path with --weights=";
  if (expected.bytes && *expected.bytes != file.size())
    throw UserError(changed + "(" + std::to_string(file.size()) + " bytes instead of " +
                    std::to_string(*expected.bytes) + ")" + advice);
  std::optional<std::string> digest = digestSamples(manifest, index, file);
  if (!digest)
    throw UserError("weight file '" + file.path() + "' could not be read");
  if (!expected.digest.empty() && *digest != expected.digest)
    throw UserError(changed + "(the size is the same, but samples of the tensors differ)" + advice);
  if (!readAll)
    return *digest;
  auto read = [&](void *to, uint64_t bytes, uint64_t offset) {
    return file.readAt(to, bytes, offset);
  };
  for (const WeightFile::Tensor &tensor : expected.tensors)
    if (wholeDigest(tensor.offset, tensor.bytes, read) != tensor.digest)
      throw UserError(changed + "(the size and the samples are the same, but '" + tensor.name +
                      "' differs)" + advice);
  return *digest;
}

} // namespace

std::vector<std::string> weightFilesOf(const Manifest &manifest, const std::string &choice) {
  std::vector<std::string> found;
  if (!choice.starts_with(random))
    for (const WeightFile &file : manifest.files)
      for (const std::string &path : candidates(manifest, file, choice))
        if (isReadableFile(path))
          found.push_back(path);
  return found;
}

WeightSources openWeights(const Manifest &manifest, const std::string &choice, bool readAll) {
  WeightSources sources;
  if (choice.starts_with(random)) {
    sources.seed = parseSeed(choice.substr(random.size()));
    sources.identity = "random, seed " + std::to_string(*sources.seed);
    return sources;
  }
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    std::string tried;
    std::unique_ptr<File> file;
    for (const std::string &path : candidates(manifest, manifest.files[i], choice)) {
      if (isReadableFile(path)) {
        file = std::make_unique<File>(path);
        break;
      }
      tried += (tried.empty() ? "'" : " or '") + path + "'";
    }
    if (!file) {
      std::string first;
      for (const Parameter &parameter : manifest.parameters)
        if (parameter.file == static_cast<int>(i) && first.empty())
          first = " (it contains '" + parameter.name + "')";
      throw UserError("there is no readable weight file " + tried + first +
                      "; give its path with --weights=FILE or --weights=DIRECTORY, or run with "
                      "--weights=random:SEED");
    }
    file->watch();
    std::string digest = check(manifest, static_cast<int>(i), *file, readAll);
    sources.digests.push_back(readAll ? digestAll(*file) : digest);
    sources.identity += (i ? " " : "") + (readAll ? "all of it " + sources.digests[i] : digest);
    sources.files.push_back(std::move(file));
  }
  sources.readAll = readAll;
  return sources;
}

void checkUnchanged(const Manifest &manifest, const WeightSources &sources) {
  for (size_t i = 0; i < sources.files.size(); ++i) {
    const File &file = *sources.files[i];
    std::string change = file.change();
    // A writer through a mapping may leave the time stamp unchanged.
    if (change.empty()) {
      std::optional<std::string> digest =
          sources.readAll ? digestAll(file) : digestSamples(manifest, static_cast<int>(i), file);
      if (!digest)
        change = "it can no longer be read";
      else if (*digest != sources.digests[i])
        change = sources.readAll ? "its bytes have changed" : "samples of its tensors have changed";
    }
    if (!change.empty())
      throw UserError(
          "weight file '" + file.path() + "' was changed while it was loaded (" + change +
          "): the loaded weights may mix two versions. Start again when no process writes "
          "to it; to replace the file of a program that runs, write another one and "
          "rename it");
  }
}

} // namespace tpc::rt
