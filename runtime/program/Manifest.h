//===- Manifest.h - Data structures of the manifest -----------------------===//
//
// docs/design/executable.md describes the manifest.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_MANIFEST_H
#define TPC_RT_PROGRAM_MANIFEST_H

#include "core/Grid.h"
#include "program/Tensor.h"
#include <optional>
#include <string>
#include <vector>

namespace tpc::rt {

/// Input or output of the program. `shape` has size expressions over the symbols.
struct Port {
  enum class Default { None, Ones, Positions };
  std::string name;
  tpc_dtype dtype = TPC_F32;
  std::vector<std::string> shape;
  Default fallback = Default::None;
  /// For default positions: index of the mask input that marks visible tokens; -1: positions follow
  /// from the number of earlier tokens.
  int mask = -1;
  /// For default positions: number of earlier tokens, as a size expression.
  std::string past = "0";
  std::string required; ///< reason for a missing default, where a default would be expected
  std::optional<std::pair<int64_t, int64_t>> range; ///< smallest and largest valid value
  std::string rangeOf;                              ///< the table that `range` indexes
  /// integer types to which values are cast before the range check
  std::vector<tpc_dtype> rangeAfter;
  /// For labels: the value outside of `range` that the loss ignores.
  std::optional<int64_t> ignored;
};

struct Constraint {
  std::string expr, why;
  std::optional<int64_t> min, max;
};

struct WeightFile {
  std::string path;
  std::optional<int64_t> bytes;
  std::string digest; ///< sampleDigest (tpc/digest.h); empty: not checked
  /// With --digest-weights: each tensor's wholeDigest.
  struct Tensor {
    std::string name;
    int64_t offset, bytes;
    std::string digest;
  };
  std::vector<Tensor> tensors;
};

/// A factor of a dimension: `size` elements, `stride` apart in the source, or at `offsets` if not
/// evenly spaced (heads in blocks, replicated KV heads). `axes` split the factor one after another.
struct ViewFactor {
  int64_t size = 1, stride = 0;
  std::vector<int> axes; ///< indices in grid order
  std::vector<int64_t> offsets;
  int64_t at(int64_t i) const { return offsets.empty() ? i * stride : offsets[i]; }
  bool operator==(const ViewFactor &) const = default;
};

struct Parameter {
  enum class Init { Normal, Ones, Zeros };
  std::string name;
  int stage = 0;
  tpc_dtype dtype = TPC_F32;
  tpc_dtype sourceDtype = TPC_F32; ///< type in the file; converted at load if different
  int file = -1;                   ///< -1: no file; the elements are 0 before the first step
  int64_t offset = 0, bytes = 0;   ///< bytes of the source tensor in the file
  /// Offsets of equal parts of the source tensor, along its first dimension; empty: one part.
  std::vector<int64_t> parts;
  /// Calls `call(offset, bytes)` for each range of the file.
  template <typename CallT> void eachRange(const CallT &call) const {
    if (parts.empty())
      call(offset, bytes);
    for (int64_t part : parts)
      call(part, bytes / static_cast<int64_t>(parts.size()));
  }
  int64_t viewOffset = 0;                    ///< in elements, relative to `offset`
  std::vector<std::vector<ViewFactor>> dims; ///< dimensions of the global value; factors of each,
                                             ///< major to minor
  Shape sourceShape;
  bool matmulRhs = false;
  /// Matrices of experts that only tpc_experts reads, so that the device may reorder them
  /// (Device::packExperts).
  bool isExperts = false;
  /// For a matmul_rhs in a fused matmul: the earlier parameter of the stage whose packed columns
  /// precede its own; or -1. For a bias of such a matmul: the bias that precedes it.
  int beside = -1;
  /// Earlier parameter of the stage with the same value and use; or -1.
  int sameAs = -1;
  /// For a matmul_rhs: a dense parameter of the stage that is its transpose and that matmuls can
  /// read directly; or -1. A tied embedding and head are therefore stored once.
  int transposeOf = -1;
  bool isShared() const { return sameAs >= 0 || transposeOf >= 0; }
  Init init = Init::Normal;
  bool isUpdated = false; ///< a training step writes it
};

/// A cache persists between steps: keys or values of a layer, for all sequences.
struct Cache {
  std::string name;
  int stage = 0;
  tpc_dtype dtype = TPC_F32;
  std::vector<std::string> shape; ///< [batch, heads, capacity, size]
  /// For each dimension, the axes that split it, as indices in grid order.
  std::vector<std::vector<int>> axes;
};

/// Generation interface of a program compiled with --generate: a step takes new tokens of each row;
/// the caches contain the earlier tokens.
struct Generation {
  int tokens = 0, lengths = 0, counts = 0; ///< input indices
  int logits = 0;                          ///< output index
  std::string batch, sequence, capacity;   ///< symbol names
  bool lastOnly = true;                    ///< only the logits of each row's last token
  int64_t vocabulary = 0;                  ///< size of the logits' last dimension
  /// steps in flight at a time, each of different sequences
  int inFlight = 1;
  int64_t lastToken = 0;              ///< largest token id that the model accepts
  std::optional<int64_t> maxSequence; ///< maximum sequence length of the model

