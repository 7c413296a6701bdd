//===- CastMatmuls.cpp - Matmuls in a 16-bit type -------------------------===//

#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Backward/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_CASTMATMULS
#include "tpc/Transforms/Backward/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct CastMatmuls : mlir::tpc::impl::CastMatmulsBase<CastMatmuls> {
  using CastMatmulsBase::CastMatmulsBase;

  void runOnOperation() override {
    Builder builder(&getContext());
    Type narrow = type == "bf16" ? Type(builder.getBF16Type()) : Type(builder.getF16Type());
    if (type != "bf16" && type != "f16") {
      emitError(getOperation().getLoc()) << "type=" << type << ": expected bf16 or f16";
      return signalPassFailure();
    }
    getOperation().walk([&](MatmulOp op) {
      if (!elementTypeOf(op.getResult()).isF32() || !elementTypeOf(op.getLhs()).isF32() ||
          !elementTypeOf(op.getRhs()).isF32())
        return;
      OpBuilder b(op);
      auto cast = [&](Value v, Type element) -> Value {
        return CastOp::create(b, op.getLoc(), makeTensorType(element, getSizes(v)), v);
      };
      Value result = MatmulOp::create(b, op.getLoc(), cast(op.getLhs(), narrow),
                                      cast(op.getRhs(), narrow), Value());
      result = cast(result, builder.getF32Type());
      if (op.getBias())
        result = AddOp::create(b, op.getLoc(), result, op.getBias());
      op.getResult().replaceAllUsesWith(result);
      op.erase();
    });
  }
};
} // namespace
