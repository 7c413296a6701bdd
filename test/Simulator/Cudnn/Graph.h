//===- Graph.h - Graphs of finalized descriptors --------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDNN_GRAPH_H
#define TPC_TEST_SIMULATOR_CUDNN_GRAPH_H

#include "Cuda/Private.h"
#include "Types.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sim::dnn {

/// A tensor of [batch, heads, rows, columns].
struct Tensor {
  int64_t id = 0, alignment = 0;
  DataType type = F32;
  std::array<int64_t, 4> dims{}, strides{};
  bool isVirtual = false, isByValue = false;
  bool operator==(const Tensor &) const = default;
};

struct Operation {
  Kind kind = KindMatmulOp;
  int mode = 0; // mode of a pointwise operation or reduction
  int64_t axis = -1;
  Tensor x, y;
  std::optional<Tensor> b, t;
};

struct Graph {
  std::vector<Operation> operations;
  std::map<int64_t, Tensor> tensors;

  /// Returns SUCCESS, or the reason that these operations form no valid graph.
  Status add(const Operation &operation, std::string &why);
  /// Whether an engine supports it. Only attention has engines.
  bool isAttention() const;
  uint64_t hash() const;
};

struct Config {
  std::shared_ptr<const Graph> graph;
  uint64_t id = 0;
};

struct Plan {
  std::shared_ptr<const Graph> graph;
  int device = 0;
  int64_t workspace = 0;
  bool fails = false; // executions outside of a capture fail
};

/// Addresses of tensors, and the values of those that are passed by value.
struct Operands {
  std::map<int64_t, uint64_t> addresses;
  std::map<int64_t, float> values;
  uint64_t workspace = 0;
};

unsigned bytesOf(DataType type);
std::shared_ptr<Work> makeAttentionKernels(const Plan &plan, const Operands &operands);

} // namespace sim::dnn

#endif
