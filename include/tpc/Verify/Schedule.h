//===- Schedule.h - Communication schedule of a staged program --*- C++ -*-===//
//
// The schedule is the staged program reduced to its communication ops and control flow. All ranks
// of a stage run the same program, so a stage has one list of items. Differences between ranks (the
// trip count of a loop, the size of a shard) are functions of the rank's coordinates: batch{dp,
// mb}. A layer function has one list, to which its calls refer.
//
//     {"functions": {"layer": [{"op": "all_reduce", "over": ["tp"], ...}]},
//      "stages": [[{"loop": batch{dp, mb}, "body": [{"call": "layer", "times": 6},
//                                                     {"op": "send", "to": 1, ...}]}], ...]}
//
// The schedule depends only on the program, not on the passes that created it.
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

/// Set of axes: bit i is the axis with index i in the grid's order.
using AxisMask = uint32_t;

class Schedule {
public:
  struct Item {
    enum class Kind {
      Comm,   // a collective, a send or a recv
      Call,   // call of a function that communicates
      Loop,   // tpc.micro_batches
      Branch, // scf.if
      Output  // tpc.output
    };
    Kind kind;
    Operation *op;
    func::FuncOp callee;           // of a Call
    std::vector<Item> body, other; // of a Loop or Branch; `other`: the else branch
    /// Micro-batch of a Loop that is one event of a schedule; -1: all iterations.
    int64_t at = -1;
  };
  using Items = std::vector<Item>;

  /// Creates the schedule of the module's tpc.pipeline. Emits an error at ops whose communication
  /// or effects are unknown.
  static FailureOr<Schedule> project(ModuleOp module);

  MeshAttr getGrid() const { return grid; }
  PipelineOp getPipeline() const { return pipeline; }
  /// Returns the stages by pp coordinate.
  const std::vector<std::pair<StageOp, Items>> &getStages() const { return stages; }
  /// Returns the functions that communicate, callees before callers.
  const llvm::MapVector<Operation *, Items> &getFunctions() const { return functions; }
  const Items &getItems(func::FuncOp function) const { return functions.find(function)->second; }

  /// Returns the set of those axes that have more than one rank. Excludes `mb` and axes that are
  /// not in the grid.
  AxisMask getMask(ArrayRef<StringAttr> axes) const;
  AxisMask getMask(ArrayAttr axes) const;
  AxisMask getMask(StringRef axis) const;
  SmallVector<StringRef> getNames(AxisMask axes) const;

  /// Returns the number of concurrent steps of a generation step with several stages; 0 for other
  /// programs, in which the last stage sends nothing to the first.
  int64_t getNumStepsInFlight() const;

  llvm::json::Object toJSON() const;
  /// Returns a hash of the JSON text as 16 hexadecimal digits. Programs with equal hashes have the
  /// same schedule.
  std::string getHash() const;

private:
  Schedule(ModuleOp module, MeshAttr grid, PipelineOp pipeline)
      : module(module), grid(grid), pipeline(pipeline) {}
  LogicalResult projectBlock(Block &block, Items &items);
  /// Replaces the loops of a stage by its events, in the order of the pipeline's schedule.
  LogicalResult projectEvents(StageOp stage, ScheduleAttr attr, Items &items);
  LogicalResult projectCall(func::CallOp call, Items &items);

  static constexpr size_t maxDepth = 512; // of nested calls
  ModuleOp module;
  MeshAttr grid;
  PipelineOp pipeline;
  std::vector<std::pair<StageOp, Items>> stages;
  llvm::MapVector<Operation *, Items> functions;
  DenseMap<Operation *, bool> communicates; // visited functions
  SmallVector<Operation *> callPath;        // functions on the current path
};

/// Whether `op` is a collective over a group of ranks. tpc.local_slice is not, because it does not
/// communicate.
bool isCollective(Operation *op);
/// Returns the axes of a collective's group.
ArrayAttr getGroupAxes(Operation *op);
/// Returns the dimension without the group's axes. For a shard, this is the union of the shards of
/// the group.
DimAttr removeAxes(DimAttr dim, ArrayRef<StringAttr> group);
/// Describes a communication op as JSON: the properties that must be equal on all members of its
/// group.
llvm::json::Object describeCommunication(Operation *op);
/// Creates the pass that sets kScheduleAttr on a staged program. The pass has no command-line flag;
/// the staging and lowering pipelines run it.
std::unique_ptr<Pass> createRecordSchedule();
/// Returns the FNV hash of a text, with a final mix, as 16 hexadecimal digits.
std::string hashText(StringRef text);

} // namespace mlir::tpc

#endif // TPC_VERIFY_SCHEDULE_H
