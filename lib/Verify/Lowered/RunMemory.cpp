//===- RunMemory.cpp - Interpretation of memory ops, launches and calls ---===//

#include "RunBuffers.h"

#include "tpc/Buffer/Accumulate.h"

#include "tpc/Dialect/AttachModels.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

namespace {
struct PushRun : RunModel<PushRun, buffer::PushOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::PushOp>(base);
    for (int rank : frame.active) {
      int64_t bytes = m.evaluate(op.getBytes(), rank);
      if (bytes < 0)
        return m.fail(op, rank) << "is a frame of " << bytes << " bytes";
      if (bytes > Memory::largest)
        return m.fail(op, rank) << "is a frame of " << bytes << " bytes at small sizes, more than "
                                << Memory::largest << ", the limit of such a run";
      m.set(frame, op.getFrame(), rank,
            {MemoryView{std::make_shared<Memory>(bytes, m.rounds()), 0, 0, {}}, {}});
    }
    return success();
  }
};

/// Marks the frame's memory as undefined, so that later reads are errors.
struct PopRun : RunModel<PopRun, buffer::PopOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::PopOp>(base);
    for (int rank : frame.active) {
      Memory &memory = *m.get(frame, op.getFrame(), rank).view.memory;
      std::memset(memory.written.data(), 0, memory.written.size());
    }
    return success();
  }
};

struct SlotRun : RunModel<SlotRun, buffer::SlotOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::SlotOp>(base);
    for (int rank : frame.active)
      if (failed(m.setView(op, frame, rank, m.get(frame, op.getFrame(), rank).view.memory,
                           m.evaluate(op.getOffset(), rank), op.getExtent())))
        return failure();
    return success();
  }
};

struct PartRun : RunModel<PartRun, buffer::PartOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::PartOp>(base);
    for (int rank : frame.active) {
      const MemoryView whole = m.get(frame, op.getWhole(), rank).view;
      int64_t from = m.evaluate(op.getFrom(), rank);
      int64_t elements = m.evaluate(op.getExtent().getElements(), rank);
      if (from < 0 || from + elements > whole.elements)
        return m.fail(op, rank) << "takes " << elements << " elements from element " << from
                                << " of a buffer of " << whole.elements;
      if (failed(m.setView(op, frame, rank, whole.memory, whole.byteOf(from), op.getExtent())))
        return failure();
    }
    return success();
  }
};

struct ColumnsRun : RunModel<ColumnsRun, buffer::ColumnsOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::ColumnsOp>(base);
    for (int rank : frame.active) {
      const MemoryView whole = m.get(frame, op.getWhole(), rank).view;
      // Columns of no rows begin with their buffer, which may end before the first column.
      bool isEmpty = m.evaluate(op.getExtent().getElements(), rank) == 0;
      int64_t from = isEmpty ? 0 : m.evaluate(op.getFrom(), rank);
      if (failed(m.setView(op, frame, rank, whole.memory, whole.byteOf(from), op.getExtent())))
        return failure();
      const MemoryView &columns = m.get(frame, op.getBuffer(), rank).view;
      if (whole.width || columns.begin < whole.begin || columns.getEnd() > whole.getEnd())
        return m.fail(op, rank) << "takes columns that are not in their buffer";
    }
    return success();
  }
};

struct InputRun : RunModel<InputRun, buffer::InputOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::InputOp>(base);
    FailureOr<MemoryView> input = m.getInput(op, op.getIndex());
    if (failed(input))
      return failure();
    for (int rank : frame.active)
      if (failed(m.setView(op, frame, rank, input->memory, 0, op.getExtent())))
        return failure();
    return success();
  }
};

/// At reduced sizes, selects elements that are spread evenly over the constant.
struct ConstantRun : RunModel<ConstantRun, buffer::ConstantOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::ConstantOp>(base);
    auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!dense)
      return op.emitError("has elements of an unknown form");
    const interpret::Sizes &sizes = m.getWorld().getSizes();
    ArrayRef<int64_t> original = dense.getType().getShape();
    interpret::Shape shape;
    for (int64_t n : original)
      shape.push_back(sizes.evaluate(::tpc::SymExpr(n)));
    Type type = op.getExtent().getElement();
    MemoryView view{std::make_shared<Memory>(
                        interpret::countElements(shape) * getElementBytes(type), m.rounds()),
                    0, interpret::countElements(shape), type};
    bool isFloat = isa<FloatType>(type);
    SmallVector<APFloat> floats;
    SmallVector<APInt> integers;
    if (isFloat)
      floats.assign(dense.value_begin<APFloat>(), dense.value_end<APFloat>());
    else
      integers.assign(dense.value_begin<APInt>(), dense.value_end<APInt>());
    int64_t next = 0;
    interpret::forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      int64_t element = 0;
      for (auto [d, i] : llvm::enumerate(index))
        element = element * original[d] + sizes.spread(i, original[d]);
      Scalar value;
      if (isFloat) {
        value.f = floats[element].convertToDouble();
      } else {
        value.i = type.isInteger(1) ? int64_t(!integers[element].isZero())
                                    : integers[element].getSExtValue();
      }
      view.store(next++, value);
    });
    for (int rank : frame.active)
      if (failed(m.setView(op, frame, rank, view.memory, 0, op.getExtent())))
        return failure();
    return success();
  }
};

