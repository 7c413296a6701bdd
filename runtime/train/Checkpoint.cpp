//===- Checkpoint.cpp - Checkpoints of training runs ----------------------===//

#include "train/Checkpoint.h"
#include "core/Context.h"
#include "program/Error.h"
#include "program/File.h"
#include "program/View.h"
#include "tpc/digest.h"
#include "train/NumberSearch.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

namespace tpc::rt {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

[[noreturn]] void failToWrite(const std::string &path) {
  int error = errno;
  throw UserError("cannot write checkpoint file '" + path + "': " + std::strerror(error));
}

/// A file that is written in pieces and then flushed to disk.
class DiskFile {
public:
  explicit DiskFile(const std::string &path)
      : path(path), fd(open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666)) {
    if (fd < 0)
      failToWrite(path);
  }
  ~DiskFile() {
    if (fd >= 0)
      close(fd);
  }
  DiskFile(const DiskFile &) = delete;
  DiskFile &operator=(const DiskFile &) = delete;

  void write(const void *data, size_t bytes) {
    const auto *at = static_cast<const char *>(data);
    while (bytes > 0) {
      ssize_t done = ::write(fd, at, bytes);
      if (done < 0 && errno == EINTR)
        continue;
      if (done < 0)
        failToWrite(path);
      at += done;
      bytes -= static_cast<size_t>(done);
    }
  }
  void finish() {
    if (fsync(fd) != 0 || close(std::exchange(fd, -1)) != 0)
      failToWrite(path);
  }

private:
  const std::string path;
  int fd;
};

void flushFolder(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    failToWrite(path);
  int result = fsync(fd);
  close(fd);
  if (result != 0)
    failToWrite(path);
}

std::string nameOfStep(int64_t step) { return "step-" + std::to_string(step); }
std::string nameOfRank(int rank) { return "rank-" + std::to_string(rank) + ".safetensors"; }

/// Key of a parameter in a file: its name, and the offset of its view if there are several views.
std::string keyOf(const Parameter &parameter) {
  return parameter.name +
         (parameter.viewOffset ? ".at" + std::to_string(parameter.viewOffset) : "");
}

/// A parameter that checkpoints contain, on one rank.
struct Shard {
  int index;
  std::string key;
  LocalView view;
  int64_t bytes;
};

std::vector<Shard> shardsOf(const Manifest &manifest, int rank) {
  std::vector<Shard> shards;
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    const Parameter &parameter = manifest.parameters[i];
    if (!parameter.isUpdated || parameter.sameAs >= 0 || parameter.stage != manifest.stageOf(rank))
      continue;
    LocalView view = localView(parameter, manifest.grid, manifest.grid.coordinatesOf(rank));
    int64_t bytes = *byteCount(view.shape(), parameter.dtype);
    shards.push_back({static_cast<int>(i), keyOf(parameter), std::move(view), bytes});
  }
  return shards;
}

/// Describes the shards of a rank: their types, sizes and positions. Equal for equal programs.
json describeShards(const Manifest &manifest, const std::vector<Shard> &shards) {
  json result = json::array();
  for (const Shard &shard : shards) {
    const Parameter &parameter = manifest.parameters[static_cast<size_t>(shard.index)];
    json factors = json::array();
    for (const auto &dim : shard.view.dims)
      for (const ViewFactor &factor : dim)
        factors.push_back(factor.offsets.empty()
                              ? json{{"size", factor.size}, {"stride", factor.stride}}
                              : json{{"size", factor.size}, {"offsets", factor.offsets}});
    result.push_back({{"key", shard.key},
                      {"name", parameter.name},
                      {"dtype", dtypeName(parameter.dtype)},
                      {"is_weight", parameter.file >= 0},
                      {"shape", parameter.sourceShape},
                      {"offset", shard.view.offset},
                      {"factors", std::move(factors)}});
  }
  return result;
}

std::string describeGrid(const Manifest &manifest) {
  std::string text;
  for (const Grid::Axis &axis : manifest.grid.axes())
    text += (text.empty() ? "" : ",") + axis.name + std::to_string(axis.size);
  return text;
}

