//===- World.h - Shared state of a run --------------------------*- C++ -*-===//
//
// A local type determines the global indices of a rank's slice in each dimension. Shards of
// parameters, the effect of collectives, and the assembly of outputs are derived only from these
// lists of indices. This code is independent of the partitioner.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_WORLD_H
#define TPC_LIB_VERIFY_INTERPRET_WORLD_H

#include "Coverage.h"
#include "Tensor.h"

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc::interpret {

/// Sizes of a run: the program's sizes, or smaller sizes that replace them.
class Sizes {
public:
  virtual ~Sizes() = default;
  virtual int64_t evaluate(const ::tpc::SymExpr &size) const = 0;
  /// Returns the number of keys of an attention window. A window is not a size.
  virtual int64_t evaluateWindow(const ::tpc::SymExpr &window) const { return evaluate(window); }
  /// Maps index `i` of the reduced size of n to one of the n original indices.
  virtual int64_t spread(int64_t i, int64_t /*n*/) const { return i; }
  /// Maps an offset into a dimension of original size n.
  virtual int64_t scale(int64_t offset, int64_t /*n*/) const { return offset; }
};

/// Returns the source index of the element at `index` in a cyclic shift by `first` within runs of
/// `every`.
inline int64_t rollIndex(int64_t index, int64_t first, int64_t every) {
  return every <= 0 ? index : index - index % every + ((index + first) % every + every) % every;
}

using Indices = SmallVector<std::vector<int64_t>, 4>; // global indices of each dimension, ascending
/// Coordinates of a rank on each axis, in the order of the grid, followed by the micro-batch.
using Coordinates = SmallVector<int64_t, 6>;

/// Factor of a dimension. Each factor is split over its axes in order. The product of the resulting
/// local factors is then split over `product`.
struct DimFactor {
  int64_t size;
  ArrayRef<StringAttr> axes;
};
std::vector<int64_t> getIndices(ArrayRef<DimFactor> factors, ArrayRef<StringAttr> product,
                                MeshAttr grid, llvm::function_ref<int64_t(StringAttr)> coordinate);

/// Slice of a value on a rank. Ranks with equal slices share one object for each type.
struct RankSlice {
  Indices indices;
  Shape shape;
};

class World {
public:
  World(ModuleOp module, MeshAttr grid, const Sizes &sizes);

  ModuleOp getModule() const { return module; }
  MeshAttr getGrid() const { return grid; }
  const Sizes &getSizes() const { return sizes; }
  /// Returns whether values are local. Otherwise there is only one rank, and values are global.
  bool isLocal() const { return local; }
  int64_t countRanks() const { return local ? grid.getWorldSize() : 1; }
  Coordinates getCoordinates(int64_t rank) const;
  /// Returns the position of an axis in Coordinates; nothing if the grid does not have the axis.
  std::optional<unsigned> getPosition(StringAttr axis) const;

  const RankSlice &getSlice(Type type, const Coordinates &at);
  /// Returns the global indices of a dimension on a rank; all indices if not `split`.
  std::vector<int64_t> getIndices(DimAttr dim, const Coordinates &at, bool split = true) const;
  const Shape &getWholeShape(Type type) { return get(type).whole; }

  struct Weight {
    WeightOp op; // null if the weight does not exist
    uint64_t key;
  };
  const Weight &getWeight(StringRef name);

  /// Whether a lookup was out of bounds, which may happen in a correct program at reduced sizes.
  bool misses = false;
  /// Records exercised facts; may be null.
  Coverage *coverage = nullptr;
  /// Factors that scale random weights, by name; null: all are 1.
  const llvm::StringMap<double> *gains = nullptr;
  double getGain(StringRef weight) const {
    auto it = gains ? gains->find(weight) : llvm::StringMap<double>::const_iterator();
    return gains && it != gains->end() ? it->second : 1;
  }
  /// Changes of weights in doubles along a random direction, by name: an element w becomes
  /// w * (1 + change * drawDirection). Null: none.
  const llvm::StringMap<double> *changes = nullptr;

private:
  struct OfType {
    DistAttr dist;
    SmallVector<unsigned, 4> axes; // positions of axes on which the slice depends
    Shape whole;
    std::map<Coordinates, std::unique_ptr<RankSlice>> parts;
  };
  OfType &get(Type type);

  ModuleOp module;
  MeshAttr grid;
  const Sizes &sizes;
  bool local = false;
  DenseMap<Type, std::unique_ptr<OfType>> types;
  llvm::StringMap<Weight> weights;
};

/// Returns whether values of a module are local: a program after tpc-localize, or pipeline stages.
bool isLocalProgram(ModuleOp module);

/// Returns whether no micro-batch of the loop is empty.
bool runsEveryMicroBatch(MicroBatchesOp loop, MeshAttr grid);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_WORLD_H
