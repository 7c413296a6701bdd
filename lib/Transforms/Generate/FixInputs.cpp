//===- FixInputs.cpp - Inputs become what they are when they are left out -===//

#include "../Model/Constants.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Generate/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_FIXINPUTS
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct FixInputs : public mlir::tpc::impl::FixInputsBase<FixInputs> {
  /// How many tokens lie before those that an input of positions is about. A mask is of the past as
  /// well.
  FailureOr<SymExpr> getPast(func::FuncOp main, unsigned input, InputDefaultAttr left) {
    if (left.getPast())
      return left.getPast().getExpr();
    if (!left.getMask())
      return SymExpr(0);
    for (BlockArgument mask : main.getArguments()) {
      if (main.getArgAttr(mask.getArgNumber(), kNameAttr) != left.getMask())
        continue;
      SmallVector<SymExpr> sizes = getSizes(mask), own = getSizes(main.getArgument(input));
      if (sizes.size() == 2 && !own.empty())
        return sizes[1] - own.back();
    }
    return main.emitError() << "argument " << input << ": there is no mask " << left.getMask()
                            << " [batch, tokens] that says how many tokens lie before these";
  }

  Value makePositions(OpBuilder &builder, Location loc, RankedTensorType type,
                      const SymExpr &past) {
    Value positions = IotaOp::create(builder, loc, type, type.getRank() - 1);
    if (past.isConstant(0))
      return positions;
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Value first = SizeOp::create(builder, loc, scalar, past);
    return AddOp::create(builder, loc, type, positions, first);
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    BitVector fixed(main.getNumArguments());
    OpBuilder builder = OpBuilder::atBlockBegin(&main.front());
    for (BlockArgument argument : main.getArguments()) {
      unsigned i = argument.getArgNumber();
      InputDefaultAttr left = InputDefaultAttr::lookup(main.getArgAttrDict(i));
      if (!left)
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      Value value;
      if (left.getKind() == InputDefaultKind::Ones) {
        value = createSplat(builder, argument.getLoc(), type, 1);
      } else {
        FailureOr<SymExpr> past = getPast(main, i, left);
        if (failed(past))
          return signalPassFailure();
        value = makePositions(builder, argument.getLoc(), type, *past);
      }
      argument.replaceAllUsesWith(value);
      fixed.set(i);
    }
    (void)main.eraseArguments(fixed);
  }
};
} // namespace