/// Header of a safetensors file: its length in 8 bytes, and JSON, padded with blanks.
std::string headerOf(const Manifest &manifest, const std::vector<Shard> &shards) {
  json header = json::object();
  int64_t at = 0;
  for (const Shard &shard : shards) {
    std::string type = dtypeName(manifest.parameters[static_cast<size_t>(shard.index)].dtype);
    std::transform(type.begin(), type.end(), type.begin(), [](char c) { return std::toupper(c); });
    header[shard.key] = {
        {"dtype", type}, {"shape", shard.view.shape()}, {"data_offsets", {at, at + shard.bytes}}};
    at += shard.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  return length + text;
}

std::string digestOf(const std::string &path) {
  File file(path);
  auto digest = wholeDigest(
      0, static_cast<uint64_t>(file.size()),
      [&](void *to, uint64_t bytes, uint64_t offset) { return file.readAt(to, bytes, offset); });
  if (!digest)
    throw UserError("checkpoint file '" + path + "' cannot be read");
  return *digest;
}

/// Runs `work` on the ranks of this process. Returns the message of the first error.
std::string onRanks(Execution &execution, const std::function<void(tpc_context &)> &work) {
  std::string problem;
  std::mutex mutex;
  execution.each([&](tpc_context &ctx) {
    try {
      work(ctx);
    } catch (const UserError &error) {
      std::lock_guard lock(mutex);
      if (problem.empty())
        problem = error.what();
    } catch (const std::exception &error) {
      std::lock_guard lock(mutex);
      if (problem.empty())
        problem = std::string("checkpoint: ") + error.what();
    }
  });
  return problem;
}

void throwIf(const std::string &problem) {
  if (!problem.empty())
    throw UserError(problem);
}

void writeRank(tpc_context &ctx, const Manifest &manifest, const std::string &path) {
  std::vector<Shard> shards = shardsOf(manifest, ctx.rank);
  DiskFile file(path);
  std::string header = headerOf(manifest, shards);
  file.write(header.data(), header.size());
  for (const Shard &shard : shards) {
    if (shard.bytes == 0)
      continue;
    const auto *from =
        static_cast<const std::byte *>(ctx.data.parameters[static_cast<size_t>(shard.index)]);
    const Parameter &parameter = manifest.parameters[static_cast<size_t>(shard.index)];
    for (int64_t done = 0, count; done < shard.bytes; done += count) {
      count = std::min(shard.bytes - done, ctx.device->writeBytes());
      Reading elements(*ctx.device, from + done, count);
      if (findNonFinite(elements.data, count / dtypeBytes(parameter.dtype), parameter.dtype) >= 0)
        throw UserError("parameter '" + shard.key +
                        "' has NaN or infinity after its update, so the step is not saved; a "
                        "smaller --lr may help");
      file.write(elements.data, static_cast<size_t>(count));
    }
  }
  file.finish();
}

/// Checks the file of a rank against the index and the program. Throws UserError.
void checkRank(tpc_context &ctx, const Manifest &manifest, const std::string &folder,
               const json &index) {
  std::string path = folder + "/" + nameOfRank(ctx.rank);
  std::vector<Shard> shards = shardsOf(manifest, ctx.rank);
  if (index.at("grid") != describeGrid(manifest))
    throw UserError("checkpoint '" + folder + "' is of the grid " +
                    index.at("grid").get<std::string>() + ", but the program has " +
                    describeGrid(manifest) +
                    "; export its weights with python -m tpc.checkpoint, and start from them");
  const json &entry = index.at("ranks").at(static_cast<size_t>(ctx.rank));
  if (entry.at("tensors") != describeShards(manifest, shards))
    throw UserError("checkpoint '" + folder +
                    "' is of another model or optimizer: its tensors "
                    "are not those of the program");
  if (digestOf(path) != entry.at("digest").get<std::string>())
    throw UserError("checkpoint file '" + path +
                    "' is damaged: its bytes are not those that were saved; remove '" + folder +
                    "' to resume from the checkpoint before it");
}

void readRank(tpc_context &ctx, const Manifest &manifest, const std::string &folder) {
  std::string path = folder + "/" + nameOfRank(ctx.rank);
  std::vector<Shard> shards = shardsOf(manifest, ctx.rank);
  File file(path);
  std::string header = headerOf(manifest, shards);
  auto at = static_cast<uint64_t>(header.size());
  for (const Shard &shard : shards) {
    // The context has pointers to const, because steps that do not train only read parameters.
    auto *to = static_cast<std::byte *>(
        const_cast<void *>(ctx.data.parameters[static_cast<size_t>(shard.index)]));
    int64_t step = std::max<int64_t>(ctx.device->writeBytes(), 1);
    for (int64_t done = 0; done < shard.bytes; done += step) {
      int64_t count = std::min(step, shard.bytes - done);
      std::byte *staged = ctx.device->beginWrite(to + done, count);
      bool isRead = file.readAt(staged, static_cast<uint64_t>(count), at);
      ctx.device->endWrite();
      if (!isRead)
        throw UserError("checkpoint file '" + path + "' cannot be read");
      at += static_cast<uint64_t>(count);
    }
  }
}

/// Returns the folder of the last complete checkpoint.
std::string findLast(const std::string &folder) {
  std::error_code error;
  int64_t last = -1;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || name.size() > 20 ||
        name.find_first_not_of("0123456789", 5) != std::string::npos || name.size() == 5)
      continue;
    last = std::max<int64_t>(last, std::stoll(name.substr(5)));
  }
  if (error)
    throw UserError("checkpoints '" + folder + "': " + error.message());
  if (last < 0)
    throw UserError("checkpoints '" + folder + "': there is no checkpoint step-N in this folder");
  return folder + "/" + nameOfStep(last);
}

