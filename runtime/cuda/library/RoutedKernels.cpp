//===- RoutedKernels.cpp - Kernels of tokens in messages ------------------===//

#include "cuda/library/RoutedKernels.h"
#include "cuda/library/Block.h"
#include "cuda/library/GemvText.h"
#include "tpc/gemv.h"
#include "tpc/routed.h"
#include "tpc/runtime.h"
#include <algorithm>
#include <iterator>

namespace tpc::rt::cuda {
namespace {

static_assert(sizeof(RoutedPart) == routed::kPartFields * sizeof(int64_t));

constexpr const char *names[] = {
    "tpc_routed_select_32",      "tpc_routed_select_16", "tpc_routed_select_rows_32",
    "tpc_routed_select_rows_16", "tpc_routed_pack_32",   "tpc_routed_pack_16",
    "tpc_routed_unpack_32",      "tpc_routed_unpack_16", "tpc_routed_locate",
    "tpc_routed_add_f32",        "tpc_routed_add_f16",   "tpc_routed_add_bf16"};

struct RoutedLaunch {
  static constexpr unsigned threads = gemv::kThreads;
  uint64_t pointers[6];
  uint32_t numbers[6];

  template <class Visit> void forEachParameter(Visit visit) {
    std::for_each(std::begin(pointers), std::end(pointers), visit);
    std::for_each(std::begin(numbers), std::end(numbers), visit);
  }
};

int64_t blocksFor(int64_t items, int64_t itemsOfWarp) {
  int64_t ofBlock = itemsOfWarp * gemv::kWarps;
  return (items + ofBlock - 1) / ofBlock;
}

} // namespace

RoutedKernels::RoutedKernels(Queue &queue)
    : kernels(queue, [] { return std::string(routedText()); }, names, "exchange tokens") {}

void RoutedKernels::run(RoutedWork work, const RoutedRows &rows, Address tensor) {
  const bool isHalf = rows.dtype != TPC_F32;
  const char *name = nullptr;
  int64_t blocksPerPart = blocksFor(rows.maxRows, 1), numParts = rows.numParts;
  switch (work) {
  case RoutedWork::Select:
    name = names[(rows.combines ? 2 : 0) + isHalf];
    blocksPerPart = rows.combines ? blocksFor(rows.maxRows, routed::kWarpRowBits)
                                  : blocksFor(rows.maxBits, routed::kWarpBits);
    break;
  case RoutedWork::Locate:
    name = names[8];
    blocksPerPart = 1;
    break;
  case RoutedWork::Pack:
    name = names[4 + isHalf];
    break;
  case RoutedWork::Unpack:
    name =
        rows.combines ? names[9 + (isHalf ? rows.dtype == TPC_F16 ? 1 : 2 : 0)] : names[6 + isHalf];
    if (rows.combines)
      numParts = 1;
    break;
  }
  RoutedLaunch launch{{tensor, addressOf(rows.parts), addressOf(rows.bits), addressOf(rows.places),
                       addressOf(rows.sizes), addressOf(rows.data)},
                      {static_cast<uint32_t>(blocksPerPart), static_cast<uint32_t>(rows.width),
                       static_cast<uint32_t>(rows.column), static_cast<uint32_t>(rows.experts),
                       static_cast<uint32_t>(rows.numParts), rows.combines}};
  if (int64_t blocks = blocksPerPart * numParts)
    kernels.run(name, launch, blocks);
}

} // namespace tpc::rt::cuda
