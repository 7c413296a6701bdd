//===- Schedule.h - Communication schedule of a staged program --*- C++ -*-===//
//
// The projection of a staged program to its communication. All ranks of one stage run the same
// program, so one list represents them. Differences between ranks (the trip count of a loop, the
// size of a shard) are functions of the rank's coordinates: batch{dp, mb}. A layer that is called
// twelve times is one list that is called twelve times.
//
//     {"functions": {"layer": [{"op": "all_reduce", "over": ["tp"], ...}]},
//      "stages": [[{"loop": batch{dp, mb}, "body": [{"call": "layer", "times": 6},
//                                                     {"op": "send", "to": 1, ...}]}], ...]}
//
// Depends only on the program, not on the passes that created it.
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

/// Set of axes of ranks, by their index in the grid's order.
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
    std::vector<Item> body, other; // of a loop or branch; `other`: the else branch
  };
  using Items = std::vector<Item>;

  /// Projects the module's tpc.pipeline. Fails, with an error at the op, on an op whose
  /// communication or effects are unknown.
  static FailureOr<Schedule> project(ModuleOp module);

  GridAttr getGrid() const { return grid; }
  PipelineOp getPipeline() const { return pipeline; }
  /// Stages by coordinate of pp.
  const std::vector<std::pair<StageOp, Items>> &getStages() const { return stages; }
  /// Functions that communicate, callees before callers.
  const llvm::MapVector<Operation *, Items> &getFunctions() const { return functions; }
  const Items &getItems(func::FuncOp function) const { return functions.find(function)->second; }

  /// Returns the mask of axes with more than one rank. Excludes `mb` and axes that are not in the
  /// grid.
  AxisMask getMask(ArrayRef<StringAttr> axes) const;
  AxisMask getMask(ArrayAttr axes) const;
  AxisMask getMask(StringRef axis) const;
  SmallVector<StringRef> getNames(AxisMask axes) const;

  /// For a generation step in several stages: the number of steps in flight at a time. 0 for other
  /// programs, whose last stage sends nothing back.
  int64_t getNumStepsInFlight() const;

  llvm::json::Object toJSON() const;
  /// Returns 16 hexadecimal digits of the JSON text's hash: programs with equal hashes communicate
  /// alike.
  std::string getHash() const;

private:
  Schedule(ModuleOp module, GridAttr grid, PipelineOp pipeline)
      : module(module), grid(grid), pipeline(pipeline) {}
  LogicalResult projectBlock(Block &block, Items &items);
  LogicalResult projectCall(func::CallOp call, Items &items);

  static constexpr size_t maxDepth = 512; // of nested calls
  ModuleOp module;
  GridAttr grid;
  PipelineOp pipeline;
  std::vector<std::pair<StageOp, Items>> stages;
  llvm::MapVector<Operation *, Items> functions;
  DenseMap<Operation *, bool> communicates; // visited functions
  SmallVector<Operation *> open;            // functions on the call path
};

/// Whether `op` is a collective over a group of ranks. Excludes local_slice, which moves nothing.
bool isCollective(Operation *op);
/// Returns the axes of a collective's group.
ArrayAttr getGroupAxes(Operation *op);
/// Returns the dimension without the group's axes: for a shard, the union over the group.
DimAttr removeAxes(DimAttr dim, ArrayRef<StringAttr> group);
/// Describes one communication as JSON: the properties on which all members of its group must
/// agree.
llvm::json::Object describeCommunication(Operation *op);
/// Creates the pass that sets kScheduleAttr on a staged program. It has no flag: staging and
/// lowering run it.
std::unique_ptr<Pass> createRecordSchedule();
/// Returns the FNV hash of a text, mixed, as 16 hexadecimal digits.
std::string hashText(StringRef text);

} // namespace mlir::tpc

#endif // TPC_VERIFY_SCHEDULE_H
