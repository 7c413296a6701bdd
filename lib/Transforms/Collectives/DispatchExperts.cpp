//===- DispatchExperts.cpp - Exchange of tokens with the ranks of experts -===//
//
// With experts split over replicas, each rank gathers the tokens of all replicas, computes its
// experts, and the results are reduce-scattered. A token needs only the ranks of its experts, so
// tokens are sent to these ranks only if this is estimated to be faster.
//
//===----------------------------------------------------------------------===//

#include "tpc/Analysis/LinkModel.h"
#include "tpc/Analysis/Nominal.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Transforms/Collectives/Passes.h"
#include "tpc/Transforms/Collectives/Reshard.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_DISPATCHEXPERTS
#include "tpc/Transforms/Collectives/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using ::tpc::Transfer;

namespace {

/// Columns [column, column + size) of a gathered value, used by experts only.
struct Gathered {
  AllGatherOp gather;
  int64_t column = 0;
};

std::optional<Gathered> getGathered(Value v) {
  Gathered found;
  if (!v.hasOneUse())
    return std::nullopt;
  if (auto slice = v.getDefiningOp<SliceOp>()) {
    auto start = slice.getStart().asConstant();
    if (slice.getDim() != 1 || !start || slice.getStep() != 1)
      return std::nullopt;
    found.column = *start;
    v = slice.getOperand();
  }
  found.gather = v.getDefiningOp<AllGatherOp>();
  bool fits = found.gather && found.gather.getDim() == 0 && rankOf(v) == 2 &&
              found.gather.getAxes().size() == 1;
  return fits ? std::optional(found) : std::nullopt;
}

class Dispatcher {
public:
  explicit Dispatcher(ModuleOp module)
      : grid(MeshAttr::lookup(module)), links(module), symbols(getNominalSymbols(module)) {}

  /// Replaces the gathers and the scatter around the experts by an exchange of tokens (all-to-all),
  /// if `force` is set or if the exchange is estimated to be faster. Returns whether it did.
  /// `ownSeconds`: time of a dispatch or a combine apart from its messages.
  bool dispatch(MoeOp moe, bool force, double ownSeconds);

private:
  Type localType(Value like, DistAttr dist) const {
    return makeTensorType(getElementTypeOrSelf(like.getType()), dist.withLocal(true), grid);
  }
  double getSeconds(CollectiveOpInterface op) const;

