//===- Inputs.cpp - What programs are run with ----------------------------===//

#include "Inputs.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/InputDefault.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

/// Rows of the smallest table that `value` indexes, through ops that keep ids.
static int64_t getIdBound(Value value, World &world) {
  int64_t bound = INT64_MAX;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isa<EmbeddingOp>(user) && use.getOperandNumber() == 1)
      bound = std::min(bound, world.getWholeShape(user->getOperand(0).getType())[0]);
    else if (auto gather = dyn_cast<GatherNDOp>(user); gather && use.getOperandNumber() == 1)
      bound =
          std::min(bound, world.getWholeShape(gather.getData().getType())[gather.getBatchDims()]);
    else if (isa<ReshapeOp, CastOp, TransposeOp, ReshardOp, LocalSliceOp>(user))
      bound = std::min(bound, getIdBound(user->getResult(0), world));
  }
  return bound;
}

template <typename A>
static Tensor<typename A::Element> makeInput(BlockArgument argument, DictionaryAttr attrs,
                                             World &world) {
  Tensor<typename A::Element> tensor(world.getWholeShape(argument.getType()));
  Type element = getElementTypeOrSelf(argument.getType());
  std::optional<InputDefault> kind = InputDefault::get(attrs);
  int64_t last = tensor.shape.empty() ? 1 : std::max<int64_t>(1, tensor.shape.back());
  int64_t bound = getIdBound(argument, world);
  bound = bound == INT64_MAX || bound == 0 ? 7 : bound;
  uint64_t key = hashText("input") + argument.getArgNumber();
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    uint64_t x = hash(key, i);
    int64_t row = i / last, column = i % last;
    if (kind && kind->kind == InputDefault::Kind::Ones)
      tensor.data[i] = A::masksHideRows && row % 3 == 2 ? 0 : column >= row % last;
    else if (kind)
      tensor.data[i] = column;
    else if (element.isInteger(1))
      tensor.data[i] = x % 4 != 0;
    else if (isa<IntegerType>(element))
      tensor.data[i] = A::fromInteger(int64_t(x % (2 * bound)) - bound);
    else
      tensor.data[i] = A::random(key, i);
  }
  return tensor;
}

template <typename A>
std::vector<Tensor<typename A::Element>> interpret::makeInputs(func::FuncOp main, World &world) {
  std::vector<Tensor<typename A::Element>> inputs;
  for (BlockArgument argument : main.getArguments())
    inputs.push_back(makeInput<A>(argument, main.getArgAttrDict(argument.getArgNumber()), world));
  return inputs;
}

template std::vector<Tensor<double>> interpret::makeInputs<Doubles>(func::FuncOp, World &);
template std::vector<Tensor<uint64_t>> interpret::makeInputs<Field>(func::FuncOp, World &);
