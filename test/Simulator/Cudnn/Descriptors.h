//===- Descriptors.h - Backend descriptors as programs set them -----------===//

#ifndef TPC_TEST_SIMULATOR_CUDNN_DESCRIPTORS_H
#define TPC_TEST_SIMULATOR_CUDNN_DESCRIPTORS_H

#include "Functions.h"
#include "Graph.h"

#include <variant>

namespace sim::dnn {

struct Context {
  int device;
  Stream *stream = nullptr;
};

struct Pack {
  std::vector<int64_t> ids;
  std::vector<uint64_t> pointers;
  uint64_t workspace = 0;
};

/// Mode of a pointwise operation, matmul or reduction.
struct OperationMode {
  int mode = 0;
  int64_t axis = -1;
};

struct Descriptor {
  Kind kind;
  std::map<Attribute, std::vector<uint8_t>> attributes;
  bool isFinal = false;
  /// Set by finalize(). Attributes of referenced descriptors are copied.
  std::variant<std::monostate, Tensor, OperationMode, Operation, std::shared_ptr<const Graph>,
               std::vector<Config>, Config, Plan, Pack>
      contents;

  Status finalize(std::string &why);

private:
  template <class T> T get(Attribute attribute, T otherwise = {}) const;
  template <class T> std::vector<T> list(Attribute attribute) const;
  /// Returns the attribute that references another descriptor.
  template <class T> const T *of(Attribute attribute) const;
  Status finalizeTensor(std::string &why);
  Status finalizeOperation(std::string &why);
  Status finalizeGraph(std::string &why);
  Status finalizeHeuristic(std::string &why);
  Status finalizePlan(std::string &why);
  Status finalizePack(std::string &why);
};

/// Whether the descriptor exists and was not destroyed.
bool isAlive(const Descriptor *descriptor);
bool isAlive(const Context *context);
/// Returns a random number below `below` that depends on the seed, a hash and the number of the
/// choice.
uint64_t draw(uint64_t hash, uint64_t of, uint64_t below);

} // namespace sim::dnn

#endif
