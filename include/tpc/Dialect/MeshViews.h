//===- MeshViews.h - Views of the axes of #tpc.grid -------------*- C++ -*-===//
//
// The axes of #tpc.grid are the atoms of a mesh. A view is an axis of the dense grid or of the grid
// of experts, such as dp or ep: a list of atoms (see Mesh.h).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_MESHVIEWS_H
#define TPC_DIALECT_MESHVIEWS_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Support/Mesh.h"

namespace mlir::tpc {

/// Returns the axes of the grid that are part of `view`, by ascending stride.
SmallVector<StringAttr> getViewAxes(GridAttr grid, StringRef view);
/// Returns the number of ranks along a view; 1 without a grid.
int64_t getViewSize(GridAttr grid, StringRef view);

} // namespace mlir::tpc

#endif // TPC_DIALECT_MESHVIEWS_H
