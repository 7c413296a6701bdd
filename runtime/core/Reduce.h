//===- Reduce.h - Reduction of the members' tensors -----------------------===//

#ifndef TPC_RT_CORE_REDUCE_H
#define TPC_RT_CORE_REDUCE_H

#include "tpc/runtime.h"
#include <cstdint>

namespace tpc::rt {

/// Whether `reduce` supports the reduction of the type.
bool canReduce(int32_t dtype, int32_t reduction);

/// out[i] = in[0][i] op in[1][i] op ..., from left to right, over `members` inputs (at least one).
/// `out` may be one of the inputs. Integer sums wrap; max and min give NaN if any element is NaN.
/// 16-bit floats are reduced in f32 and rounded once.
void reduce(tpc_dtype dtype, tpc_reduction reduction, void *out, const void *const *in, int members,
            int64_t count);

} // namespace tpc::rt

#endif // TPC_RT_CORE_REDUCE_H
