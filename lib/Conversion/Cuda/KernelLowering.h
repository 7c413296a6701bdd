//===- KernelLowering.h - Lowering of kernels to GPU threads ----*- C++ -*-===//
//
// A tpc_kernel.func becomes
//
//   kernel(const int64_t *env, tpc_status *status, void *operand0, …, void *result0, …)
//
// for a grid of any size. A block has 256 threads, or up to 1024 if it computes one row (Launch.h).
// If rows have folds or need barriers, threads work in groups, a warp or the block. A group
// computes a row, then continues with another one:
//
//   for item = block; item < ceil(rows / groups of a block); item += blocks
//     row = item * groups + this thread's group
//     if row < rows
//       values of the row: by each thread of the group
//       elements: chunk = thread, thread + group, …; a chunk is up to 8 adjacent elements
//       fold: the same chunks, then shuffles, then, if the group is a block, shared memory
//
// Otherwise the chunks of all rows are numbered, and threads take them in that order (Flat.cpp).
// The order in which threads combine terms depends only on sizes, not on the grid or on addresses.
//
// Values that several passes over a row read are kept in registers if there are enough registers
// (RegisterRows.cpp). Values that are read along rows and stored along elements go through shared
// memory (Tiles.cpp).
//
// Indices are 32 bits if their ranges permit (Indices.cpp); element addresses are 64 bits.
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
/// Bytes of a DRAM transaction.
inline constexpr int64_t kSector = 32;

/// Bytes of an element in memory; a boolean takes one.
inline unsigned getBytes(Type type) { return std::max(1u, type.getIntOrFloatBitWidth() / 8); }

class KernelLowering : KernelEmitter {
public:
  using KernelEmitter::NodeNames;

  KernelLowering(kernel::FuncOp source, const EnvLayout &layout, NodeNames &nodes)
      : KernelEmitter(source, layout, nodes) {}

  /// Creates the LLVM function next to its source, with the same name, and returns its launch
  /// description.
  FailureOr<Launch> lower();

private:
  LogicalResult checkExtents();
  using KernelEmitter::annotate;
  /// Other kernels of a step write operands, and ptxas may move invariant loads before the wait
  /// (tpc/dependent_launch.h).
  void annotate(LLVM::LoadOp load) override { load.setInvariant(false); }

  //===--- indices ----------------------------------------------------------===//

  void lowerScalar(Operation *op) override;
  void lowerSize(kernel::SizeOp op) override;
  void mapIndex(Value index, Value value, Value size) override;
  Value extent(const ::tpc::SymExpr &expr) override;
  Value elementAddress(Value memref, ValueRange indices) override;
  /// Returns the known range of an index or integer.
  ConstantIntRanges getRange(Value value);
  Value toWidth(Value value, unsigned width);
  Value number(int32_t value);
  Value quotient(Value x, Value y);
  Value remainder(Value x, Value y);
  Value product(ValueRange values);
  /// Returns ceil(x / y).
  Value ceilDiv(Value x, Value y);
  Value both(Value x, Value y);
  Value isEqual(Value x, Value y);

  //===--- elements ---------------------------------------------------------===//

  /// Elements that a thread computes together, and conditions for wide accesses.
  struct Lanes {
    unsigned width = 1;
    // Conditions at run time: whether rows have full chunks only, and whether pointers are aligned.
    // Null: always true.
    Value full, aligned;
    /// Offsets of the thread's elements from the first one (empty: all are adjacent); number of
    /// adjacent elements; distance to the elements of the next thread.
    SmallVector<int64_t> offsets;
    unsigned adjacent = 1;
    int64_t stride = 1;
    /// Number of threads per row, if known.
    std::optional<int64_t> count;
  };
  /// Accesses in the loops of a block, constant shifts of their indices, and positions in the row
  /// at which the value of a condition changes.
  struct Streams {
    SmallVector<std::pair<Value, ValueRange>> accesses;
    SmallVector<int64_t> cuts, shifts;
    /// Bytes of the narrowest and of the widest element.
    unsigned narrowest = 16, widest = 1;
  };
  Lanes findLanes(ArrayRef<std::pair<Block *, Value>> bodies, Value size);
  Lanes findLanes(Block &body, Value last, Value size) {
    return findLanes(std::make_pair(&body, last), size);
  }
  void addStreams(Block &body, Value last, bool cuts, Streams &streams);
  /// Reduces the number of adjacent lanes to what known sizes allow, and adds run-time conditions
  /// for other sizes.
  void align(const Streams &streams, Value size, Lanes &lanes);
  bool isAdjacent(Value memref, ValueRange indices);

