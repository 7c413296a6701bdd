//===- Schedule.h - What the ranks of a staged program say ------*- C++ -*-===//
//
// A staged program, projected to its communication. All ranks of one stage run the same
// text, so that one list stands for them; what differs from rank to rank (how often a loop
// runs, how large a part is) is written as a function of the rank's coordinates: batch{dp, mb}.
// A layer that is called twelve times is one list that is called twelve times.
//
//     {"functions": {"layer": [{"op": "all_reduce", "over": ["tp"], ...}]},
//      "stages": [[{"loop": batch{dp, mb}, "body": [{"call": "layer", "times": 6},
//                                                     {"op": "send", "to": 1, ...}]}], ...]}
//
// Reads the program only; knows nothing of how it was made.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_VERIFY_SCHEDULE_H
#define TPC_VERIFY_SCHEDULE_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"

namespace mlir {
class Pass;
} // namespace mlir

namespace mlir::tpc {

/// Axes of ranks, by their place in the grid's order.
using AxisMask = uint32_t;

class Schedule {
public:
  struct Item {
    enum class Kind {
      Comm,   // a collective, or a transfer
      Call,   // of a function that communicates
      Loop,   // tpc.micro_batches
      Branch, // scf.if
      Output  // tpc.output
    };
    Kind kind;
    Operation *op;
    func::FuncOp callee;           // of a call
    std::vector<Item> body, other; // of a loop or branch; `other`: what stands in else
  };
  using Items = std::vector<Item>;

  /// Of the module's tpc.pipeline. Fails, with an error at the op, where something stands in it
  /// whose communication or effects are not known.
  static FailureOr<Schedule> project(ModuleOp module);

  GridAttr getGrid() const { return grid; }
  PipelineOp getPipeline() const { return pipeline; }
  /// By coordinate of pp.
  const std::vector<std::pair<StageOp, Items>> &getStages() const { return stages; }
  /// Functions that communicate, callees before callers.
  const llvm::MapVector<Operation *, Items> &getFunctions() const { return functions; }
  const Items &getItems(func::FuncOp function) const { return functions.find(function)->second; }

  /// Of axes with more than one rank. `mb` and axes that the grid does not have are in none.
  AxisMask getMask(ArrayRef<StringAttr> axes) const;
  AxisMask getMask(ArrayAttr axes) const;
  AxisMask getMask(StringRef axis) const;
  SmallVector<StringRef> getNames(AxisMask axes) const;

  /// Of a step of a program that generates in several stages: how many steps are under way at a
  /// time. 0: of others, whose stages say nothing back.
  int64_t getNumInFlight() const;

  llvm::json::Object toJSON() const;
  /// 16 hexadecimal digits of the JSON text: two programs with one hash communicate alike.
  std::string getHash() const;

private:
  Schedule(ModuleOp module, GridAttr grid, PipelineOp pipeline)
      : module(module), grid(grid), pipeline(pipeline) {}
  LogicalResult projectBlock(Block &block, Items &items);
  LogicalResult projectCall(func::CallOp call, Items &items);

  static constexpr size_t maxDepth = 512; // of calls in calls
  ModuleOp module;
  GridAttr grid;
  PipelineOp pipeline;
  std::vector<std::pair<StageOp, Items>> stages;
  llvm::MapVector<Operation *, Items> functions;
  DenseMap<Operation *, bool> communicates; // functions that have been looked at
  SmallVector<Operation *> open;            // functions that are being looked at
};

/// A collective over a group of ranks. Not local_slice, which moves nothing.
bool isCollective(Operation *op);
/// Axes of a collective's group.
ArrayAttr getGroupAxes(Operation *op);
/// The dimension without some axes: of a part, what a group holds together.
DimAttr removeAxes(DimAttr dim, ArrayRef<StringAttr> group);
/// One communication as JSON: what all members of its group must agree on.
llvm::json::Object describeCommunication(Operation *op);
/// Sets kScheduleAttr on a staged program. It has no flag: staging and lowering run it by
/// themselves.
std::unique_ptr<Pass> createRecordSchedule();
/// The FNV hash of a text, spread, as 16 hexadecimal digits.
std::string hashText(StringRef text);

} // namespace mlir::tpc

#endif // TPC_VERIFY_SCHEDULE_H
