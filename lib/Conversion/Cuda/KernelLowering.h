//===- KernelLowering.h - A kernel as threads of a GPU ----------*- C++ -*-===//
//
// A tpc_kernel.func becomes
//
//   kernel(const int64_t *env, tpc_status *status, void *operand0, …, void *result0, …)
//
// for blocks of 256 threads, in a grid of any size. Where rows share folds or need barriers,
// threads work in groups, a warp or the block; a group does a row, and then goes on to another:
//
//   for item = block; item < ceil(rows / groups of a block); item += blocks
//     row = item * groups + this thread's group
//     if row < rows
//       what is of the row: by each thread of the group
//       elements: chunk = thread, thread + group, …; a chunk is up to 8 adjacent elements
//       fold: the same chunks, then shuffles, then, if the group is a block, shared memory
//
// Otherwise chunks of all rows are numbered, and threads take them in that order (Flat.cpp). Which
// thread combines which terms in which order depends on sizes only: neither on the grid nor on
// where memory is.
//
// What several passes over a row read is kept in registers, as far as these last (Held.cpp). What
// is read along rows and stored along elements goes through shared memory (Tiles.cpp).
//
// Indices are 32 bits where what is known of them says that they fit (Indices.cpp); where an
// element lies is 64 bits.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_KERNELLOWERING_H
#define TPC_LIB_CONVERSION_CUDA_KERNELLOWERING_H

#include "tpc/Conversion/Cuda/Launch.h"
#include "tpc/Conversion/Device/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

namespace mlir::tpc::cuda {

/// Bytes of the widest memory access of one thread.
inline constexpr unsigned kVectorBytes = 16;

/// Bytes of an element in memory; a boolean takes one.
inline unsigned getBytes(Type type) { return std::max(1u, type.getIntOrFloatBitWidth() / 8); }

class KernelLowering : KernelEmitter {
public:
  using KernelEmitter::NodeNames;

  KernelLowering(kernel::FuncOp source, const EnvLayout &layout, NodeNames &nodes)
      : KernelEmitter(source, layout, nodes) {}

  /// Makes the function beside its source, under the same name, and says how to launch it.
  FailureOr<Launch> lower();

private:
  LogicalResult checkExtents();

  //===--- indices ----------------------------------------------------------===//

  void lowerScalar(Operation *op) override;
  void lowerSize(kernel::SizeOp op) override;
  void mapIndex(Value index, Value value, Value size) override;
  Value extent(const ::tpc::SymExpr &expr) override;
  Value elementAddress(Value memref, ValueRange indices) override;
  /// What is known of an index, or of an integer.
  ConstantIntRanges getRange(Value value);
  Value toWidth(Value value, unsigned width);
  Value number(int32_t value);
  Value quotient(Value x, Value y);
  Value remainder(Value x, Value y);
  Value product(ValueRange values);
  /// ceil(x / y).
  Value parts(Value x, Value y);
  Value both(Value x, Value y);
  Value isEqual(Value x, Value y);

  //===--- elements ---------------------------------------------------------===//

  /// Which elements a thread does at a time, and when it may access them at once.
  struct Lanes {
    unsigned width = 1;
    // At run time: whether rows have full chunks only, and whether pointers are aligned. Null: they
    // do, they are.
    Value full, aligned;
    /// Where its elements are in the row, from the first one on, if they do not follow one another;
    /// how many do; and how far the next thread's are.
    SmallVector<int64_t> offsets;
    unsigned adjacent = 1;
    int64_t stride = 1;
    /// How many threads a row has, if that is known.
    std::optional<int64_t> count;
  };
  /// Memory that loops of a block go along; by how much indices are shifted, and where conditions
  /// cut the row.
  struct Streams {
    SmallVector<std::pair<Value, ValueRange>> accesses;
    SmallVector<int64_t> cuts, shifts;
    /// Bytes of the narrowest element, and of the widest.
    unsigned least = 16, most = 1;
  };
  Lanes findLanes(ArrayRef<std::pair<Block *, Value>> bodies, Value size);
  Lanes findLanes(Block &body, Value last, Value size) {
    return findLanes(std::make_pair(&body, last), size);
  }
  void addStreams(Block &body, Value last, bool cuts, Streams &streams);
  /// Fewer adjacent lanes, so that what is known of sizes allows them; and what is asked of others.
  void align(const Streams &streams, Value size, Lanes &lanes);
  bool isAdjacent(Value memref, ValueRange indices);