struct ParameterRun : RunModel<ParameterRun, buffer::ParameterOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::ParameterOp>(base);
    auto entry = m.getEntry(op.getEntry());
    if (!entry)
      return op.emitError() << "there is no entry @" << op.getEntry();
    for (int rank : frame.active)
      m.set(frame, op.getIndex(), rank, {{}, entry});
    return success();
  }
};

struct DenseRun : RunModel<DenseRun, buffer::DenseOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::DenseOp>(base);
    for (int rank : frame.active) {
      buffer::EntryOp entry = m.get(frame, op.getIndex(), rank).entry;
      if (!entry || entry.getLoad().getUse() != buffer::ParameterUse::Dense)
        return m.fail(op, rank) << "takes a parameter that is not dense";
      FailureOr<MemoryView> view = m.getParameter(op, entry, rank, op.getExtent().getElement());
      if (failed(view) || failed(m.setView(op, frame, rank, view->memory, 0, op.getExtent())))
        return failure();
    }
    return success();
  }
};

struct CopyRun : RunModel<CopyRun, buffer::CopyOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::CopyOp>(base);
    for (int rank : frame.active) {
      const MemoryView &from = m.get(frame, op.getFrom(), rank).view;
      int64_t bytes = m.evaluate(op.getBytes(), rank), each = from.type.getBytes();
      if (bytes % each != 0)
        return m.fail(op, rank) << "copies " << bytes << " bytes of elements of " << each;
      FailureOr<Numbers> numbers =
          m.read(op, frame, op.getFrom(), rank, bytes / each, /*mayBeUnspecified=*/true);
      if (failed(numbers) || failed(m.write(op, frame, op.getTo(), rank, *numbers)))
        return failure();
    }
    return success();
  }
};

struct AccumulateRun : RunModel<AccumulateRun, buffer::AccumulateOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::AccumulateOp>(base);
    for (int rank : frame.active) {
      int64_t count = m.evaluate(op.getCount(), rank);
      FailureOr<Numbers> numbers = m.read(op, frame, op.getFrom(), rank, count);
      if (failed(numbers))
        return failure();
      if (m.coordinate(kMicroBatchAxis, rank) > 0) {
        FailureOr<Numbers> sum = m.read(op, frame, op.getTo(), rank, count);
        if (failed(sum))
          return failure();
        for (auto [x, y] : llvm::zip_equal(*numbers, *sum))
          x.f = m.rounds() ? float(y.f + x.f) : y.f + x.f;
      }
      if (failed(m.write(op, frame, op.getTo(), rank, *numbers)))
        return failure();
    }
    return success();
  }
};

struct LaunchRun : RunModel<LaunchRun, buffer::LaunchOp> {
  LogicalResult runOnBuffers(Operation *op, BufferMachine &m, Frame &frame) const {
    return m.launch(cast<buffer::LaunchOp>(op), frame);
  }
};
struct CallRun : RunModel<CallRun, buffer::CallOp> {
  LogicalResult runOnBuffers(Operation *op, BufferMachine &m, Frame &frame) const {
    return m.runCall(cast<buffer::CallOp>(op), frame);
  }
};
struct MicroBatchesRun : RunModel<MicroBatchesRun, buffer::MicroBatchesOp> {
  LogicalResult runOnBuffers(Operation *op, BufferMachine &m, Frame &frame) const {
    return m.runMicroBatches(cast<buffer::MicroBatchesOp>(op), frame);
  }
};

