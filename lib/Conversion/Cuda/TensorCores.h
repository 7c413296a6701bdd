//===- TensorCores.h - Emitter of tensor core instructions ------*- C++ -*-===//
//
// Warp-wide matmuls of 16-bit elements with f32 sums, and their tiles in shared memory. All are
// available from sm_80 on.
//
// Fragments of mma.m16n8k16 (PTX manual, "Matrix Fragments for mma.m16n8k16"), for lane 4 g + t.
// A register of A or B has two adjacent elements, of columns of A and of rows of B:
//
//   A[16, 16]   a0: row g, columns 2t, 2t+1       a1: row g+8, the same columns
//   A[16, 16]   a2: row g, columns 2t+8, 2t+9     a3: row g+8, the same columns
//   B[16, 8]    b0: rows 2t, 2t+1, column g       b1: rows 2t+8, 2t+9, column g
//   C[16, 8]    c0, c1: row g, columns 2t, 2t+1   c2, c3: row g+8, the same columns
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CUDA_TENSORCORES_H
#define TPC_LIB_CONVERSION_CUDA_TENSORCORES_H

#include "ThreadEmitter.h"

namespace mlir::tpc::cuda {

/// Layout of a tile of 16-bit elements in shared memory. A row has chunks of 16 bytes. The chunks
/// with the same number of 8 adjacent rows are in different banks, so that ldmatrix and copies of
/// whole rows have no conflicts: if the chunks of a row fill all banks, their numbers are XORed
/// with the row's; otherwise a row is an odd number of chunks long.
struct TileLayout {
  /// `size`: number of elements of a row, which is padded to whole fragments.
  TileLayout(unsigned rows, unsigned size);

  unsigned rows, size;
  unsigned chunks;     // with padding, even
  unsigned usedChunks; // with elements
  unsigned rowBytes;   // distance of rows
  bool isSwizzled;
  unsigned getBytes() const { return rows * rowBytes; }
};

inline constexpr unsigned kChunkBytes = 16, kChunkElements = 8;
/// Rows of A and C, columns of B and C, and columns of A.
inline constexpr unsigned kMmaRows = 16, kMmaColumns = 8, kMmaDepth = 16;

class TensorCoreEmitter : protected ThreadEmitter {
protected:
  using ThreadEmitter::ThreadEmitter;

  //===--- tiles ------------------------------------------------------------===//

  /// Returns the offset of a chunk in bytes.
  Value getChunkOffset(const TileLayout &layout, Value row, Value chunk);
  /// Offsets of this lane's row for ldmatrix, by chunk modulo 8, for even chunks. All fragments are
  /// at constant distances from these.
  struct LaneOffsets {
    const TileLayout *layout = nullptr;
    Values byChunk;
  };
  /// `isColumnMajor`: matrices 1 and 2 of the four are exchanged: 1 is to the right of 0, not
  /// below.
  LaneOffsets getLaneOffsets(const TileLayout &layout, Value lane, Value firstRow,
                             bool isColumnMajor);
  /// Loads the four 8x8 matrices of rows [row, row + 16) and of chunks `chunk` and `chunk + 1`.
  /// `row` is a multiple of 8, `chunk` is even. `transposed`: each matrix is transposed.
  Values loadMatrices(Value tile, const LaneOffsets &offsets, unsigned row, unsigned chunk,
                      bool transposed);

  //===--- instructions -----------------------------------------------------===//

  /// Returns A B + C of one warp. `element` is f16 or bf16; A has four registers, B two, C four.
  Values multiply(Type element, ValueRange a, ValueRange b, ValueRange c);
  /// The same for A[16, 8] of TF32, B[8, 8], both f32 registers whose lower 13 bits are 0: four and
  /// two. Of A, a0: row g, column t; a1: row g+8; a2, a3: column t+4. b0: row t, column g; b1: row
  /// t+4.
  Values multiplyTf32(ValueRange a, ValueRange b, ValueRange c);
  /// Returns two f32 rounded to `element`, as a register.
  Value pack(Value low, Value high, Type element);
  /// Returns 2^x with an error of at most 2 ulp; results below 2^-126 become 0.
  Value exp2(Value x);

  /// Copies 16 bytes from global to shared memory. `bytes`: number of bytes that are read, 16 or 0;
  /// zeros replace the others; null: 16.
  void copyAsync(Value to, Value from, Value bytes = {});
  /// Ends a group of copies of this thread.
  void endCopyGroup();
  /// Waits for all groups of this thread except for the `pending` last ones.
  void waitForCopies(unsigned pending);
};

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_TENSORCORES_H
