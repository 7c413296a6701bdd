//===- NumberSearch.cpp - First op with numbers that are not finite -------===//

#include "train/NumberSearch.h"
#include "core/Context.h"
#include "core/Device.h"
#include "core/Error.h"
#include "core/Half.h"
#include "core/Step.h"
#include "tpc/check_numbers.h"
#include <atomic>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>

namespace tpc::rt {
namespace {

/// The search on one rank.
struct Search {
  int64_t checks = 0; ///< number of checks so far: the same ops have the same number on all ranks
  const char *names = nullptr; ///< of the current layer
  int32_t layer = 0;
  int64_t found = -1; ///< number of the first check that failed
  std::string text;
};

std::atomic<bool> isSearching = false;
std::mutex mutex;
std::map<const tpc_context *, Search> searches;

Search &searchOf(const tpc_context *ctx) {
  std::lock_guard lock(mutex);
  return searches[ctx];
}

const char *nodeAt(tpc_context &ctx, int32_t node) {
  if (node < 0 || !ctx.code || node >= ctx.code->num_nodes)
    fail(ctx, "internal error: there is no node " + std::to_string(node));
  return ctx.code->nodes[node];
}

std::string lineOf(const char *text, int32_t line) {
  std::string_view rest = text;
  for (; line > 0; --line)
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  return std::string(rest.substr(0, rest.find('\n')));
}

template <typename Value, typename Widen>
int64_t find(const void *from, int64_t count, bool hasMasks, Widen widen) {
  const auto *values = static_cast<const Value *>(from);
  for (int64_t i = 0; i < count; ++i) {
    double value = widen(values[i]);
    if (!std::isfinite(value) && !(hasMasks && value < 0))
      return i;
  }
  return -1;
}

double valueAt(const void *from, int64_t i, int32_t dtype) {
  return dtype == TPC_F64   ? static_cast<const double *>(from)[i]
         : dtype == TPC_F16 ? halfToFloat(static_cast<const uint16_t *>(from)[i])
         : dtype == TPC_F32 ? static_cast<const float *>(from)[i]
                            : bfloatToFloat(static_cast<const uint16_t *>(from)[i]);
}

} // namespace

int64_t findNonFinite(const void *from, int64_t count, int32_t dtype, bool hasMasks) {
  switch (dtype) {
  case TPC_F32:
    return find<float>(from, count, hasMasks, [](float x) { return static_cast<double>(x); });
  case TPC_F64:
    return find<double>(from, count, hasMasks, [](double x) { return x; });
  case TPC_F16:
    return find<uint16_t>(from, count, hasMasks, [](uint16_t x) { return halfToFloat(x); });
  case TPC_BF16:
    return find<uint16_t>(from, count, hasMasks, [](uint16_t x) { return bfloatToFloat(x); });
  default:
    return -1;
  }
}

std::string findFirstNonFinite(Execution &execution, const Inputs &inputs) {
  {
    std::lock_guard lock(mutex);
    searches.clear();
  }
  auto setRecords = [&](bool records) {
    execution.each([=](tpc_context &ctx) { ctx.steps->records = records; });
  };
  setRecords(false);
  isSearching = true;
  try {
    execution.step(inputs);
  } catch (...) {
    isSearching = false;
    throw;
  }
  isSearching = false;
  setRecords(true);
  const Search *first = nullptr;
  for (const auto &[ctx, search] : searches)
    if (search.found >= 0 && (!first || search.found < first->found))
      first = &search;
  std::string own = first ? std::to_string(first->found) + " " + first->text : "";
  std::vector<std::string> texts = {own};
  if (Session *session = execution.session())
    texts = session->textsOfAll(own);
  std::string text;
  int64_t firstFound = INT64_MAX;
  for (const std::string &other : texts) {
    size_t blank = other.find(' ');
    if (blank == std::string::npos || std::stoll(other) >= firstFound)
      continue;
    firstFound = std::stoll(other);
    text = other.substr(blank + 1);
  }
  return text;
}

} // namespace tpc::rt

using namespace tpc::rt;

extern "C" void tpc_enter_layer(tpc_context *ctx, int32_t names, int32_t layer) {
  if (!isSearching.load(std::memory_order_relaxed))
    return;
  Search &search = searchOf(ctx);
  search.names = nodeAt(*ctx, names);
  search.layer = layer;
}

extern "C" void tpc_check_numbers(tpc_context *ctx, const void *from, int64_t count, int32_t dtype,
                                  int32_t node, int32_t line, int32_t has_masks) {
  if (!isSearching.load(std::memory_order_relaxed))
    return;
  Search &search = searchOf(ctx);
  int64_t number = search.checks++;
  if (search.found >= 0 || count <= 0)
    return;
  int64_t bytes = count * dtypeBytes(static_cast<tpc_dtype>(dtype));
  const void *values = ctx->device->beginRead(from, bytes);
  int64_t at = values ? findNonFinite(values, count, dtype, has_masks != 0) : -1;
  double value = at >= 0 ? valueAt(values, at, dtype) : 0;
  ctx->device->endRead();
  if (at < 0)
    return;
  search.found = number;
  bool isInLayer = line >= 0 && search.names;
  search.text = "'" + (isInLayer ? lineOf(search.names, line) : nodeAt(*ctx, node)) + "'" +
                (isInLayer ? " in layer " + std::to_string(search.layer) : "") +
                " is the first op whose result is not finite: on rank " +
                std::to_string(ctx->rank) + ", element " + std::to_string(at) + " of its " +
                std::to_string(count) + " is " +
                (std::isnan(value) ? "NaN"
                 : value > 0       ? "inf"
                                   : "-inf");
}
