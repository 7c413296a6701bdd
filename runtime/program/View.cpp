//===- View.cpp - One rank's shard of a parameter -------------------------===//

#include "program/View.h"
#include "core/Device.h"

namespace tpc::rt {

/// Sets `local` to the elements of `factor` from `begin` on; evenly spaced if possible.
static void takeOffsets(ViewFactor &local, const ViewFactor &factor, int64_t begin) {
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < local.size; ++i)
    offsets.push_back(factor.at(begin + i) - factor.at(begin));
  local.stride = local.size > 1 ? offsets[1] : 0;
  bool even = true;
  for (int64_t i = 0; i < local.size; ++i)
    even &= offsets[i] == i * local.stride;
  if (!even)
    local.offsets = std::move(offsets);
}

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
    std::vector<ViewFactor> factors;
    for (const ViewFactor &factor : dim) {
      Part part{0, factor.size};
      for (int axis : factor.axes) {
        Part inner = partOf(part.size, grid.axes()[axis].size, coordinates[axis]);
        part = {part.offset + inner.offset, inner.size};
      }
      ViewFactor localFactor{part.size, factor.stride, {}, {}};
      if (part.size > 0)
        view.offset += factor.at(part.offset);
      if (!factor.offsets.empty())
        takeOffsets(localFactor, factor, part.offset);
      factors.push_back(std::move(localFactor));
    }
    view.dims.push_back(std::move(factors));
  }
  return view;
}

tpc_dtype storedType(const Parameter &parameter) {
  if (!parameter.matmulRhs)
    return parameter.dtype;
  return static_cast<tpc_dtype>(deviceKind().storedType(parameter.dtype, parameter.sourceDtype));
}

int64_t localBytes(const Parameter &parameter, const Manifest &manifest, int rank) {
  if (parameter.isShared())
    return 0;
  return localView(parameter, manifest.grid, manifest.grid.coordinatesOf(rank)).count() *
         dtypeBytes(storedType(parameter));
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
    int64_t bytes = view.count() * dtypeBytes(storedType(parameter));
    (split ? result.sharded : result.replicated) += bytes;
    if (parameter.matmulRhs)
      result.padding +=
          deviceKind().matrixBytes(view.shape()[0], view.shape()[1], storedType(parameter)) - bytes;
  }
  return result;
}

TrainingBytes trainingBytesOf(const Manifest &manifest, int rank) {
  TrainingBytes result;
  auto coordinates = manifest.grid.coordinatesOf(rank);
  for (const Parameter &parameter : manifest.parameters) {
    if (parameter.stage != manifest.stageOf(rank) || parameter.isShared())
      continue;
    int64_t bytes = localView(parameter, manifest.grid, coordinates).count() *
                    dtypeBytes(storedType(parameter));
    bool isWeight = parameter.file >= 0;
    (isWeight ? result.weights : result.state) += bytes;
    if (isWeight && parameter.isUpdated)
      result.gradients += bytes;
  }
  return result;
}

} // namespace tpc::rt
