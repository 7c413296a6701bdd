//===- FixInputs.cpp - Replacement of optional inputs by defaults ---------===//

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
  /// Returns the number of past tokens for an input of positions: `past` of its default if set, 0
  /// without a mask, otherwise the columns of the mask (past and new tokens) minus the positions.
  FailureOr<SymExpr> getPast(func::FuncOp main, unsigned input, InputDefaultAttr inputDefault) {
    if (inputDefault.getPast())
      return inputDefault.getPast().getExpr();
    if (!inputDefault.getMask())
      return SymExpr(0);
    for (BlockArgument mask : main.getArguments()) {
      if (main.getArgAttr(mask.getArgNumber(), kNameAttr) != inputDefault.getMask())
        continue;
      SmallVector<SymExpr> sizes = getSizes(mask), own = getSizes(main.getArgument(input));
      if (sizes.size() == 2 && !own.empty())
        return sizes[1] - own.back();
    }
    return main.emitError() << "argument " << input << ": there is no mask "
                            << inputDefault.getMask()
                            << " [batch, tokens] to derive the number of past tokens from";
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
      InputDefaultAttr inputDefault = InputDefaultAttr::lookup(main.getArgAttrDict(i));
      if (!inputDefault) {
        // Removes unused caches: those of size 0 (the file is valid only for an empty past), and
        // those of the other branch of a merged decoder.
        auto name = main.getArgAttrOfType<StringAttr>(i, kNameAttr);
        if (argument.use_empty() && (llvm::is_contained(getSizes(argument), SymExpr(0)) ||
                                     (name && name.getValue().starts_with("past_key_values"))))
          fixed.set(i);
        continue;
      }
      auto type = cast<RankedTensorType>(argument.getType());
      Value value;
      if (inputDefault.getKind() == InputDefaultKind::Ones) {
        value = createSplat(builder, argument.getLoc(), type, 1);
      } else {
        FailureOr<SymExpr> past = getPast(main, i, inputDefault);
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
