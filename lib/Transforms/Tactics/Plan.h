//===- Plan.h - Sharding plan of the tactics --------------------*- C++ -*-===//
//
// Tactics run in sequence on one plan. Each assigns grid axes to classes of factors (or, for
// sequence parallelism, chooses ops) and records its splits and the communication that follows from
// them.
//
// If one axis splits two classes of the same op, value or weight, one of them loses the conflict
// there: see Conflicts.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_PLAN_H
#define TPC_LIB_TRANSFORMS_TACTICS_PLAN_H

#include "tpc/Analysis/FactorClasses.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Communication that a tactic expects: reshards over its axes between a value, as it is produced,
/// and its readers. The collectives follow from the complete plan (ExpectedCollectives.cpp).
struct ExpectedCommunication {
  Value value;
  /// Reader of the value. Null: all readers, also of sums that contain it. The value's own op:
  /// permutations by that op.
  Operation *reader;
  SmallVector<StringAttr> axes; // empty: all axes
  std::string why;              // reason, for reports
};

/// Collective that follows from expected communication.
struct ExpectedCollective {
  StringRef kind; // "all_reduce", …
  StringRef axis;
  std::string size; // global size of the gathered or scattered dimension; may be empty
  std::string why;
};

struct TacticRecord {
  std::string name;
  SmallVector<std::string> splits = {}; // description of each split, for reports
  SmallVector<ExpectedCommunication> expected = {};
  SmallVector<ExpectedCollective> collectives = {}; // set when the plan is complete
};

/// Factor of an op that contains a class.
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
  /// Warnings to report if this plan is used; several plans may be made.
  std::vector<std::string> warnings;

  /// Axes that split a class, in order.
  llvm::MapVector<int, SmallVector<StringAttr, 2>> axes;
  /// Classes chosen by the tensor tactics, and the vocabulary among them.
  llvm::SetVector<int> columns, vocabulary;
  /// Ops that work on a part of the tokens: op -> rule factor that tp splits.
  llvm::MapVector<Operation *, unsigned> tokenFactor;
  /// Arguments of layer functions with split tokens: dimension that tp splits.
  llvm::MapVector<Value, unsigned> tokenArguments;

  /// Classes decided by annotations. Other tactics do not split them further.
  DenseSet<int> decided;
  /// Ops and weights with an annotated result. Reshards at their operands and users are expected.
  llvm::SetVector<Operation *> annotatedOps;

  /// Where classes are split: an op, or an argument of a function. Null: everywhere. An axis
  /// removed at a site does not split the class there.
  using Site = const void *;
  static Site getSite(Operation *op) { return op; }
  static Site getSite(BlockArgument argument) { return argument.getAsOpaquePointer(); }
  void removeAxis(Site site, int cls, StringAttr axis) { removedAxes.insert({site, {cls, axis}}); }
  /// Sets the order in which axes split a class at one site, outermost first; others follow.
  void setOrder(Site site, int cls, ArrayRef<StringAttr> order) {
    orders[{site, cls}].assign(order.begin(), order.end());
  }

  /// Tensor that an annotation stores sharded although some op needs the class unsplit: the class
  /// is split at single sites only.
  struct StoredSplit {
    unsigned dim; // of the tensor
    int cls;
    StringAttr axis;
    bool operator==(const StoredSplit &) const = default;
  };
  llvm::MapVector<Value, SmallVector<StoredSplit, 1>> storedSplits;
  /// Splits `cls` at one site: in factor `index` of an op's rule, or in dimension `index` of an
  /// argument.
  void splitAt(Site site, unsigned index, int cls, StringAttr axis);
  /// usesAxis: whether `axis` splits any tensor or class. isWanted: whether an annotation or a
  /// tactic splits `cls` over it anywhere.
  bool usesAxis(StringAttr axis) const;
  bool isWanted(int cls, StringRef axis) const;
  /// Returns the record of a tactic; creates it if necessary.
  TacticRecord &getRecord(StringRef name);

  /// Returns the axes of a class at `place` in factor or dimension `index`. Without an index: at
  /// any.
  SmallVector<StringAttr> getAxes(int cls, Site site = nullptr, int index = -1) const;
  bool hasAxis(ArrayRef<int> classes, StringRef axis, Site site = nullptr, int index = -1) const;
  void addAxis(int cls, StringRef axis);
  /// Returns true if a tactic may split `cls` over `axis`: the class is undecided, and the axis
  /// splits no other class of the same op.
  bool canSplit(int cls, StringRef axis) const;

  /// Returns the distribution of a dimension (or factor) that consists of these classes.
  DimAttr getDim(ArrayRef<int> classes, bool splitTokens = false, Site site = nullptr,
                 int index = -1) const;

  /// Returns all uses of classes in op rules, in program order.
  ArrayRef<ClassUse> getUses(int cls) const;
  /// Returns the ops with a rule, in program order.
  ArrayRef<Operation *> getOps() const { return ops; }
  /// Returns the number of runs of `op` per step: the number of calls of its function.
  int64_t getCallCount(Operation *op) const;
  /// Returns all calls of a function.
  ArrayRef<func::CallOp> getCalls(func::FuncOp function) const;

  /// Returns true if an op leaves partial sums (or maxima, minima) along `axis`.
  bool isUnreduced(Value value, StringRef axis) const;

  /// Returns the parameters that `value` is, through calls. An argument of a layer has those of all
  /// calls.
  SmallVector<Operation *> getParameters(Value value) const;

  /// Expects the communication of ops that reduce over `cls`, split over `axis`, or permute it.
  void expectCommunication(int cls, StringRef axis, const std::string &what,
                           TacticRecord &record) const;
  /// Expects the communication of `op` that permutes elements along a dimension split over `axis`.
  void expectPermutation(Operation *op, StringRef axis, TacticRecord &record) const;
  /// Expects the communication at operands and results of `op`, over all axes.
  void expectOp(Operation *op, const std::string &why, TacticRecord &record) const;

  /// Returns the classes that form the runs of a permuted factor, major to minor. Empty for other
  /// factors.
  SmallVector<int> getPermuted(Operation *op, unsigned factor) const;
  bool isPermuted(ClassUse use, int cls) const {
    return llvm::is_contained(getPermuted(use.op, use.factor), cls);
  }

  /// Returns the parameter operand of a matmul or lookup; null if there is none.
  Value getMatrix(Operation *op) const;
  /// Returns the classes of the matrix of `op` on the other side from a column, if annotations
  /// leave them to tpx or split them over it.
  SmallVector<int> getRows(Operation *op) const;
  /// Returns true for the residual's width, whose norms were decomposed.
  bool isNormWidth(int cls) const;

  /// Describes a class for reports: its size ("5 heads", "160"), and the matmuls, lookups and
  /// attention ops that contain it.
  std::string describe(int cls) const;
  std::string describeSites(int cls) const;

