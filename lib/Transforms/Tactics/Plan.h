//===- Plan.h - What the tactics decide -------------------------*- C++ -*-===//
//
// Tactics run in sequence on one plan. Each assigns grid axes to classes of
// factors (or, for sequence parallelism, chooses ops) and records what it split
// and which communication follows from that.
//
// Where two classes that one axis splits meet in one op (or one value, or one weight), one of
// them yields there: see Conflicts.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_PLAN_H
#define TPC_LIB_TRANSFORMS_TACTICS_PLAN_H

#include "tpc/Analysis/FactorClasses.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// What a tactic asks for: that what lies over its axes between a value, as it is made, and those
/// who read it is communicated. Which collectives these are is not its to say (Predictions.cpp).
struct Claim {
  Value value;
  /// Null: whoever reads it, also as a part of a sum. The op that makes it: what that permutes.
  Operation *reader;
  SmallVector<StringAttr> axes; // none: all of them
  std::string why;              // for people
};

/// A collective that follows from a claim.
struct Prediction {
  StringRef kind; // "all_reduce", …
  StringRef axis;
  std::string size; // global size of the dimension that is gathered or scattered; may be empty
  std::string why;
};

struct TacticRecord {
  std::string name;
  SmallVector<std::string> splits = {}; // for people: what was split, how
  SmallVector<Claim> claims = {};
  SmallVector<Prediction> predictions = {}; // when the plan is complete
};

/// Where a class occurs.
struct ClassUse {
  Operation *op;
  unsigned factor;
};

class Plan {
public:
  Plan(ModuleOp module, const ::tpc::ShardSpec &spec, FactorClasses &classes);

  mutable ModuleOp module;
  const ::tpc::ShardSpec &spec;
  FactorClasses &classes;
  std::vector<TacticRecord> records;
  /// What to warn of if this plan is carried out; plans are made more than once.
  std::vector<std::string> warnings;

  /// Axes that split a class, in order.
  llvm::MapVector<int, SmallVector<StringAttr, 2>> axes;
  /// What the tensor tactics chose, and which of it is the vocabulary.
  llvm::SetVector<int> columns, vocabulary;
  /// Ops that work on a part of the tokens: op -> rule factor that tp splits.
  llvm::MapVector<Operation *, unsigned> tokenFactor;
  /// Arguments of layer functions that are placed so: dimension that tp splits.
  llvm::MapVector<Value, unsigned> tokenArguments;

  /// Classes that an annotation has decided: no other tactic splits them further.
  DenseSet<int> decided;
  /// Ops and weights of which an annotation says how their result is split: what that differs from
  /// at their operands and users is asked for.
  llvm::SetVector<Operation *> asked;

  /// Where classes are split: an op, or an argument of a function. What yields in a place is whole
  /// there. No place: everywhere.
  using Place = const void *;
  static Place getPlace(Operation *op) { return op; }
  static Place getPlace(BlockArgument argument) { return argument.getAsOpaquePointer(); }
  void yield(Place place, int cls, StringAttr axis) { yielding.insert({place, {cls, axis}}); }
  /// The order in which axes split a class in one place, outermost first; others follow.
  void setOrder(Place place, int cls, ArrayRef<StringAttr> order) {
    orders[{place, cls}].assign(order.begin(), order.end());
  }

  /// A tensor that an annotation wants in parts of a class which some op needs whole: the class is
  /// split in single places, and nowhere else.
  struct Hold {
    unsigned dim; // of the tensor
    int cls;
    StringAttr axis;
    bool operator==(const Hold &) const = default;
  };
  llvm::MapVector<Value, SmallVector<Hold, 1>> holds;
  /// Splits `cls` in one place: in factor `index` of an op's rule, in dimension `index` of an
  /// argument.
  void splitHere(Place place, unsigned index, int cls, StringAttr axis);
  /// Whether `axis` splits some tensor or class; whether an annotation or a tactic wants it to
  /// split `cls` anywhere.
  bool usesAxis(StringAttr axis) const;
  bool isWanted(int cls, StringRef axis) const;
  /// The record of a tactic, made if there is none.
  TacticRecord &getRecord(StringRef name);

  /// Axes of a class where it is `index` in `place` (an op's factor, an argument's dimension); no
  /// index: any.
  SmallVector<StringAttr> getAxes(int cls, Place place = nullptr, int index = -1) const;
  bool hasAxis(ArrayRef<int> classes, StringRef axis, Place place = nullptr, int index = -1) const;
  void addAxis(int cls, StringRef axis);
  /// Whether a tactic may split `cls` over `axis`: nothing else has decided about the class, and
  /// the axis splits nothing that meets it in an op.
  bool canSplit(int cls, StringRef axis) const;

  /// Distribution of a dimension (or factor) that consists of these classes.
  DimAttr getDim(ArrayRef<int> classes, bool splitTokens = false, Place place = nullptr,
                 int index = -1) const;

  /// All uses of classes in op rules, in program order.
  ArrayRef<ClassUse> getUses(int cls) const;
  /// Ops with a rule, in program order.
  ArrayRef<Operation *> getOps() const { return ops; }
  /// How often a step runs `op`: the number of calls of its function.
  int64_t getCallCount(Operation *op) const;
  /// All calls of a function.
  ArrayRef<func::CallOp> getCalls(func::FuncOp function) const;

  /// Whether an op leaves partial sums (or maxima, minima) along `axis`.
  bool isUnreduced(Value value, StringRef axis) const;