/// Delivers a block of an output. Only one of the ranks with equal blocks delivers it.
struct OutputRun : RunModel<OutputRun, buffer::OutputOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::OutputOp>(base);
    if (op.getIndex() >= m.outputs.size())
      return op.emitError() << "there is no output " << op.getIndex();
    BufferMachine::Output &output = m.outputs[op.getIndex()];
    output.delivered = op;
    for (int rank : frame.active) {
      if (llvm::any_of(op.getFirst().getAsValueRange<StringAttr>(),
                       [&](StringRef axis) { return m.coordinate(axis, rank) != 0; }))
        continue;
      interpret::Shape shape(m.evaluate(op.getShape(), rank)), size(m.evaluate(op.getSize(), rank));
      SmallVector<int64_t> offset = m.evaluate(op.getOffset(), rank);
      if (interpret::countElements(shape) != int64_t(output.data.size()))
        return m.fail(op, rank) << "delivers to an output of another size";
      interpret::Shape sourceShape = size;
      int64_t dim = -1, begin = 0, step = 1;
      if (op.getEvery()) {
        dim = *op.getEvery();
        sourceShape[dim] = m.evaluate(*op.getHeld(), rank);
        begin = m.evaluate(*op.getBegin(), rank);
        step = *op.getStep();
      }
      FailureOr<Numbers> numbers =
          m.read(op, frame, op.getData(), rank, interpret::countElements(sourceShape));
      if (failed(numbers))
        return failure();
      std::string wrong;
      interpret::forEachIndex(size, [&](ArrayRef<int64_t> index) {
        int64_t from = 0, to = 0;
        for (size_t d = 0; d < index.size(); ++d) {
          int64_t i = int64_t(d) == dim ? begin + index[d] * step : index[d];
          int64_t at = offset[d] + index[d];
          if (i >= sourceShape[d] || at < 0 || at >= shape[d])
            wrong = "delivers an element outside of the block";
          from = from * sourceShape[d] + i;
          to = to * shape[d] + at;
        }
        if (!wrong.empty())
          return;
        if (output.known[to])
          wrong = "delivers element " + std::to_string(to) + ", which was delivered before";
        output.data[to] = (*numbers)[from];
        output.known[to] = true;
      });
      if (!wrong.empty())
        return m.fail(op, rank) << wrong;
    }
    return success();
  }
};

/// Checks that a dense parameter of this size is replaced, and delivers the new elements. Ranks
/// with the same shard must deliver equal elements.
struct UpdateRun : RunModel<UpdateRun, buffer::UpdateOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::UpdateOp>(base);
    for (int rank : frame.active) {
      buffer::EntryOp entry = m.get(frame, op.getIndex(), rank).entry;
      if (!entry || entry.getLoad().getUse() != buffer::ParameterUse::Dense)
        return m.fail(op, rank) << "updates a parameter that is not dense";
      const MemoryView &from = m.get(frame, op.getFrom(), rank).view;
      auto view = m.getParameter(op, entry, rank, getElementTypeOrSelf(entry.getLoad().getType()));
      if (failed(view))
        return failure();
      int64_t bytes = m.evaluate(op.getBytes(), rank), each = from.type.getBytes();
      if (bytes != view->elements * each)
        return m.fail(op, rank) << "updates " << bytes << " bytes of a parameter of "
                                << view->elements * each;
      FailureOr<Numbers> numbers = m.read(op, frame, op.getFrom(), rank, view->elements);
      if (failed(numbers) || failed(m.deliverUpdate(op, entry.getLoad(), rank, *numbers)))
        return failure();
      for (auto [i, number] : llvm::enumerate(*numbers))
        view->store(i, number);
    }
    return success();
  }
};
} // namespace

void lowered::attachMemoryRuns(MLIRContext *context) {
  buffer::PushOp::attachInterface<PushRun>(*context);
  buffer::PopOp::attachInterface<PopRun>(*context);
  buffer::SlotOp::attachInterface<SlotRun>(*context);
  buffer::PartOp::attachInterface<PartRun>(*context);
  buffer::ColumnsOp::attachInterface<ColumnsRun>(*context);
  buffer::InputOp::attachInterface<InputRun>(*context);
  buffer::ConstantOp::attachInterface<ConstantRun>(*context);
  buffer::ParameterOp::attachInterface<ParameterRun>(*context);
  buffer::DenseOp::attachInterface<DenseRun>(*context);
  buffer::CopyOp::attachInterface<CopyRun>(*context);
  buffer::AccumulateOp::attachInterface<AccumulateRun>(*context);
  buffer::LaunchOp::attachInterface<LaunchRun>(*context);
  buffer::CallOp::attachInterface<CallRun>(*context);
  buffer::MicroBatchesOp::attachInterface<MicroBatchesRun>(*context);
  buffer::OutputOp::attachInterface<OutputRun>(*context);
  buffer::UpdateOp::attachInterface<UpdateRun>(*context);
}
