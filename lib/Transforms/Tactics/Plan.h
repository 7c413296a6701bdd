//===- Plan.h - Sharding plan of the tactics --------------------*- C++ -*-===//
//
// Tactics run in sequence on one plan. Each tactic assigns grid axes to classes of factors
// (sequence parallelism: selects ops), and records its splits and the resulting communication.
//
// Conflicts.cpp resolves conflicts, where an axis splits two classes of the same op, value or
// weight.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_PLAN_H
#define TPC_LIB_TRANSFORMS_TACTICS_PLAN_H

#include "tpc/Analysis/FactorClasses.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Communication that a tactic expects: reshards over its axes between a value and its readers. The
/// collectives are derived from the complete plan (ExpectedCollectives.cpp).
struct ExpectedCommunication {
  Value value;
  /// Reader of the value. Null: all readers, including readers of sums with the value as an addend.
  /// If it is the op that defines the value: permutations by that op.
  Operation *reader;
  SmallVector<StringAttr> axes; // empty: all axes
  std::string why;              // reason, for reports
};

/// Collective that is derived from expected communication.
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
  /// Warnings, which are emitted only if this plan is used.
  std::vector<std::string> warnings;

  /// Axes that split a class, in order.
  llvm::MapVector<int, SmallVector<StringAttr, 2>> axes;
  /// Classes that the tensor tactics split, and the subset that are vocabulary dimensions.
  llvm::SetVector<int> columns, vocabulary;
  /// Token-sharded ops: op -> rule factor that `tokenAxes` split.
  llvm::MapVector<Operation *, unsigned> tokenFactor;
  /// Token-sharded arguments of layer functions: argument -> dimension that `tokenAxes` split.
  llvm::MapVector<Value, unsigned> tokenArguments;
  SmallVector<StringAttr> tokenAxes;

  /// Classes whose split is determined by annotations. Other tactics do not change it.
  DenseSet<int> decided;
  /// Ops and weights with an annotated result. Reshards at their operands and users are expected.
  llvm::SetVector<Operation *> annotatedOps;

  /// A location where the split of a class may differ: an op, or an argument of a function. Null:
  /// all locations.
  using Site = const void *;
  static Site getSite(Operation *op) { return op; }
  static Site getSite(BlockArgument argument) { return argument.getAsOpaquePointer(); }
  void removeAxis(Site site, int cls, StringAttr axis) { removedAxes.insert({site, {cls, axis}}); }
  /// Sets the order in which axes split a class at one site, outermost first. Axes that are not in
  /// `order` are inner.
  void setOrder(Site site, int cls, ArrayRef<StringAttr> order) {
    orders[{site, cls}].assign(order.begin(), order.end());
  }

  /// Tensor that is stored sharded by an annotation, although some op needs the class unsplit. The
  /// class is split only at selected sites.
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
  /// Returns the grid axes that are part of a view, such as tp or ep (see Mesh.h), outermost first:
  /// in the order in which they split a class. A StringAttr below is one axis, a StringRef a view.
  SmallVector<StringAttr> getAtoms(StringRef view) const;
  /// `usesAxis` returns whether `axis` splits any tensor or class; `isWanted`, whether an
  /// annotation or a tactic splits `cls` over `axis` at any site.
  bool usesAxis(StringAttr axis) const;
  bool isWanted(int cls, StringAttr axis) const;
  /// Returns the record of a tactic; creates it if necessary.
  TacticRecord &getRecord(StringRef name);

  /// Returns the axes of a class at `site`, in factor or dimension `index` (-1: any).
  SmallVector<StringAttr> getAxes(int cls, Site site = nullptr, int index = -1) const;
  bool hasAxis(ArrayRef<int> classes, StringAttr axis, Site site = nullptr, int index = -1) const;
  /// Returns true if any atom of the view splits one of these classes.
  bool hasAxis(ArrayRef<int> classes, StringRef view, Site site = nullptr, int index = -1) const;
  void addAxis(int cls, StringAttr axis) { axes[cls].push_back(axis); }
  void addAxis(int cls, StringRef view) { llvm::append_range(axes[cls], getAtoms(view)); }
  /// Returns the atoms of a view over which a tactic may split `cls`: none if the class is in
  /// `decided`, else those that do not split another class of the same op.
  SmallVector<StringAttr> getFreeAtoms(int cls, StringRef view) const;

  /// Returns the distribution of a dimension (or factor) that consists of these classes.
  DimAttr getDim(ArrayRef<int> classes, bool splitTokens = false, Site site = nullptr,
                 int index = -1) const;

  /// Returns all uses of classes in op rules, in program order.
  ArrayRef<ClassUse> getUses(int cls) const;
  /// Returns the ops with a rule, in program order.
  ArrayRef<Operation *> getOps() const { return ops; }
  /// Returns how often `op` is executed per step: the number of calls of its function.
  int64_t getCallCount(Operation *op) const;
  /// Returns all calls of a function.
  ArrayRef<func::CallOp> getCalls(func::FuncOp function) const;

  /// Returns true if a value has partial sums (or maxima, minima) over any atom of the view.
  bool isUnreduced(Value value, StringRef view) const;

  /// Returns the parameter op of `value`; for an argument of a layer, the parameter ops of all
  /// calls.
  SmallVector<Operation *> getParameters(Value value) const;

  /// Records the communication of ops that reduce over or permute `cls`, which `axes` split, as
  /// expected. `what`, `by`: names of the class and of the axes, for reports.
  void expectCommunication(int cls, ArrayRef<StringAttr> axes, const std::string &what,
                           StringRef by, TacticRecord &record) const;
  /// Records the communication of `op`, which permutes elements of a dimension split over `axes`,
  /// as expected.
  void expectPermutation(Operation *op, ArrayRef<StringAttr> axes, StringRef by,
                         TacticRecord &record) const;
  /// Records all communication at operands and results of `op` as expected.
  void expectOp(Operation *op, const std::string &why, TacticRecord &record) const;

  /// Returns the classes within the runs of a permuted factor, major to minor; empty for other
  /// factors.
  SmallVector<int> getPermuted(Operation *op, unsigned factor) const;
  bool isPermuted(ClassUse use, int cls) const {
    return llvm::is_contained(getPermuted(use.op, use.factor), cls);
  }

  /// Returns the parameter operand of a matmul or lookup; null if there is none.
  Value getMatrix(Operation *op) const;
  /// Returns the row classes of the matrix of `op`, if annotations split them over tpx or leave
  /// them unspecified.
  SmallVector<int> getRows(Operation *op) const;
  /// Returns true if `cls` is the residual's width and its norms were decomposed.
  bool isNormWidth(int cls) const;

  /// Describes a class for reports: its size ("5 heads", "160"), and the matmuls, lookups and
  /// attention ops that contain it.
  std::string describe(int cls) const;
  /// Describes a class that may have no unit, such as "8 heads" or "96 of 'fc1'".
  std::string describeParts(int cls) const;
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

