//===- Links.h - What it takes to send bytes -------------------------------===//
//
// Ranks sit in nodes: `ranksPerNode` consecutive ones each. A message of b bytes takes
//
//     α + β·b      seconds: α the latency, β one over the bandwidth
//
// with one pair (α, β) between ranks of a node and one between nodes. Collectives are
// counted as rings do them: n members take n-1 steps (an all-reduce twice as many), each with
// 1/n of the whole buffer.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_LINKS_H
#define TPC_SUPPORT_LINKS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tpc {

struct Link {
  double alpha = 0; // seconds for a message
  double beta = 0;  // seconds for a byte

  bool operator==(const Link &) const = default;
};

/// What is sent. The buffer that counts is the whole one: what an all-reduce reduces, an
/// all-gather yields, a reduce-scatter reads, an all-to-all holds on one rank; of a
/// collective-permute, an exchange and of a send it is what the rank that sends or gets most does.
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

/// "all_reduce" as the IR and the reports spell it; false for anything else.
bool parseTransfer(std::string_view name, Transfer &transfer);

/// Seconds for one transfer among `members` ranks, of a whole buffer of `bytes`.
double getSeconds(const Link &link, Transfer transfer, int64_t members, double bytes);
/// Bytes that one rank sends for it.
double getSentBytes(Transfer transfer, int64_t members, double bytes);

/// Both links of a machine. The defaults are those of nodes with eight GPUs: 450 GB/s and
/// 5 µs within a node (NVLink of the fourth generation), 50 GB/s and 10 µs between nodes (one
/// 400 Gb/s port for each GPU).
struct Links {
  Link intraNode = {5e-6, 1 / 450e9};
  Link interNode = {10e-6, 1 / 50e9};

  bool operator==(const Links &) const = default;
};

/// Whether groups along an axis with this stride and size reach over the border of a node.
/// `ranksPerNode` 0: all ranks are in one node.
bool crossesNodes(int64_t stride, int64_t size, int64_t world, int64_t ranksPerNode);

} // namespace tpc

#endif // TPC_SUPPORT_LINKS_H