  /// The parameter that `value` is, through calls: `parameters` of a layer's
  /// argument are those of all calls.
  SmallVector<Operation *> getParameters(Value value) const;

  /// Claims what ops make that sum over `cls`, which `axis` splits, or permute it.
  void claimCommunication(int cls, StringRef axis, const std::string &what,
                          TacticRecord &record) const;
  /// Claims what `op` moves between ranks to permute what `axis` splits.
  void claimPermutation(Operation *op, StringRef axis, TacticRecord &record) const;
  /// Claims what `op` reads and makes, over all axes.
  void claimOp(Operation *op, const std::string &why, TacticRecord &record) const;

  /// The classes that the runs of a permuted factor are made of, major to minor; none of others.
  SmallVector<int> getPermuted(Operation *op, unsigned factor) const;
  bool isPermuted(ClassUse use, int cls) const {
    return llvm::is_contained(getPermuted(use.op, use.factor), cls);
  }

  /// The operand of a product or a table that is a parameter; null if there is none.
  Value getMatrix(Operation *op) const;
  /// Classes of the matrix of `op` that are on the other side from a column, and that annotations
  /// leave to tpx, or give to it.
  SmallVector<int> getRows(Operation *op) const;
  /// Whether it is the residual's width, of which norms were written out.
  bool isNormWidth(int cls) const;

  /// What a class counts, for people: "5 heads", "160"; and the products, tables and attentions
  /// that it occurs in.
  std::string describe(int cls) const;
  std::string describeSites(int cls) const;

private:
  struct Local {
    unsigned index;
    int cls;
    StringAttr axis;
  };
  DenseSet<std::pair<Place, std::pair<int, StringAttr>>> yielding;
  DenseMap<Place, SmallVector<Local, 1>> locals;
  DenseMap<std::pair<Place, int>, SmallVector<StringAttr, 2>> orders;
  llvm::MapVector<int, SmallVector<ClassUse>> uses;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls; // by callee
};

/// Adds partial sums before anything else is added to them, so that one reduction does for
/// all: x + attention + mlp becomes (attention + mlp) + x. Returns whether anything
/// changed; then the plan must be made anew.
bool regroupSums(const Plan &plan);

/// One parameter, constant or iota for each use, and one argument for each use of a parameter: what
/// costs nothing to have twice.
void separateUses(ModuleOp module);
/// Makes the biases of products additions of their own, so that products may be split inside. Those
/// that did not have to are put back.
void takeBiasesOut(ModuleOp module);

/// Replaces norms over a width within a layer that will be split (all heads of queries, say) by
/// what they compute. `plan` is new, and `chooseColumns` gives axes to the classes of a plan.
/// Returns whether there are any; then the plan must be made anew.
bool writeInnerNormsOut(const Plan &plan, function_ref<LogicalResult(Plan &)> chooseColumns);
/// With a tp of two dimensions: the same for norms over the residual's width, which both axes will
/// split. `plan` has columns.
void writeResidualNormsOut(const Plan &plan);

/// One step of the plan: what a user asks for, or what one item of --megatron-shard splits.
struct Tactic {
  StringRef name;
  /// Most tactics give axes to classes. Those that split the rows of matrices look at their
  /// columns; when all classes have their axes, conflicts are resolved, and the others choose
  /// places.
  enum class Phase { Classes, Rows, Places } phase;
  LogicalResult (*apply)(Plan &);
};
/// What `spec` asks for, in order: --megatron-shard is a list of tactics.
SmallVector<Tactic> getTactics(const ::tpc::ShardSpec &spec);

/// Elements of a weight between index i and i + steps of a dimension of its view; of what is there
/// several times, to the next that is another.
int64_t getStride(ArrayRef<StridedFactorAttr> factors, int64_t steps);
/// What `tpc.sharding` on weights, values and inputs says.
LogicalResult applyAnnotations(Plan &plan);
/// Splits the batch over data-parallel replicas and micro-batches.
LogicalResult applyDataTactic(Plan &plan);
/// Ops that need all of `batch`, with all that they are computed from, where that is little: inputs
/// are whole on every rank, so each rank can do it for all samples, in every micro-batch. `stuck`
/// are those that need more.
struct WholeBatch {
  llvm::SetVector<Operation *> ops;
  struct Stuck {
    Operation *op;     // needs all of the batch
    Operation *source; // and depends on this; null: on what a layer is given
    bool always;       // over replicas, too, and not only over micro-batches
    StringRef why;
  };
  SmallVector<Stuck> stuck;
};
WholeBatch findWholeBatch(const Plan &plan, int batch, bool micro);
/// Splits weights over tp (tpy of two dimensions): heads and inner widths.
LogicalResult applyTensorTactic(Plan &plan);
/// Splits the vocabulary over tp: rows of the table, columns of the head.
LogicalResult applyVocabularyTactic(Plan &plan);
/// With a tp of two dimensions: splits the other side of matrices over tpx.
LogicalResult applyRowsTactic(Plan &plan);
/// Places what tp does not split on parts of the tokens.
LogicalResult applySequenceTactic(Plan &plan);

/// Decides, wherever one axis splits two classes that meet, which one yields.
void resolveConflicts(Plan &plan);

/// Predicts the collectives of all claims. The module has what tpc-insert-reshards reads.
LogicalResult predictClaims(Plan &plan);

/// One function for each way in which the weights of its calls are annotated.
void specializeLayers(ModuleOp module);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_PLAN_H