  /// Sliding-window caches with capacity `capacity`. Each token of a step attends to the last
  /// `window` tokens, including itself.
  struct Windowed {
    int lengths = 0; ///< input with the number of tokens in these caches
    std::string capacity;
    int64_t window = 0;
  };
  std::optional<Windowed> windowed;

  /// Caches of cross-attention: the first step of a sequence brings its source.
  struct Source {
    /// Ids [batch, tokens], or states [batch, tokens, …]. If all sources have `each` tokens: the
    /// input of an encoder or its states, [batch * sources, …].
    int input = 0;
    int lengths = 0; ///< input with the number of source tokens in these caches
    /// Symbols. `tokens`: the number of source tokens, or of sources of `each` tokens, that a
    /// sequence brings.
    std::string tokens, capacity;
    std::optional<int64_t> each;      ///< tokens of each source
    int64_t lastToken = 0;            ///< largest valid id
    std::optional<int64_t> maxTokens; ///< maximum length of a source
    /// Vision-language models: prompts contain this id once for each source token. The step's ids
    /// have -1 - k in place of the one of source token k. Prompts without it need no source.
    std::optional<int64_t> token;
  };
  std::optional<Source> source;
};

/// A training step: each step updates parameters.
struct Training {
  std::string optimizer; ///< "adamw" or "sgd"
  double beta1 = 0, beta2 = 0;
  int tokens = 0, labels = 0; ///< inputs [batch, sequence]
  int rate = 0;               ///< scalar input: the learning rate
  /// scalar inputs of AdamW: 1 - beta^step; -1 for SGD
  int correction1 = -1, correction2 = -1;
  int loss = 0, norm = 0;      ///< scalar outputs
  std::string batch, sequence; ///< symbols
  int64_t lastToken = 0;       ///< largest token id that the model accepts
};

struct Manifest {
  std::string name, compiler, source, schedule;
  std::string digest;      ///< digest of the manifest's text
  std::string notVerified; ///< verifiers that were skipped; empty if none
  /// Reason for a proof without a run at small sizes; empty if the program was run.
  std::string noRandomizedCheck;
  Grid grid;
  bool sequenceParallel = false;
  int64_t microBatches = 1;
  /// Sets of axes over which ranks communicate, as bit masks; no value: any sets.
  std::optional<std::vector<uint32_t>> groups;
  std::vector<std::string> symbols;
  std::vector<Port> inputs, outputs;
  std::vector<Constraint> constraints;
  std::vector<WeightFile> files;
  std::vector<Parameter> parameters;
  std::vector<Cache> caches;
  std::optional<Generation> generation;
  std::optional<Training> training;

  /// Index of the axis "pp" in grid order, or -1.
  int pipelineAxis = -1;
  int numStages() const {
    return pipelineAxis < 0 ? 1 : static_cast<int>(grid.axes()[pipelineAxis].size);
  }
  int stageOf(int rank) const {
    return pipelineAxis < 0 ? 0 : static_cast<int>(grid.coordinatesOf(rank)[pipelineAxis]);
  }
};

/// Parses and checks a manifest. Throws UserError with the location of an error.
Manifest parseManifest(const char *json);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_MANIFEST_H
