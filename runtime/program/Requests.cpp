//===- Requests.cpp - Input and output files of each step -----------------===//

#include "program/CommandLine.h"
#include "program/Error.h"
#include "program/Weights.h"
#include <algorithm>
#include <filesystem>
#include <set>

namespace tpc::rt {
namespace {

namespace fs = std::filesystem;

/// Returns the only required input, for files without an input name.
std::string soleInput(const Manifest &manifest, const std::string &file) {
  std::string found;
  int needed = 0;
  for (const Port &port : manifest.inputs)
    if (port.fallback == Port::Default::None) {
      found = port.name;
      ++needed;
    }
  if (needed == 0 && manifest.inputs.size() == 1)
    return manifest.inputs[0].name;
  if (needed == 1)
    return found;
  if (manifest.inputs.empty())
    throw UserError("'" + file + "': the program takes no inputs");
  std::string names;
  for (const Port &port : manifest.inputs)
    names += (names.empty() ? "" : ", ") + port.name;
  throw UserError("'" + file +
                  "': input name missing: give --input NAME=FILE.npy (inputs: " + names + ")");
}

/// Returns the request for an entry of a batch: a file, or a folder with NAME.npy for each input.
Request entryOf(const fs::path &path, const Manifest &manifest) {
  Request request;
  request.name = path.stem().string();
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    request.inputs[soleInput(manifest, path.string())] = path.string();
    return request;
  }
  request.name = path.filename().string();
  for (const Port &port : manifest.inputs) {
    fs::path file = path / (port.name + ".npy");
    if (fs::exists(file, ignored))
      request.inputs[port.name] = file.string();
  }
  if (request.inputs.empty())
    throw UserError("folder '" + path.string() + "' has no NAME.npy of any input");
  return request;
}

std::vector<fs::path> sortedEntries(const fs::path &directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().extension() == ".npy" || fs::is_directory(it->path(), ignored))
      entries.push_back(it->path());
  }
  if (error)
    throw UserError("cannot read directory '" + directory.string() + "': " + error.message());
  if (entries.empty())
    throw UserError("directory '" + directory.string() + "' has no .npy files and no folders");
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// Sets the output paths of a batch entry. The writer creates the directories.
void addOutputs(Request &request, const Options &options, const Manifest &manifest) {
  for (const auto &[name, directory] : options.outputs)
    request.outputs[name] = (fs::path(directory) / (request.name + ".npy")).string();
  if (options.outputAnywhere.empty())
    return;
  for (const Port &port : manifest.outputs) {
    std::string file =
        request.name + (manifest.outputs.size() == 1 ? "" : "." + port.name) + ".npy";
    request.outputs.emplace(port.name, (fs::path(options.outputAnywhere) / file).string());
  }
}

std::vector<Request> batchOf(const Options &options, const Manifest &manifest) {
  if (!options.inputs.empty())
    throw UserError(
        "--input cannot be combined with a batch: put all inputs of a step in a folder");
  if (options.outputs.empty() && options.outputAnywhere.empty())
    throw UserError("a batch needs --output DIRECTORY");
  std::vector<Request> requests;
  std::set<std::string> names;
  for (const std::string &text : options.positional) {
    std::error_code ignored;
    std::vector<fs::path> entries = {text};
    if (fs::is_directory(text, ignored))
      entries = sortedEntries(text);
    for (const fs::path &entry : entries) {
      requests.push_back(entryOf(entry, manifest));
      if (!names.insert(requests.back().name).second)
        throw UserError("two inputs are named '" + requests.back().name +
                        "': their outputs would overwrite each other");
      addOutputs(requests.back(), options, manifest);
    }
  }
  return requests;
}

Request singleRequest(const Options &options, const Manifest &manifest) {
  Request request;
  request.inputs = options.inputs;
  request.outputs = options.outputs;
  if (!options.positional.empty()) {
    const std::string &file = options.positional[0];
    if (!request.inputs.emplace(soleInput(manifest, file), file).second)
      throw UserError("'" + file + "': that input is given twice");
  }
  if (!options.outputAnywhere.empty()) {
    if (manifest.outputs.size() != 1)
      throw UserError("--output " + options.outputAnywhere +
                      ": output name missing: give --output NAME=FILE.npy");
    if (!request.outputs.emplace(manifest.outputs[0].name, options.outputAnywhere).second)
      throw UserError("--output: '" + manifest.outputs[0].name + "' is given twice");
  }
  return request;
}

} // namespace

// A device file may be both input and output.
void checkOverwriting(const std::vector<Request> &requests, const Options &options,
                      const Manifest &manifest) {
  std::vector<std::pair<std::string, std::string>> read = {
      {"the program itself", "/proc/self/exe"}};
  for (const std::string &path : weightFilesOf(manifest, options.weights))
    read.emplace_back("a weight file", path);
  for (const Request &request : requests)
    for (const auto &[name, path] : request.inputs)
      read.emplace_back("input '" + name + "'", path);
  std::set<fs::path> written;
  for (const Request &request : requests)
    for (const auto &[name, path] : request.outputs) {
      std::error_code ignored;
      if (!fs::exists(path, ignored) || fs::is_regular_file(path, ignored)) {
        // For a file that does not exist yet, compares the absolute path only.
        fs::path target = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
        if (!written.insert(target.empty() ? fs::path(path) : target).second)
          throw UserError("--output: two outputs are written to '" + path + "'");
      }
      if (!fs::is_regular_file(path, ignored))
        continue;
      for (const auto &[what, other] : read)
        if (fs::equivalent(path, other, ignored))
          throw UserError("output '" + name + "' would overwrite " + what + " ('" + path +
                          "'): give another file");
    }
}

std::vector<Request> requestsOf(const Options &options, const Manifest &manifest) {
  std::vector<Request> requests;
  if (options.isBatch)
    requests = batchOf(options, manifest);
  else
    requests.push_back(singleRequest(options, manifest));
  checkOverwriting(requests, options, manifest);
  return requests;
}

} // namespace tpc::rt