  void lowerElements(kernel::ElementsOp op) override;
  void runElements(kernel::ElementsOp op, ArrayRef<Value> sizes, unsigned width);
  void lowerChunk(kernel::ElementsOp op, ArrayRef<Value> sizes, Value chunk, Value perLast,
                  const Lanes &lanes);
  /// The ops of a block for these elements along its last index, from `begin` on.
  void lowerLanes(Block &block, Value last, Value begin, Value size, const Lanes &lanes,
                  bool wideAccess);
  void lowerLanes(Block &block, Value last, Value begin, Value size, unsigned width,
                  bool wideAccess);
  void lowerLanes(Block &block);
  bool dependsOnLane(Operation *op) const;
  void forPieces(Value memref, int64_t shift, function_ref<void(ArrayRef<unsigned>)> body);
  SmallVector<Value> loadLanes(memref::LoadOp op);
  SmallVector<Value> loadWide(memref::LoadOp op, Value begin);
  void storeWide(memref::StoreOp op);
  void branchWide(scf::IfOp op);
  void branchByLane(scf::IfOp op, ArrayRef<bool> taken);

  //===--- conditions on the place in a row ---------------------------------===//

  std::optional<int64_t> getKnown(Value index);
  /// By how much an index is more than `last`.
  std::optional<int64_t> getShift(Value index, Value last);
  /// Where in the row a condition ends to be true.
  std::optional<int64_t> getCut(Value condition, Value last);
  bool lowerCut(arith::CmpIOp op);
  /// Of a value of the block, here.
  Value getLane(Value value, unsigned lane);

  Value lowerLoad(memref::LoadOp op) override;

  //===--- rows in registers ------------------------------------------------===//

  /// What a load of a pass reads: its memory, indices before the last one, and under which
  /// conditions. Passes with the same key read the same at each of the row's indices.
  using Key = std::vector<const void *>;
  /// A row as threads hold it.
  struct Held {
    unsigned width = 1, chunks = 0;                        // lanes of a chunk; chunks of a thread
    Value size;                                            // of the row
    std::map<Key, SmallVector<SmallVector<Value>>> values; // by chunk and lane
  };
  /// The first load of a key, and the pass that it stands in.
  struct HeldLoad {
    Key key;
    memref::LoadOp load;
    Operation *pass = nullptr;
    bool again = false;     // in another pass
    bool ofAllRows = false; // read once, before the rows
    bool stored = false;    // by a pass before
  };

  void findPasses();
  void chooseHeld(unsigned perThread);
  std::optional<Key> findKey(Value memref, ValueRange indices, Operation *access);
  void holdLoads(Operation *pass, bool ofAllRows = false);
  SmallVector<Value> zeros(ArrayRef<Type> types);
  SmallVector<Value> ifChunk(unsigned chunk, TypeRange types,
                             function_ref<SmallVector<Value>()> then,
                             function_ref<SmallVector<Value>()> otherwise);
  Value chunkBegin(unsigned chunk);
  bool isHeld(Operation *pass) { return held && llvm::is_contained(passes, pass); }
  const SmallVector<Value> *findHeld(memref::LoadOp op);
  SmallVector<Value> foldHeld(kernel::FoldOp op);
  void runHeld(kernel::ElementsOp op);

  //===--- rows of elements -------------------------------------------------===//