private:
  struct Local {
    unsigned index;
    int cls;
    StringAttr axis;
  };
  DenseSet<std::pair<Site, std::pair<int, StringAttr>>> removedAxes;
  DenseMap<Site, SmallVector<Local, 1>> locals;
  DenseMap<std::pair<Site, int>, SmallVector<StringAttr, 2>> orders;
  llvm::MapVector<int, SmallVector<ClassUse>> uses;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls; // by callee
};

/// Adds partial sums before anything else is added to them, so that one reduction suffices: x +
/// attention + mlp becomes (attention + mlp) + x. Returns true after a change; the plan must then
/// be made again.
bool regroupSums(const Plan &plan);

/// Gives each use of a parameter, constant or iota its own copy, and each use of a parameter its
/// own function argument. Copies of such ops cost nothing.
void separateUses(ModuleOp module);
/// Separates biases from matmuls into adds, so that the inner dimension of a matmul can be split.
/// Biases of other matmuls are restored later.
void separateBiases(ModuleOp module);

/// Decomposes norms over a width within a layer that will be split (such as all heads of queries).
/// `plan` is new, and `chooseColumns` gives axes to the classes of a plan. Returns true after a
/// change; the plan must then be made again.
bool decomposeInnerNorms(const Plan &plan, function_ref<LogicalResult(Plan &)> chooseColumns);
/// With two tp dimensions: decomposes norms over the residual's width, which both axes will split.
/// `plan` has columns.
void decomposeResidualNorms(const Plan &plan);

/// Step of the plan: annotations of the user, or the splits of one item of --megatron-shard.
struct Tactic {
  StringRef name;
  /// Most tactics give axes to classes. Those that split the rows of matrices depend on the
  /// columns. After all classes have their axes, conflicts are resolved; the remaining tactics then
  /// choose ops.
  enum class Phase { Classes, Rows, Ops } phase;
  LogicalResult (*apply)(Plan &);
};
/// Returns the tactics of `spec` in order: --megatron-shard is a list of tactics.
SmallVector<Tactic> getTactics(const ::tpc::ShardSpec &spec);

/// Returns the distance of elements i and i + steps along a view's dimension in the weight. For
/// repeated elements, returns the distance to the next distinct one.
int64_t getStride(ArrayRef<StridedFactorAttr> factors, int64_t steps);
/// Applies `tpc.sharding` annotations of weights, values and inputs.
LogicalResult applyAnnotations(Plan &plan);
/// Splits the batch over data-parallel replicas and micro-batches.
LogicalResult applyDataTactic(Plan &plan);
/// Ops that need all of `batch`, with all their producers, if these are cheap. Inputs are
/// replicated, so each rank can run such ops for all samples in every micro-batch. `stuck` has the
/// ops that need more.
struct WholeBatch {
  llvm::SetVector<Operation *> ops;
  struct Blocker {
    Operation *op;     // needs all of the batch
    Operation *source; // expensive producer; null: an argument of a layer
    bool always;       // blocks replicas too, not only micro-batches
    StringRef why;
  };
  SmallVector<Blocker> blockers;
};
WholeBatch findWholeBatch(const Plan &plan, int batch, bool micro);
/// Splits weights over tp (tpy with two dimensions): heads and inner widths.
LogicalResult applyTensorTactic(Plan &plan);
/// Splits the vocabulary over tp: rows of the table, columns of the head.
LogicalResult applyVocabularyTactic(Plan &plan);
/// With two tp dimensions: splits the other side of matrices over tpx.
LogicalResult applyRowsTactic(Plan &plan);
/// Runs ops that tp does not split on parts of the tokens.
LogicalResult applySequenceTactic(Plan &plan);

/// Decides, for each op where one axis splits two classes, which class keeps it.
void resolveConflicts(Plan &plan);

/// Derives the collectives of all expected communication. The module must have the attributes that
/// tpc-insert-reshards reads.
LogicalResult expectCollectives(Plan &plan);

/// Creates one function per annotation of the weights of its calls.
void specializeLayers(ModuleOp module);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_PLAN_H
