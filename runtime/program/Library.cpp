//===- Library.cpp - C interface of a loaded program ----------------------===//
//
// Implements tpc/session.h with Model.h. Linked into the compiler's output, which defines the
// program.
//
//===----------------------------------------------------------------------===//

#include "program/Library.h"
#include "program/Describe.h"
#include "program/Setup.h"
#include "tpc/printable.h"
#include <algorithm>
#include <cstring>
#include <set>

using namespace tpc::rt;

// Test programs link the whole runtime without a program.
#pragma weak tpc_program_v7

namespace {

/// Results for the user, with the tensors that they refer to.
struct Results : tpc_results {
  std::vector<Tensor> owned;
  std::vector<tpc_tensor> views;
};

std::string &lastError() {
  static thread_local std::string text;
  return text;
}

/// Borrows the tensor's memory, unless its alignment is unsuitable.
Tensor tensorOf(const tpc_tensor &given, const std::string &name) {
  auto refuse = [&](const std::string &why) { throw UserError("input '" + name + "': " + why); };
  if (given.dtype < TPC_F32 || given.dtype > TPC_U8)
    refuse("there is no dtype " + std::to_string(given.dtype));
  if (given.rank < 0 || (given.rank > 0 && !given.shape))
    refuse("no shape is given");
  Tensor tensor;
  tensor.dtype = given.dtype;
  if (given.rank > 0)
    tensor.shape.assign(given.shape, given.shape + given.rank);
  std::optional<int64_t> bytes = byteCount(tensor.shape, tensor.dtype);
  if (!bytes)
    refuse("the shape " + shapeText(tensor.shape) + " is not valid");
  if (!given.data && *bytes)
    refuse("no data is given");
  bool isAligned = reinterpret_cast<uintptr_t>(given.data) % dtypeBytes(given.dtype) == 0;
  if (given.data && isAligned) {
    tensor.data = Buffer::borrow(given.data, *bytes);
    return tensor;
  }
  tensor.data = Buffer(*bytes);
  if (*bytes)
    std::memcpy(tensor.data.data(), given.data, static_cast<size_t>(*bytes));
  return tensor;
}

Results *resultsOf(std::vector<Tensor> outputs, const Manifest &manifest) {
  auto results = std::make_unique<Results>();
  results->owned = std::move(outputs);
  for (size_t i = 0; i < results->owned.size(); ++i) {
    const Tensor &tensor = results->owned[i];
    results->views.push_back({manifest.outputs[i].name.c_str(), tensor.dtype,
                              static_cast<int32_t>(tensor.shape.size()), tensor.shape.data(),
                              tensor.data.data()});
  }
  results->count = static_cast<int32_t>(results->views.size());
  results->tensors = results->views.data();
  return results.release();
}

} // namespace

int tpc::rt::keepError(int status, const char *message) {
  lastError() = printable(message, /*lines=*/true);
  return status;
}

const Manifest &tpc::rt::manifestOfProgram() {
  static const auto *manifest = new Manifest(readManifest(tpc_program_v7));
  return *manifest;
}

Model &tpc::rt::usable(tpc_model *handle) {
  require(handle, "the model");
  if (handle->model.hasForked())
    throw UserError("the model was opened by another process, before a fork: open it in this one");
  return handle->model;
}

extern "C" {

int tpc_session_version(void) { return TPC_SESSION_VERSION; }

const char *tpc_last_error(void) { return lastError().c_str(); }

const char *tpc_describe(void) {
  const char *text = nullptr;
  guarded([&] {
    static const auto *description = new std::string(describeJson(manifestOfProgram()));
    text = description->c_str();
  });
  return text;
}

int tpc_model_open(int32_t count, const char *const *flags, tpc_model **model) {
  return guarded([&] {
    require(model, "the pointer for the model");
    *model = nullptr;
    std::vector<std::string> texts;
    for (int32_t i = 0; i < count; ++i) {
      require(flags, "the list of flags");
      require(flags[i], "a flag");
      texts.emplace_back(flags[i]);
    }
    *model = new tpc_model{{tpc_program_v7, manifestOfProgram(), texts}, ""};
  });
}

void tpc_model_close(tpc_model *model) {
  // Threads of another process cannot be joined.
  if (model && !model->model.hasForked())
    guarded([&] { delete model; });
}

const char *tpc_model_notes(tpc_model *model) {
  const char *text = "";
  guarded([&] {
    std::string lines;
    for (const std::string &line : usable(model).notes())
      lines += line + "\n";
    model->notes = lines;
    text = model->notes.c_str();
  });
  return text;
}

int tpc_model_run(tpc_model *model, const tpc_tensor *inputs, int32_t count,
                  tpc_results **results) {
  return guarded([&] {
    require(results, "the pointer for the results");
    *results = nullptr;
    Model &opened = usable(model);
    std::vector<std::string> names;
    std::set<std::string> once;
    for (int32_t i = 0; i < count; ++i) {
      require(inputs, "the list of inputs");
      require(inputs[i].name, "the name of an input");
      names.push_back(tpc::printable(inputs[i].name));
      if (!once.insert(names.back()).second)
        throw UserError("input '" + names.back() + "' is given twice");
    }
    auto take = [&](const Port &port) {
      size_t index = std::find(names.begin(), names.end(), port.name) - names.begin();
      return Given{"the given tensor", tensorOf(inputs[index], port.name)};
    };
    const Manifest &manifest = manifestOfProgram();
    *results = resultsOf(manifest.generation ? runPrompts(opened, manifest, names, take)
                                             : opened.run(names, take),
                         manifest);
  });
}

void tpc_results_free(tpc_results *results) { delete static_cast<Results *>(results); }

} // extern "C"
