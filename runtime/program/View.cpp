//===- View.cpp - one rank's part of a parameter --------------------------===//

#include "program/View.h"
#include "cpu/Compute.h"

namespace tpc::rt {

Shape LocalView::shape() const {
  Shape shape;
  for (const auto &dim : dims) {
    int64_t size = 1;
    for (const ViewFactor &factor : dim)
      size *= factor.size;
    shape.push_back(size);
  }
  return shape;
}

LocalView localView(const Parameter &parameter, const Grid &grid,
                    const std::vector<int64_t> &coordinates) {
  LocalView view;
  view.offset = parameter.viewOffset;
  for (const auto &dim : parameter.dims) {
    std::vector<ViewFactor> local;
    for (const ViewFactor &factor : dim) {
      Part part{0, factor.size};
      for (int axis : factor.axes) {
        Part inner = partOf(part.size, grid.axes()[axis].size, coordinates[axis]);
        part = {part.offset + inner.offset, inner.size};
      }
      view.offset += part.offset * factor.stride;
      local.push_back({part.size, factor.stride, {}});
    }
    view.dims.push_back(std::move(local));
  }
  return view;
}

int64_t localBytes(const Parameter &parameter, const Manifest &manifest, int rank) {
  if (parameter.isShared())
    return 0;
  return localView(parameter, manifest.grid, manifest.grid.coordinatesOf(rank)).count() *
         dtypeBytes(parameter.dtype);
}

WeightBytes weightBytesOf(const Manifest &manifest, int rank) {
  WeightBytes result;
  auto coordinates = manifest.grid.coordinatesOf(rank);
  for (const Parameter &parameter : manifest.parameters) {
    if (parameter.stage != manifest.stageOf(rank) || parameter.isShared())
      continue;
    LocalView view = localView(parameter, manifest.grid, coordinates);
    bool split = false;
    for (const auto &dim : parameter.dims)
      for (const ViewFactor &factor : dim)
        for (int axis : factor.axes)
          split |= manifest.grid.axes()[axis].size > 1;
    int64_t bytes = view.count() * dtypeBytes(parameter.dtype);
    (split ? result.sharded : result.replicated) += bytes;
    if (parameter.matmulRhs)
      result.padding += PackedMatrix::bytesFor(view.shape()[0], view.shape()[1]) - bytes;
  }
  return result;
}

} // namespace tpc::rt