  /// How chunks of all rows are numbered.
  struct Flat {
    llvm::SmallDenseMap<Operation *, Lanes> lanes; // of elements that have a dimension
    bool isOnly = false;                           // there are no others
    std::optional<unsigned> sharing;               // a row index that goes faster than chunks
    int64_t together = 1;                          // but for as many of these
  };
  Lanes findChunks(kernel::ElementsOp op);
  void findFlat();
  void findSharing(kernel::ElementsOp op);
  Value countChunks(kernel::ElementsOp op, const Lanes &lanes);
  void lowerFlat(kernel::RowsOp rows);
  void runFlat(kernel::RowsOp rows);

  //===--- transpositions ---------------------------------------------------===//

  bool findTiles();
  void lowerTiles(kernel::RowsOp rows);
  Value makeTile(Type type);

  //===--- rows -------------------------------------------------------------===//

  void mergePasses();
  void findGroup();
  void findTogether(const ::tpc::SymExpr &longest);
  void splitBlock();
  void lowerVersions(kernel::RowsOp rows);
  void lowerRows(kernel::RowsOp rows);
  void lowerRow(kernel::RowsOp rows, Value row);
  bool isOfRow(Operation *op) const;
  void lowerBarrier(kernel::BarrierOp op) override;
  Value lowerFold(kernel::FoldOp op) override;
  Value foldTogether(kernel::FoldOp op);
  SmallVector<Value> foldLoops(kernel::FoldOp op, Lanes lanes);
  SmallVector<Value> foldChunks(kernel::FoldOp op, ValueRange init, Value size, unsigned width,
                                bool wideAccess);
  /// The lanes of all terms at an index, combined with what is before.
  SmallVector<Value> foldTerms(kernel::FoldOp op, ValueRange before, Value begin, Value size,
                               unsigned width, bool wideAccess);
  Value shuffle(Value value, int32_t distance);
  Value exchange(kernel::FoldOp op, Value partial);
  void ifBlock(function_ref<void()> then);

  Launch launch;
  Value thread, inGroup, group; // of the block; in its group; which group of the block
  Value groupSize, groupBits, numGroups;
  unsigned foldsOfRow = 0;
  std::optional<bool> isBlock; // whether a group that shares folds is the block; none: at run time
  llvm::SmallDenseMap<Operation *, std::string> sharedOf; // folds

  // Folds and elements over the row's one dimension, and what they have in common.
  SmallVector<Operation *> passes;
  ::tpc::SymExpr rowSize = 1;
  Lanes rowLanes;
  unsigned chunksHeld = 0; // of a thread; 0: none
  Value rowFits;           // at run time; null: it does
  SmallVector<HeldLoad> heldLoads;
  bool needsBarriers = true; // where the row is held
  bool mayBeWide = true;     // loops that hold nothing
  std::optional<Held> held;  // in the version that holds the row
  unsigned heldChunk = 0, lane = 0;

  // Rows of elements: what is known, what of it is used here, and the chunk of this thread.
  Flat flat, used;
  Value chunkOfRow, chunksOfRow;

  // What goes through shared memory, from threads along a row index to threads along elements.
  kernel::ElementsOp tiled;
  SmallVector<Operation *> heroes;
  unsigned acrossRows = 0;

  DenseMap<Value, ConstantIntRanges> ranges;
  std::map<std::string, Value> extentValues;

  // Inside of lowerLanes.
  unsigned width = 1;
  bool wideAccess = false;
  bool asksOnce = false; // conditions on the place in a row, for lanes that follow one another
  Lanes chunk;
  SmallVector<unsigned> active; // lanes that come here
  Value lastIndex;
  DenseMap<Value, SmallVector<Value>> laneValues;
  DenseMap<Value, SmallVector<bool>> knownOfLane; // conditions
  llvm::SmallDenseSet<Value> sameOfLanes;
  std::map<Key, std::map<int64_t, Value>> loaded; // by memory and place from the first lane on
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_KERNELLOWERING_H