  void lowerElements(kernel::ElementsOp op) override;
  void runElements(kernel::ElementsOp op, ArrayRef<Value> sizes, unsigned width);
  void lowerChunk(kernel::ElementsOp op, ArrayRef<Value> sizes, Value chunk, Value perLast,
                  const Lanes &lanes);
  /// Lowers the ops of a block for these elements along its last index, from `begin` on.
  void lowerLanes(Block &block, Value last, Value begin, Value size, const Lanes &lanes,
                  bool wideAccess);
  void lowerLanes(Block &block, Value last, Value begin, Value size, unsigned width,
                  bool wideAccess);
  void lowerLanes(Block &block);
  bool dependsOnLane(Operation *op) const;
  void forAccesses(Value memref, int64_t shift, function_ref<void(ArrayRef<unsigned>)> body);
  SmallVector<Value> loadLanes(memref::LoadOp op);
  SmallVector<Value> loadWide(memref::LoadOp op, Value begin);
  void storeWide(memref::StoreOp op);
  void branchWide(scf::IfOp op);
  void branchByLane(scf::IfOp op, ArrayRef<bool> taken);

  //===--- conditions on the position in a row ------------------------------===//

  std::optional<int64_t> getKnown(Value index);
  /// Returns the constant difference between an index and `last`.
  std::optional<int64_t> getShift(Value index, Value last);
  /// Returns the position in the row at which a condition stops being true.
  std::optional<int64_t> getCut(Value condition, Value last);
  bool lowerCut(arith::CmpIOp op);
  /// Returns the lane's value for a value of the block.
  Value getLane(Value value, unsigned lane);

  Value lowerLoad(memref::LoadOp op) override;

  //===--- rows in registers ------------------------------------------------===//

  /// Identity of a load: its memory, the indices before the last one, and the conditions around it.
  /// Passes with the same key read the same element at each index of the row.
  using Key = std::vector<const void *>;
  /// A row in the registers of a thread.
  struct RegisterRow {
    unsigned width = 1, chunks = 0;                        // lanes of a chunk; chunks of a thread
    Value size;                                            // of the row
    std::map<Key, SmallVector<SmallVector<Value>>> values; // by chunk and lane
  };
  /// The first load of a key, and its pass.
  struct RegisterLoad {
    Key key;
    memref::LoadOp load;
    Operation *pass = nullptr;
    bool again = false;     // another pass has a load with the same key
    bool ofAllRows = false; // equal for all rows, so read once before the rows
    bool stored = false;    // an earlier pass stores the values
  };

  void findPasses();
  void selectRegisterLoads(unsigned perThread);
  std::optional<Key> findKey(Value memref, ValueRange indices, Operation *access);
  void loadRegisters(Operation *pass, bool ofAllRows = false);
  SmallVector<Value> zeros(ArrayRef<Type> types);
  SmallVector<Value> ifChunk(unsigned chunk, TypeRange types,
                             function_ref<SmallVector<Value>()> then,
                             function_ref<SmallVector<Value>()> otherwise);
  Value chunkBegin(unsigned chunk);
  bool isInRegisters(Operation *pass) { return registerRow && llvm::is_contained(passes, pass); }
  const SmallVector<Value> *findRegisters(memref::LoadOp op);
  SmallVector<Value> foldInRegisters(kernel::FoldOp op);
  void runInRegisters(kernel::ElementsOp op);

