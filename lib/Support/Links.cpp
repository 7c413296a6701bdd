//===- Links.cpp - Alpha-beta model of links ------------------------------===//

#include "tpc/Support/Links.h"

#include <array>
#include <cmath>
#include <utility>

using namespace tpc;

bool tpc::parseTransfer(std::string_view name, Transfer &transfer) {
  static constexpr std::array<std::pair<std::string_view, Transfer>, 10> names = {
      {{"all_reduce", Transfer::AllReduce},
       {"all_gather", Transfer::AllGather},
       {"reduce_scatter", Transfer::ReduceScatter},
       {"all_to_all", Transfer::AllToAll},
       {"collective_permute", Transfer::CollectivePermute},
       {"exchange", Transfer::Exchange},
       {"dispatch", Transfer::Exchange},
       {"combine", Transfer::Exchange},
       {"broadcast", Transfer::Broadcast},
       {"send", Transfer::Send}}};
  for (auto [text, value] : names)
    if (text == name) {
      transfer = value;
      return true;
    }
  return false;
}

/// Returns the number of consecutive messages, and the fraction of the whole buffer that a rank
/// sends in all of them.
static std::pair<double, double> getStepsAndShare(Transfer transfer, int64_t members) {
  double n = double(members);
  if (transfer == Transfer::Send)
    return {1, 1};
  if (members <= 1)
    return {0, 0};
  switch (transfer) {
  case Transfer::CollectivePermute:
    return {1, 1};
  case Transfer::Exchange: // one message to each other member
    return {n - 1, 1};
  case Transfer::AllReduce:
    return {2 * (n - 1), 2 * (n - 1) / n};
  case Transfer::Broadcast:
    return {std::ceil(std::log2(n)), 1};
  default:
    return {n - 1, (n - 1) / n};
  }
}

double tpc::getSeconds(const Link &link, Transfer transfer, int64_t members, double bytes) {
  auto [steps, share] = getStepsAndShare(transfer, members);
  return steps * link.alpha + share * bytes * link.beta;
}

double tpc::getSentBytes(Transfer transfer, int64_t members, double bytes) {
  return getStepsAndShare(transfer, members).second * bytes;
}

bool tpc::crossesNodes(int64_t stride, int64_t size, int64_t world, int64_t ranksPerNode) {
  // The members of a group are `stride` ranks apart, within a block of stride·size consecutive
  // ranks. If the number of ranks per node is a multiple of the block size, no group crosses a
  // boundary. Otherwise the first node ends r ranks after the begin of a block, 0 < r <
  // stride·size. The group whose first member is rank min(r, stride) - 1 of the block crosses this
  // boundary: its last member, stride·(size-1) ranks later, is in the next node.
  return size > 1 && ranksPerNode > 0 && world > ranksPerNode &&
         ranksPerNode % (stride * size) != 0;
}
