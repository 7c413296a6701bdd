//===- World.h - What does not change while a program runs ------*- C++ -*-===//
//
// A local type says which indices of a value a rank holds in each dimension, and everything that
// happens between ranks follows from these lists: what a parameter's shard is, what a collective
// moves, how outputs are put together. Nothing of the partitioner is asked.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_WORLD_H
#define TPC_LIB_VERIFY_INTERPRET_WORLD_H

#include "Coverage.h"
#include "Tensor.h"

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc::interpret {

/// The sizes of a run: those of the program, or smaller ones that stand for them.
class Sizes {
public:
  virtual ~Sizes() = default;
  virtual int64_t evaluate(const ::tpc::SymExpr &size) const = 0;
  /// A window of attention, which is no size: how many keys it shows.
  virtual int64_t evaluateWindow(const ::tpc::SymExpr &window) const { return evaluate(window); }
  /// Where index `i` of what stands for n lies among the n original ones.
  virtual int64_t spread(int64_t i, int64_t /*n*/) const { return i; }
  /// An offset into a dimension of original size n.
  virtual int64_t scale(int64_t offset, int64_t /*n*/) const { return offset; }
};

/// Where a cyclic shift takes the element at `index` from: within runs of `every`, that many
/// elements behind `first`.
inline int64_t rollIndex(int64_t index, int64_t first, int64_t every) {
  return every <= 0 ? index : index - index % every + ((index + first) % every + every) % every;
}

using Indices = SmallVector<std::vector<int64_t>, 4>; // whole indices in each dimension, ascending
/// A rank's coordinate on each axis of the grid, in the grid's order; then its micro-batch.
using Coordinates = SmallVector<int64_t, 6>;

/// A dimension's indices on a rank: those of each factor, major to minor, split over the factor's
/// axes one after the other; then what is left of the product split over `product`.
struct DimFactor {
  int64_t size;
  ArrayRef<StringAttr> axes;
};
std::vector<int64_t> getIndices(ArrayRef<DimFactor> factors, ArrayRef<StringAttr> product,
                                GridAttr grid, llvm::function_ref<int64_t(StringAttr)> coordinate);

/// What a rank has of a value. There is one object for ranks that have the same of values of one
/// type.
struct Part {
  Indices indices;
  Shape shape;
};

class World {
public:
  World(ModuleOp module, GridAttr grid, const Sizes &sizes);

  ModuleOp getModule() const { return module; }
  GridAttr getGrid() const { return grid; }
  const Sizes &getSizes() const { return sizes; }
  /// Whether each rank has values of its own; else there is one rank, which has all.
  bool isLocal() const { return local; }
  int64_t countRanks() const { return local ? grid.getWorldSize() : 1; }
  Coordinates getCoordinates(int64_t rank) const;
  /// The position of an axis in coordinates; nothing if the grid does not have it.
  std::optional<unsigned> getPosition(StringAttr axis) const;

  const Part &getPart(Type type, const Coordinates &at);
  /// A dimension's, split or not.
  std::vector<int64_t> getIndices(DimAttr dim, const Coordinates &at, bool split = true) const;
  const Shape &getWholeShape(Type type) { return get(type).whole; }

  struct Weight {
    WeightOp op; // null if there is none of this name
    uint64_t key;
  };
  const Weight &getWeight(StringRef name);

  /// Something was looked up that its table does not have: no program should, but small sizes may
  /// make it so.
  bool misses = false;
  /// Where ops note what a run has exercised of them; null: nowhere.
  Coverage *coverage = nullptr;
  /// By name, how many times as large as others a weight's elements are; null: none.
  const llvm::StringMap<double> *gains = nullptr;
  double getGain(StringRef weight) const {
    auto it = gains ? gains->find(weight) : llvm::StringMap<double>::const_iterator();
    return gains && it != gains->end() ? it->second : 1;
  }

private:
  struct OfType {
    DistAttr dist;
    SmallVector<unsigned, 4> axes; // on which it depends, as positions
    Shape whole;
    std::map<Coordinates, std::unique_ptr<Part>> parts;
  };
  OfType &get(Type type);

  ModuleOp module;
  GridAttr grid;
  const Sizes &sizes;
  bool local = false;
  DenseMap<Type, std::unique_ptr<OfType>> types;
  llvm::StringMap<Weight> weights;
};

/// True if a module is one of local values: of one rank, or of pipeline stages.
bool isLocalProgram(ModuleOp module);

/// Whether a loop is over a number of elements, one at least for each round: none is skipped.
bool runsEveryRound(MicroBatchesOp loop, GridAttr grid);

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_WORLD_H