  //===--- rows of elements -------------------------------------------------===//

  /// Numbering of the chunks of all rows.
  struct Flat {
    llvm::SmallDenseMap<Operation *, Lanes> lanes; // of elements that have a dimension
    bool isOnly = false;                           // rows have no other ops
    std::optional<unsigned> sharing;               // row index that varies fastest, before chunks
    int64_t together = 1;                          // adjacent chunks that precede `sharing`
  };
  Lanes findChunks(kernel::ElementsOp op);
  void findFlat();
  void findSharing(kernel::ElementsOp op);
  Value countChunks(kernel::ElementsOp op, const Lanes &lanes);
  /// Returns the number of chunks along the last dimension, of `size` elements.
  Value countChunksOfLast(Value size, const Lanes &lanes);
  void lowerFlat(kernel::RowsOp rows);
  void runFlat(kernel::RowsOp rows);

  //===--- transpositions ---------------------------------------------------===//

  bool findTiles();
  void lowerTiles(kernel::RowsOp rows);
  Value makeTile(Type type);

  //===--- rows -------------------------------------------------------------===//

  void mergePasses();
  void findGroup();
  void planCooperativeRows(const ::tpc::SymExpr &longest);
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
  /// Combines the lanes of all terms at an index with `before`.
  SmallVector<Value> foldTerms(kernel::FoldOp op, ValueRange before, Value begin, Value size,
                               unsigned width, bool wideAccess);
  Value shuffle(Value value, int32_t distance);
  Value exchange(kernel::FoldOp op, Value partial);
  void ifBlock(function_ref<void()> then);

  Launch launch;
  Value thread, inGroup, group; // in the block; in the group; index of the group
  Value groupSize, groupBits, numGroups;
  unsigned foldsOfRow = 0;
  std::optional<bool> isBlock; // whether the group is the block; nullopt: decided at run time
  llvm::SmallDenseMap<Operation *, std::string> sharedOf; // folds

  // Folds and elements over the row's one dimension, and their common properties.
  SmallVector<Operation *> passes;
  ::tpc::SymExpr rowSize = 1;
  Lanes rowLanes;
  unsigned registerChunks = 0; // of a thread, in registers; 0: none
  Value rowFits;               // run-time condition; null: always true
  SmallVector<RegisterLoad> registerLoads;
  bool needsBarriers = true;              // if the row is in registers
  bool mayBeWide = true;                  // whether other loops may use wide accesses
  std::optional<RegisterRow> registerRow; // in the version with the row in registers
  unsigned currentChunk = 0, lane = 0;

  // Flat kernels: properties, the properties that this version uses, and the chunk of this thread.
  Flat flat, used;
  Value chunkOfRow, chunksOfRow;

  // Values that go through shared memory, from threads along a row index to threads along elements.
  kernel::ElementsOp tiled;
  SmallVector<Operation *> tiledValues;
  unsigned acrossRows = 0;

  DenseMap<Value, ConstantIntRanges> ranges;
  std::map<std::string, Value> extentValues;

  // State of lowerLanes.
  unsigned width = 1;
  bool wideAccess = false;
  bool checksOnce = false; // one check of position conditions for all adjacent lanes
  Lanes chunk;
  SmallVector<unsigned> active; // lanes that reach this block
  Value lastIndex;
  DenseMap<Value, SmallVector<Value>> laneValues;
  DenseMap<Value, SmallVector<bool>> knownOfLane; // conditions
  llvm::SmallDenseSet<Value> sameOfLanes;
  std::map<Key, std::map<int64_t, Value>> loaded; // by memory and offset from the first lane
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_KERNELLOWERING_H
