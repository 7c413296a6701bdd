//===- MutateColumns.cpp - Faults in merged results and fused matmuls -----===//

#include "Mutate.h"

#include "tpc/Dialect/State.h"
#include "tpc/Kernel/Kernel.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static bool shiftColumns(Mutator &m) {
  auto columns = m.pickAny<buffer::ColumnsOp>();
  if (columns)
    columns.setFromAttr(add(m, columns.getFrom(), m.draw(2) ? 1 : -1));
  return bool(columns);
}

static bool otherWidth(Mutator &m) {
  auto columns = m.pickAny<buffer::ColumnsOp>();
  if (columns)
    columns.setWidthAttr(add(m, columns.getWidth(), m.draw(2) ? 1 : -1));
  return bool(columns);
}

static bool otherStride(Mutator &m) {
  auto columns = m.pickAny<buffer::ColumnsOp>();
  if (columns)
    columns.setStrideAttr(add(m, columns.getStride(), m.draw(2) ? 1 : -1));
  return bool(columns);
}

// Two results get the same columns.
static bool shareColumns(Mutator &m) {
  auto findOther = [](buffer::ColumnsOp columns) {
    for (Operation *user : columns.getWhole().getUsers())
      if (auto other = dyn_cast<buffer::ColumnsOp>(user);
          other && other.getFrom() != columns.getFrom())
        return other;
    return buffer::ColumnsOp();
  };
  auto columns = m.pick<buffer::ColumnsOp>([&](buffer::ColumnsOp c) { return bool(findOther(c)); });
  if (columns)
    columns.setFromAttr(findOther(columns).getFrom());
  return bool(columns);
}

// Takes the columns from another buffer.
static bool otherBuffer(Mutator &m) {
  auto others = [](buffer::ColumnsOp columns) {
    SmallVector<Value> found;
    for (Operation &op : *columns->getBlock()) {
      if (&op == columns)
        break;
      for (Value result : op.getResults())
        if (isa<buffer::BufferType>(result.getType()) && result != columns.getWhole() &&
            buffer::getExtent(result).getElement() == columns.getExtent().getElement())
          found.push_back(result);
    }
    return found;
  };
  auto columns = m.pick<buffer::ColumnsOp>([&](buffer::ColumnsOp c) { return !others(c).empty(); });
  if (!columns)
    return false;
  auto found = others(columns);
  columns.getWholeMutable().assign(m.drawFrom(found));
  return true;
}