  MeshAttr grid;
  LinkModel links;
  Symbols symbols;
};

double Dispatcher::getSeconds(CollectiveOpInterface op) const {
  auto axes = llvm::to_vector(op.getAxesAttr().getAsRange<StringAttr>());
  std::map<std::string, int64_t> coordinates;
  if (op.sendsOnlyMissing()) { // a message with the number of rows, then the rows
    auto bytes = op.getMaxMemberBytes(grid, coordinates, symbols);
    return links.getSeconds(Transfer::Exchange, axes, 0) +
           links.getSeconds(Transfer::Exchange, axes, double(bytes.value_or(INT64_MAX)));
  }
  bool gathers = isa<AllGatherOp>(op);
  Value whole = gathers ? op->getResult(0) : op->getOperand(0);
  auto bytes = getLocalBytes(whole.getType(), grid, coordinates, symbols);
  return links.getSeconds(gathers ? Transfer::AllGather : Transfer::ReduceScatter, axes,
                          double(bytes.value_or(0)));
}

bool Dispatcher::dispatch(MoeOp moe, bool force, double ownSeconds) {
  auto x = getGathered(moe.getX()), routing = getGathered(moe.getRouting());
  if (!x || !routing || !moe->hasOneUse() || x->gather.getAxes() != routing->gather.getAxes())
    return false;
  auto scatter = dyn_cast<ReduceScatterOp>(*moe->user_begin());
  if (!scatter || scatter.getDim() != 0 || scatter.getAxes() != x->gather.getAxes())
    return false;
  SmallVector<Operation *> old{x->gather, routing->gather, scatter};
  if (x->gather == routing->gather)
    old.erase(old.begin());
  for (Operation *gather : ArrayRef(old).drop_back())
    for (Operation *user : gather->getUsers())
      if (user != moe && (!isa<SliceOp>(user) ||
                          !llvm::all_of(user->getUsers(), [&](Operation *u) { return u == moe; })))
        return false;
  auto axis = cast<StringAttr>(x->gather.getAxes()[0]);
  DimAttr experts = getDist(moe.getUp()).getDims()[0];
  DimAttr tokens = getDist(x->gather.getOperand()).getDims()[0];
  bool isRange =
      !tokens.getAxes().empty() || llvm::is_contained(tokens.getFactors()[0].getAxes(), axis);
  if (!experts.usesAxis(axis) || experts.getFactors().size() != 1 || !isRange ||
      (!experts.getAxes().empty() && !experts.getFactors()[0].getAxes().empty()) ||
      !experts.getExpr().isConstant() || !getSizes(moe.getX())[1].isConstant())
    return false;

  // A row that is sent has a token's operand of the experts, then its routing weights.
  OpBuilder b(moe);
  Location loc = moe.getLoc();
  Value rows = x->gather.getOperand();
  int64_t column = routing->column, hidden = *getSizes(moe.getX())[1].asConstant();
  if (x->gather != routing->gather) {
    if (getSizes(rows)[1] != getSizes(moe.getX())[1] || x->column != 0 || routing->column != 0)
      return false;
    column = hidden;
    DistAttr dist = getDist(rows);
    dist = withDim(dist, 1, DimAttr::get(b.getContext(), getSizes(rows)[1] + experts.getExpr()));
    rows = ConcatOp::create(b, loc, localType(rows, dist),
                            ValueRange{rows, routing->gather.getOperand()}, 1);
  }
  DistAttr whole = getDist(x->gather.getResult());
  whole = withDim(whole, 1, getDist(rows).getDims()[1]);
  auto dispatch = DispatchOp::create(b, loc, localType(rows, whole), rows, x->gather.getAxes(),
                                     column, experts, moe.getTopK());
  b.setInsertionPoint(scatter);
  auto combine = CombineOp::create(b, scatter.getLoc(), scatter.getType(), moe.getResult(),
                                   scatter.getAxes(), experts, moe.getTopK());
  double seconds = 0;
  for (Operation *op : old)
    seconds += getSeconds(cast<CollectiveOpInterface>(op));
  if (!force && seconds <= getSeconds(dispatch) + getSeconds(combine) + 2 * ownSeconds) {
    combine.erase();
    dispatch.erase();
    if (auto concat = rows.getDefiningOp<ConcatOp>(); concat && concat->use_empty())
      concat.erase();
    return false;
  }
  b.setInsertionPointAfter(dispatch);
  auto take = [&](Value like, int64_t start) -> Value {
    return SliceOp::create(b, loc, like.getType(), dispatch.getResult(), 1, SymExpr(start), 1);
  };
  Value newX = take(moe.getX(), x->column), newRouting = take(moe.getRouting(), column);
  SmallVector<Operation *> parts{moe.getX().getDefiningOp(), moe.getRouting().getDefiningOp()};
  moe.getXMutable().assign(newX);
  moe.getRoutingMutable().assign(newRouting);
  scatter.getResult().replaceAllUsesWith(combine.getResult());
  parts.append(old);
  for (Operation *op : parts)
    if (isa<SliceOp, ReduceScatterOp>(op))
      op->erase();
  for (Operation *gather : ArrayRef(old).drop_back()) {
    for (Operation *unused : llvm::make_early_inc_range(gather->getUsers()))
      unused->erase();
    gather->erase();
  }
  return true;
}

struct DispatchExperts : public mlir::tpc::impl::DispatchExpertsBase<DispatchExperts> {
  using DispatchExpertsBase::DispatchExpertsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (form != "auto" && form != "gather" && form != "all-to-all") {
      module.emitError() << "'" << form.getValue() << "' is not auto, gather or all-to-all";
      return signalPassFailure();
    }
    if (!MeshAttr::lookup(module) || form == "gather")
      return;
    Dispatcher dispatcher(module);
    SmallVector<MoeOp> ops;
    module.walk([&](MoeOp op) { ops.push_back(op); });
    for (MoeOp op : ops)
      dispatcher.dispatch(op, form == "all-to-all", seconds);
  }
};

} // namespace
