//===- Links.h - Alpha-beta model of links --------------------------------===//
//
// Nodes consist of `ranksPerNode` consecutive ranks each. A message of b bytes takes
//
//     α + β·b      seconds: α the latency, β one over the bandwidth
//
// with one pair (α, β) for ranks of the same node and one for ranks of different nodes. Most
// collectives are modeled as rings: n members take n-1 steps (an all-reduce 2(n-1)), each with 1/n
// of the whole buffer. A broadcast is a tree, a collective-permute one message.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_LINKS_H
#define TPC_SUPPORT_LINKS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tpc {

struct Link {
  double alpha = 0; // latency in seconds
  double beta = 0;  // seconds per byte

  bool operator==(const Link &) const = default;
};

/// Kind of a transfer. Its cost is a function of the size of the "whole buffer": the operand of an
/// all-reduce or reduce-scatter, the result of an all-gather, or the buffer of one rank in an
/// all-to-all. In a collective-permute, an exchange and a send, the whole buffer is the largest
/// data that a rank sends or receives.
enum class Transfer {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  CollectivePermute,
  Exchange,
  Broadcast,
  Send
};

/// Parses a name as in the IR and in reports, such as "all_reduce". Returns false for an unknown
/// name.
bool parseTransfer(std::string_view name, Transfer &transfer);

/// Returns the seconds for one transfer among `members` ranks, with a whole buffer of `bytes`.
double getSeconds(const Link &link, Transfer transfer, int64_t members, double bytes);
/// Returns the bytes that one rank sends in the transfer.
double getSentBytes(Transfer transfer, int64_t members, double bytes);

/// Links within and between nodes of a machine. The defaults are those of nodes with eight GPUs:
/// 450 GB/s and 5 µs within a node (fourth-generation NVLink), 50 GB/s and 10 µs between nodes (one
/// 400 Gb/s port per GPU).
struct Links {
  Link intraNode = {5e-6, 1 / 450e9};
  Link interNode = {10e-6, 1 / 50e9};

  bool operator==(const Links &) const = default;
};

/// Whether groups along an axis with this stride and size cross a node boundary. `ranksPerNode` 0:
/// all ranks are in one node.
bool crossesNodes(int64_t stride, int64_t size, int64_t world, int64_t ranksPerNode);

} // namespace tpc

#endif // TPC_SUPPORT_LINKS_H