// A call reads columns as if their rows were adjacent.
static bool denseStride(Mutator &m) {
  auto getColumns = [](Operation *op) -> buffer::ColumnsOp {
    if (isa<buffer::AttentionOp, buffer::AppendOp>(op))
      for (Value operand : op->getOperands())
        if (auto columns = operand.getDefiningOp<buffer::ColumnsOp>())
          return columns;
    return {};
  };
  Operation *op = m.pick<Operation *>([&](Operation *o) { return bool(getColumns(o)); });
  if (!op)
    return false;
  buffer::ColumnsOp columns = getColumns(op);
  auto strides = op->getAttrOfType<ArrayAttr>("strides");
  SmallVector<Attribute> dense;
  for (auto stride : strides.getAsRange<buffer::ExprAttr>())
    dense.push_back(stride.getExpr() == columns.getStride().getExpr() ? columns.getWidth()
                                                                      : stride);
  op->setAttr("strides", m.builder.getArrayAttr(dense));
  return true;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

namespace {
/// An operand of a kernel with a row stride.
struct Operand {
  kernel::FuncOp function;
  BlockArgument memory;
};
} // namespace

static Operand pickOperand(Mutator &m) {
  auto hasRowStride = [](kernel::FuncOp function) {
    return llvm::any_of(function.getOperandMemory(), [&](BlockArgument memory) {
      return function.getRowStride(memory).has_value();
    });
  };
  auto function = m.pick<kernel::FuncOp>(hasRowStride);
  if (!function)
    return {};
  SmallVector<BlockArgument> operands;
  for (BlockArgument memory : function.getOperandMemory())
    if (function.getRowStride(memory))
      operands.push_back(memory);
  return {function, m.drawFrom(operands)};
}

template <auto change> static bool changeKernel(Mutator &m) {
  auto [function, memory] = pickOperand(m);
  if (!function)
    return false;
  function.setRowStride(memory.getArgNumber(), change(*function.getRowStride(memory)));
  return true;
}

using Rows = kernel::FuncOp::RowStride;
static std::optional<Rows> makeLonger(Rows rows) {
  return Rows{rows.dims, rows.stride + SymExpr(1)};
}
static std::optional<Rows> addDim(Rows rows) { return Rows{rows.dims + 1, rows.stride}; }
static std::optional<Rows> makeDense(Rows) { return std::nullopt; }

// Adds 1 to the row strides of a kernel and of its tensor function, or (`isDense`) removes them.
template <bool isDense> static bool changeBoth(Mutator &m) {
  func::FuncOp picked = m.pick<func::FuncOp>([](func::FuncOp function) {
    return function->hasAttr(kKernelAttr) && function.getArgAttrsAttr() &&
           llvm::any_of(function.getArgAttrsAttr().getAsRange<DictionaryAttr>(),
                        [](DictionaryAttr attrs) { return attrs.contains(kRowStrideAttr); });
  });
  ModuleOp library = kernel::getKernels(m.module);
  if (!picked || !library)
    return false;
  auto function = library.lookupSymbol<kernel::FuncOp>(picked.getSymName());
  if (!function)
    return false;
  for (unsigned i = 0; i < picked.getNumArguments(); ++i) {
    auto rows = picked.getArgAttrOfType<ArrayAttr>(i, kRowStrideAttr);
    if (!rows)
      continue;
    auto stride = add(m, cast<buffer::ExprAttr>(rows[1]), 1);
    if (isDense)
      picked.removeArgAttr(i, kRowStrideAttr);
    else
      picked.setArgAttr(i, kRowStrideAttr, m.builder.getArrayAttr({rows[0], stride}));
  }
  for (BlockArgument memory : function.getOperandMemory())
    if (auto rows = function.getRowStride(memory))
      function.setRowStride(memory.getArgNumber(), isDense ? std::nullopt : makeLonger(*rows));
  return true;
}

//===----------------------------------------------------------------------===//
// Fused matmuls
//===----------------------------------------------------------------------===//

static buffer::FusedOp pickNorm(Mutator &m) {
  return m.pick<buffer::FusedOp>(
      [](buffer::FusedOp op) { return op.getNorm() != buffer::Norm::None; });
}

static bool otherNorm(Mutator &m) {
  buffer::FusedOp op = pickNorm(m);
  if (op)
    op.setNorm(op.getNorm() == buffer::Norm::Rms ? buffer::Norm::Layer : buffer::Norm::Rms);
  return bool(op);
}

static bool otherEpsilon(Mutator &m) {
  buffer::FusedOp op = pickNorm(m);
  if (op)
    op.setEpsilon(APFloat(op.getEpsilon().convertToDouble() * 1.001));
  return bool(op);
}

// Replaces the source by another buffer of the same size, or exchanges scale and shift.
static bool otherNormOperand(Mutator &m) {
  buffer::FusedOp op = pickNorm(m);
  if (!op)
    return false;
  if (op.getShift() && m.draw(2)) {
    Value scale = op.getScale();
    op.getScaleMutable().assign(op.getShift());
    op.getShiftMutable().assign(scale);
  } else {
    op.getSourceMutable().assign(op.getProduct().getX());
  }
  return true;
}

static bool otherFusedActivation(Mutator &m) {
  auto op = m.pick<buffer::FusedOp>(
      [](buffer::FusedOp op) { return op.getActivation() != buffer::Epilogue::None; });
  if (op)
    op.setActivation(op.getActivation() == buffer::Epilogue::GeluTanh ? buffer::Epilogue::GeluErf
                                                                      : buffer::Epilogue::GeluTanh);
  return bool(op);
}

ArrayRef<Mutation> mutate::getColumnMutations() {
  static constexpr Mutation mutations[] = {
      {"columns-shifted", "columns begin one earlier or later", shiftColumns},
      {"columns-other-width", "there is one column more or less", otherWidth},
      {"columns-other-stride", "rows have another length", otherStride},
      {"columns-shared", "two results have the same columns", shareColumns},
      {"columns-other-buffer", "columns are those of another buffer", otherBuffer},
      {"columns-dense-call", "attention or an append reads columns as dense rows", denseStride},
      {"columns-kernel-stride", "a kernel reads rows with a larger stride",
       changeKernel<makeLonger>},
      {"columns-kernel-rows", "a kernel counts one dimension more as rows", changeKernel<addDim>},
      {"columns-kernel-dense", "a kernel reads columns as dense rows", changeKernel<makeDense>},
      {"columns-both-stride", "a kernel and its tensor function have a larger row stride",
       changeBoth<false>},
      {"columns-both-dense", "a kernel and its tensor function read columns as dense rows",
       changeBoth<true>},
      {"fused-other-norm", "a fused kernel computes another norm", otherNorm},
      {"fused-other-epsilon", "the norm of a fused kernel has another epsilon", otherEpsilon},
      {"fused-other-operand", "the norm of a fused kernel has another operand", otherNormOperand},
      {"fused-other-activation", "a fused kernel computes another activation",
       otherFusedActivation},
  };
  return mutations;
}
