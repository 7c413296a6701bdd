//===- Manifest.h - what the compiler says about a program ----------------===//
//
// The manifest of docs/design/executable.md, as structures.
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

/// A value that goes in or out. `shape` is size expressions over the symbols.
struct Port {
  enum class Default { None, Ones, Positions };
  std::string name;
  tpc_dtype dtype = TPC_F32;
  std::vector<std::string> shape;
  Default fallback = Default::None;
  /// Of default positions: the input that says which tokens are seen (an index, or -1), or else how
  /// many tokens come before.
  int mask = -1;
  std::string past = "0";
  std::string required; ///< why there is no default where one would be expected
  /// Both ends belong to the range.
  std::optional<std::pair<int64_t, int64_t>> range;
  std::string rangeOf;
  std::vector<tpc_dtype> rangeAfter; ///< integers that values wrap around to before
};

struct Constraint {
  std::string expr, why;
  std::optional<int64_t> min, max;
};

struct WeightFile {
  std::string path;
  std::optional<int64_t> bytes;
  std::string digest; ///< of sampleDigest (tpc/digest.h); empty: not checked
  /// Where all weights were read at compile time (--digest-weights): each tensor's wholeDigest.
  struct Tensor {
    std::string name;
    int64_t offset, bytes;
    std::string digest;
  };
  std::vector<Tensor> tensors;
};

/// One factor of a dimension: `size` elements that are `stride` apart in the source, or lie at
/// `offsets` where they are not evenly spaced (heads in blocks, kv heads that are there several
/// times); split over `axes` one after the other.
struct ViewFactor {
  int64_t size = 1, stride = 0;
  std::vector<int> axes; ///< indices into the grid's order
  std::vector<int64_t> offsets;
  int64_t at(int64_t i) const { return offsets.empty() ? i * stride : offsets[i]; }
  bool operator==(const ViewFactor &) const = default;
};

struct Parameter {
  enum class Init { Normal, Ones, Zeros };
  std::string name;
  int stage = 0;
  tpc_dtype dtype = TPC_F32;
  tpc_dtype sourceDtype = TPC_F32; ///< of the file; converted at load if it is another
  int file = -1;
  int64_t offset = 0, bytes = 0;             ///< of the source tensor in the file
  int64_t viewOffset = 0;                    ///< elements from `offset`
  std::vector<std::vector<ViewFactor>> dims; ///< of the global value, each major to minor
  Shape sourceShape;
  bool matmulRhs = false;
  /// Of a matmul_rhs that products take together with others: the one whose columns its own stand
  /// behind, an earlier parameter of the stage; or -1.
  int beside = -1;
  /// An earlier parameter of the stage with the very same value and use; or -1.
  int sameAs = -1;
  /// For a matmul_rhs: a dense parameter of the stage that is its transpose, which products can
  /// read as well; or -1. So a tied embedding and head are held once.
  int transposeOf = -1;
  bool isShared() const { return sameAs >= 0 || transposeOf >= 0; }
  Init init = Init::Normal;
};

/// What a rank keeps from step to step: keys or values of a layer, of all sequences.
struct Cache {
  std::string name;
  int stage = 0;
  tpc_dtype dtype = TPC_F32;
  std::vector<std::string> shape;     ///< [batch, heads, capacity, size]
  std::vector<std::vector<int>> axes; ///< that split each; indices into the grid's order
};

/// Of a program that was compiled to generate: a step takes some tokens of each row, of which the
/// caches have earlier ones.
struct Generation {
  int tokens = 0, lengths = 0, counts = 0; ///< inputs
  int logits = 0;                          ///< output
  std::string batch, sequence, capacity;   ///< symbols
  bool lastOnly = true;                    ///< logits of each row's last token, not of all
  int64_t vocabulary = 0;                  ///< of the logits
  int inFlight = 1;                        ///< steps at a time, each of other sequences
  int64_t lastToken = 0;                   ///< that the model can read
  std::optional<int64_t> maxSequence;      ///< that the model is made for

  /// Caches with room for `room` tokens, of which each token of a step sees the last `window`, its
  /// own among them.
  struct Windowed {
    int lengths = 0; ///< input: tokens that these caches hold
    std::string room;
    int64_t window = 0;
  };
  std::optional<Windowed> windowed;
};

struct Manifest {
  std::string name, compiler, source, schedule;
  std::string digest;      ///< of the manifest's text
  std::string notVerified; ///< verifiers that were left out; empty if none
  /// Why the program was proved, but not run at small sizes as well; empty if it was.
  std::string noRandomizedCheck;
  Grid grid;
  bool sequenceParallel = false;
  int64_t microBatches = 1;
  /// Masks of the axes over which ranks communicate; nothing: any.
  std::optional<std::vector<uint32_t>> groups;
  std::vector<std::string> symbols;
  std::vector<Port> inputs, outputs;
  std::vector<Constraint> constraints;
  std::vector<WeightFile> files;
  std::vector<Parameter> parameters;
  std::vector<Cache> caches;
  std::optional<Generation> generation;

  /// Of the axis "pp" in the order, or -1.
  int pipelineAxis = -1;
  int numStages() const {
    return pipelineAxis < 0 ? 1 : static_cast<int>(grid.axes()[pipelineAxis].size);
  }
  int stageOf(int rank) const {
    return pipelineAxis < 0 ? 0 : static_cast<int>(grid.coordinatesOf(rank)[pipelineAxis]);
  }
};

/// Parses and checks. Throws UserError that says where the manifest is wrong.
Manifest parseManifest(const char *json);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_MANIFEST_H
