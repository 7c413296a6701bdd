//===- UploadWeights.h - Upload of tensor slices by a device's weight loader ===//

#ifndef TPC_RT_PROGRAM_UPLOADWEIGHTS_H
#define TPC_RT_PROGRAM_UPLOADWEIGHTS_H

#include "core/Device.h"
#include "core/WeightLoader.h"
#include "program/View.h"

namespace tpc::rt {

/// Uploads the elements of `view`, row-major, to device address `to`. `data`: the tensor in the
/// mapped file. If `rowStride` is not 0, the view has two dimensions, and its rows are `rowStride`
/// elements apart; else it is dense.
void upload(Device &device, WeightLoader &loader, const LocalView &view, tpc_dtype dtype,
            tpc_dtype sourceDtype, const std::byte *data, void *to, int64_t rowStride = 0);

/// The same for random elements.
void uploadRandom(WeightLoader &loader, const LocalView &view, tpc_dtype dtype,
                  tpc_dtype sourceDtype, const Generator &generator, void *to,
                  int64_t rowStride = 0);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_UPLOADWEIGHTS_H
