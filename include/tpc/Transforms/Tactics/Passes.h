//===- Passes.h - Which axes split which factors --------------*- C++ -*-===//

#ifndef TPC_TRANSFORMS_TACTICS_PASSES_H
#define TPC_TRANSFORMS_TACTICS_PASSES_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Transforms/Tactics/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Transforms/Tactics/Passes.h.inc"

/// The tactics that `spec` stands for, in the order in which they run; see
/// AssignShardings' option `tactics`.
SmallVector<std::string> getTacticNames(const ::tpc::ShardSpec &spec);

/// The grid that --megatron-shard asks for, as programs carry it.
GridAttr makeGrid(MLIRContext *context, const ::tpc::ShardSpec &spec);

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_TACTICS_PASSES_H