json readIndex(const std::string &folder) {
  std::ifstream file(folder + "/index.json");
  json index = json::parse(file, nullptr, /*allow_exceptions=*/false);
  bool isValid = index.is_object() && index.value("format", 0) == 1 && index.contains("ranks") &&
                 index["ranks"].is_array();
  if (!isValid)
    throw UserError("checkpoint '" + folder +
                    "' is damaged: index.json is missing or not an index");
  return index;
}

} // namespace

void saveCheckpoint(Execution &execution, const Manifest &manifest, const std::string &folder,
                    const TrainingState &state) {
  std::string partial = folder + "/." + nameOfStep(state.step) + ".partial",
              complete = folder + "/" + nameOfStep(state.step);
  Session *session = execution.session();
  std::error_code error;
  agreeOn(session, [&] {
    if (!execution.isRankZero())
      return;
    fs::remove_all(partial, error);
    fs::create_directories(partial, error);
    if (error)
      throw UserError("cannot make checkpoint folder '" + partial + "': " + error.message());
  });
  try {
    agreeOn(session, [&] {
      throwIf(onRanks(execution, [&](tpc_context &ctx) {
        writeRank(ctx, manifest, partial + "/" + nameOfRank(ctx.rank));
      }));
    });
    agreeOn(session, [&] {
      if (!execution.isRankZero())
        return;
      json ranks = json::array();
      for (int rank = 0; rank < manifest.grid.numRanks(); ++rank) {
        ranks.push_back({{"file", nameOfRank(rank)},
                         {"digest", digestOf(partial + "/" + nameOfRank(rank))},
                         {"tensors", describeShards(manifest, shardsOf(manifest, rank))}});
      }
      json index = {{"format", 1},
                    {"step", state.step},
                    {"batch", state.batch},
                    {"sequence", state.sequence},
                    {"seed", state.seed},
                    {"tokens", state.tokens},
                    {"loss_scale", state.scale.value},
                    {"loss_scale_steps", state.scale.steps},
                    {"skipped", state.scale.skipped},
                    {"optimizer", manifest.training->optimizer},
                    {"grid", describeGrid(manifest)},
                    {"ranks", std::move(ranks)}};
      std::string text = index.dump(1) + "\n";
      DiskFile file(partial + "/index.json");
      file.write(text.data(), text.size());
      file.finish();
      flushFolder(partial);
      fs::remove_all(complete, error); // of an earlier run
      if (rename(partial.c_str(), complete.c_str()) != 0)
        failToWrite(complete);
      flushFolder(folder);
    });
  } catch (...) {
    if (execution.isRankZero())
      fs::remove_all(partial, error);
    throw;
  }
}

TrainingState loadCheckpoint(Execution &execution, const Manifest &manifest,
                             const std::string &folder) {
  TrainingState state;
  agreeOn(execution.session(), [&] {
    std::string last = findLast(folder);
    json index = readIndex(last);
    try {
      state = {index.at("step").get<int64_t>(),     index.at("batch").get<int64_t>(),
               index.at("sequence").get<int64_t>(), index.at("seed").get<uint64_t>(),
               index.at("tokens").get<int64_t>(),   {}};
      state.scale.value = index.value("loss_scale", state.scale.value);
      state.scale.steps = index.value("loss_scale_steps", int64_t(0));
      state.scale.skipped = index.value("skipped", int64_t(0));
    } catch (const json::exception &error) {
      throw UserError("checkpoint '" + last + "' is damaged: " + error.what());
    }
    // All files are checked before the first is loaded, so that an error changes no rank.
    throwIf(onRanks(execution, [&](tpc_context &ctx) { checkRank(ctx, manifest, last, index); }));
    throwIf(onRanks(execution, [&](tpc_context &ctx) { readRank(ctx, manifest, last); }));
  });
  return state;
}

} // namespace tpc::rt