/// Reassociates sums so that partial sums are added first and one reduction suffices: x + attention
/// + mlp becomes (attention + mlp) + x. Returns true if the program changed; the plan must then be
/// recomputed.
bool regroupSums(const Plan &plan);
/// Returns true if two of these reductions are in the same function. Partial sums that are added up
/// are one reduction. The backward function of a layer has reductions of its own.
bool hasSeveralSums(ArrayRef<Operation *> sums);

/// Clones parameters, constants and iotas for each use, and adds a function argument for each use
/// of a parameter, so that uses can have different shardings.
void separateUses(ModuleOp module);
/// Converts the biases of matmuls to adds, so that the inner dimension of a matmul can be split.
/// The biases of matmuls that are not split in this way are restored later.
void separateBiases(ModuleOp module);

/// Decomposes norms over widths within a layer that will be split, such as all heads of queries.
/// `plan` has no axes; `chooseColumns` assigns axes to the classes of a plan. Returns true if the
/// program changed; the plan must then be recomputed.
bool decomposeInnerNorms(const Plan &plan, function_ref<LogicalResult(Plan &)> chooseColumns);
/// With two tp dimensions: decomposes norms over the residual's width, which both axes will split.
/// Precondition: the column classes of `plan` are set.
void decomposeResidualNorms(const Plan &plan);

/// Step of the plan: annotations of the user, or the splits of one item of --megatron-shard.
struct Tactic {
  StringRef name;
  /// Tactics of the phase Classes assign axes to classes. Tactics of the phase Rows split rows of
  /// matrices, depending on the columns. Then conflicts are resolved, and tactics of the phase Ops
  /// select ops.
  enum class Phase { Classes, Rows, Ops } phase;
  LogicalResult (*apply)(Plan &);
};
/// Returns the tactics of `spec`, in order.
SmallVector<Tactic> getTactics(const ::tpc::ShardSpec &spec);

/// Returns the distance in the weight of elements i and i + steps of a view's dimension. If
/// elements are repeated, returns the distance to the next distinct element.
int64_t getStride(ArrayRef<StridedFactorAttr> factors, int64_t steps);
/// Applies `tpc.sharding` annotations of weights, values and inputs.
LogicalResult applyAnnotations(Plan &plan);
/// Splits the batch over data-parallel replicas and micro-batches.
LogicalResult applyDataTactic(Plan &plan);
/// Ops that need all samples (`batch` unsplit), together with their producers, if these are cheap.
/// Each rank runs them for all samples in every micro-batch, because inputs are replicated.
/// `blockers`: ops that need all samples, but have producers that are too expensive.
struct WholeBatch {
  llvm::SetVector<Operation *> ops;
  struct Blocker {
    Operation *op;     // needs all samples
    Operation *source; // expensive producer; null: an argument of a layer
    bool always;       // prevents replicas too, not only micro-batches
    StringRef why;
  };
  SmallVector<Blocker> blockers;
};
WholeBatch findWholeBatch(const Plan &plan, int batch, bool micro);
/// Splits weights over tp (tpy with two dimensions): heads and inner widths.
LogicalResult applyTensorTactic(Plan &plan);
/// Splits the vocabulary over tp: rows of the table, columns of the head.
LogicalResult applyVocabularyTactic(Plan &plan);
LogicalResult applyExpertsTactic(Plan &plan);
/// With two tp dimensions: splits the rows of matrices over tpx.
LogicalResult applyRowsTactic(Plan &plan);
/// Sequence parallelism: shards the tokens of ops that tp does not split.
LogicalResult applySequenceTactic(Plan &plan);

/// For each op where one axis splits two classes, selects the class that keeps the axis.
void resolveConflicts(Plan &plan);

/// Derives the collectives of all expected communication. Precondition: the module has the
/// attributes that tpc-insert-reshards reads.
LogicalResult expectCollectives(Plan &plan);

/// Clones layer functions such that all calls of a function have weights with equal annotations.
void specializeLayers(ModuleOp module);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_PLAN_H
