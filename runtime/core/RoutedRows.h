//===- RoutedRows.h - Rows of tokens in messages ----------------*- C++ -*-===//
//
// Rows of a tensor that the members of a group exchange (tpc_dispatch, tpc_combine). A row has
// `width` elements; those from `column` on are weights of `experts` experts, which a dispatch
// sends only if they are not 0. A combine sends whole rows: it has no weights.
//
// A message is
//
//   bits   for each row: one for each weight for the receiver's experts (dispatch), or one
//          (combine); set if the weight, or an element of the row, is not 0
//   data   for each row with a bit that is set: its elements without weights, then its weights
//          whose bits are set
//
// The sizes of all bits follow from the sizes of the tensor, those of the data from the bits.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_ROUTEDROWS_H
#define TPC_RT_CORE_ROUTEDROWS_H

#include <cstddef>
#include <cstdint>

namespace tpc::rt {

/// One message: its rows and weights, and its offsets in the buffers of RoutedRows.
struct RoutedPart {
  int64_t firstRow, rows;       ///< rows of the tensor
  int64_t firstWeight, weights; ///< the weights for the receiver's experts; none in a combine
  int64_t bits;                 ///< offset in bytes, a multiple of 4
  int64_t places;               ///< index of the first row's place
  int64_t data;                 ///< offset in elements
};

/// Messages, in the memory of a device. Places and sizes are in elements and less than 2^31.
struct RoutedRows {
  int32_t dtype; ///< TPC_F32, TPC_F16 or TPC_BF16
  bool combines;
  int64_t width, column, experts; ///< in a combine `experts` is 0 and `column` is `width`
  const RoutedPart *parts;
  int64_t numParts;
  int64_t maxRows, maxBits; ///< maxima over the parts
  uint8_t *bits;
  int32_t *places; ///< for each row: the offset of its data in the part's, or -1 if it has none
  int32_t *sizes;  ///< for each part: the size of its data
  void *data;

  int64_t bitsOf(const RoutedPart &part) const { return part.rows * (combines ? 1 : part.weights); }
};

/// Work of a device (Device::exchangeRows), in this order.
enum class RoutedWork {
  Select, ///< tensor -> bits
  Locate, ///< bits -> places, sizes
  Pack,   ///< tensor, places -> data
  /// data, bits, places -> tensor. A dispatch writes zeros to rows without data and to other
  /// weights. A combine adds the parts in order, in f32, and rounds once.
  Unpack,
};

/// Computes on the host. `tensor` is null for Locate, and written by Unpack.
void exchangeRowsOnHost(RoutedWork work, const RoutedRows &rows, void *tensor);

} // namespace tpc::rt

#endif // TPC_RT_CORE_ROUTEDROWS_H
