//===- AttachModels.h - External models for many ops ------------*- C++ -*-===//

#ifndef TPC_DIALECT_ATTACHMODELS_H
#define TPC_DIALECT_ATTACHMODELS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Attaches Model<OpT> to each OpT.
template <template <typename> class Model, typename... Ops>
void attachModels(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

namespace detail {
template <template <typename> class Model, typename OpT> void attachIfScalar(MLIRContext *context) {
  if constexpr (OpT::template hasTrait<ScalarOpInterface::Trait>())
    OpT::template attachInterface<Model<OpT>>(*context);
}
template <template <typename> class Model, typename... Ops>
void attachToScalarsOf(MLIRContext *context) {
  (attachIfScalar<Model, Ops>(context), ...);
}
} // namespace detail

/// Attaches Model<OpT> to each element-wise op. Ops with a more specific model specialize Model.
template <template <typename> class Model> void attachToScalarOps(MLIRContext *context) {
  detail::attachToScalarsOf<Model,
#define GET_OP_LIST
#include "tpc/Dialect/TpcOps.cpp.inc"
                            >(context);
}

} // namespace mlir::tpc

#endif // TPC_DIALECT_ATTACHMODELS_H
