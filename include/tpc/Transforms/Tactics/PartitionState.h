//===- PartitionState.h - Splits that tactics choose ------------*- C++ -*-===//
//
// Tactics run in sequence on one state. A tactic assigns grid axes to classes of factors, forbids
// them at single sites, places ops on shards of the tokens, and expects the resulting
// communication. Each change is recorded with its tactic and reason, for --explain and --why.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TRANSFORMS_TACTICS_PARTITIONSTATE_H
#define TPC_TRANSFORMS_TACTICS_PARTITIONSTATE_H

#include "tpc/Transforms/Tactics/PartitionProblem.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/StringSaver.h"

namespace mlir::tpc {

/// Communication that a tactic expects: reshards over its axes between a value and its readers. The
/// collectives are derived from the complete state (ExpectedCollectives.cpp).
struct ExpectedCommunication {
  Value value = {};
  /// Reader of the value. Null: all readers, including readers of sums with the value as an addend.
  /// If it is the op that defines the value: permutations by that op.
  Operation *reader = nullptr;
  SmallVector<StringAttr> axes = {}; // empty: all axes
  std::string why = {};              // reason, for reports
  /// Communication of all ops that reduce over or permute a class, until the ops are known
  /// (PartitionState::completeExpectations); -1: of `value`.
  int cls = -1;
  std::string what = {}, by = {}; // of PartitionState::expectOfClass
};

/// Collective that is derived from expected communication.
struct ExpectedCollective {
  StringRef kind; // "all_reduce", …
  StringRef axis;
  std::string size; // global size of the gathered or scattered dimension; may be empty
  std::string why;
};

/// Splits of one tactic, and its expected communication.
struct TacticRecord {
  std::string name;
  SmallVector<std::string> splits = {};  // description of each split, for reports
  SmallVector<std::string> reasons = {}; // of each split; may be empty
  SmallVector<ExpectedCommunication> expected = {};
  SmallVector<ExpectedCollective> collectives = {}; // set when the state is complete
};

/// A location where the split of a class may differ: an op, or an argument of a function. Null: all
/// locations.
class Site {
public:
  Site() = default;
  Site(std::nullptr_t) {}
  Site(Operation *op) : pointer(op) {}
  Site(BlockArgument argument) : pointer(argument.getAsOpaquePointer()) {}
  explicit operator bool() const { return pointer; }
  bool operator==(const Site &) const = default;
  const void *getPointer() const { return pointer; }

private:
  const void *pointer = nullptr;
};

} // namespace mlir::tpc

template <> struct llvm::DenseMapInfo<mlir::tpc::Site> {
  using Pointer = DenseMapInfo<const void *>;
  static mlir::tpc::Site getEmptyKey() { return make(Pointer::getEmptyKey()); }
  static mlir::tpc::Site getTombstoneKey() { return make(Pointer::getTombstoneKey()); }
  static unsigned getHashValue(mlir::tpc::Site site) {
    return Pointer::getHashValue(site.getPointer());
  }
  static bool isEqual(mlir::tpc::Site a, mlir::tpc::Site b) { return a == b; }

private:
  static mlir::tpc::Site make(const void *pointer) {
    return static_cast<mlir::Operation *>(const_cast<void *>(pointer));
  }
};

namespace mlir::tpc {

/// Change of the state by a tactic.
struct Decision {
  enum Kind { Assign, Forbid, Store, Place } kind;
  StringRef tactic;
  int cls; // -1 for Place
  Site site;
  SmallVector<StringAttr, 1> axes;
  StringRef why;  // reason; may be empty
  Site seed = {}; // of Assign: the op where the split starts; null: matrices, else inputs
};

class PartitionState {
public:
  explicit PartitionState(const PartitionProblem &problem) : problem(problem) {}

  const PartitionProblem &problem;

  //===--------------------------------------------------------------------===//
  // Changes by tactics
  //===--------------------------------------------------------------------===//

  /// Splits `cls` over `axes` at all sites, inside of its present axes. `seed`: the op whose
  /// dimension is split first; null: the matrices of the class or, without matrices, the inputs.
  void assign(int cls, ArrayRef<StringAttr> axes, const Twine &why, Site seed = {});
  /// Splits `cls` at one site only: in factor `index` of an op's rule, or in dimension `index` of
  /// an argument.
  void assign(Site site, unsigned index, int cls, StringAttr axis);
  /// Leaves `cls` unsplit over `axis` at one site.
  void forbid(Site site, int cls, StringAttr axis, const Twine &why);
  /// Keeps later tactics from splitting `cls`.
  void fix(int cls) { fixed.insert(cls); }
  /// Sets the order in which axes split a class at one site, outermost first. Axes that are not in
  /// `axes` are inner.
  void order(Site site, int cls, ArrayRef<StringAttr> axes) {
    orders[{site, cls}].assign(axes.begin(), axes.end());
  }
  /// Splits a factor of an op, or a dimension of an argument of a layer, over `axes` as a whole,
  /// whatever its classes: sequence parallelism.
  void place(Site site, unsigned index, ArrayRef<StringAttr> axes, const Twine &why);

  /// Tensor that an annotation shards although some op needs the class unsplit.
  struct StoredSplit {
    unsigned dim; // of the tensor
    int cls;
    StringAttr axis;
    bool operator==(const StoredSplit &) const = default;
  };
  /// Stores a tensor sharded. Only sites that `assign` splits compute on its shards.
  void store(Value value, StoredSplit split);
  /// Keeps the splits of an op that defines an annotated value.
  void pin(Operation *op) { pinned.insert(op); }
  /// Marks a class for later tactics, such as "columns".
  void mark(int cls, StringRef role) { roles[role].insert(cls); }

  /// Expects communication between a value and `reader` (null: all readers).
  void expect(Value value, Operation *reader, ArrayRef<StringAttr> axes, const Twine &why);
  /// Expects the communication of ops that reduce over or permute `cls`, which `axes` split.
  /// `what`, `by`: names of the class and of the axes, for reports.
  void expectOfClass(int cls, ArrayRef<StringAttr> axes, const std::string &what, StringRef by);
  /// Expects the communication of `op`, which permutes elements of a dimension split over `axes`.
  void expectPermutation(Operation *op, ArrayRef<StringAttr> axes, StringRef by);
  /// Expects all communication at operands and results of `op`.
  void expectOfOp(Operation *op, const Twine &why);

  /// Adds a line to the record of the running tactic, with a reason for --explain. `explainOnce`
  /// omits repeated lines.
  void explain(const std::string &text, const Twine &why = "");
  void explainOnce(const std::string &text);
  /// Adds a warning, which is emitted only if this state is used.
  void warn(std::string text) { warnings.push_back(std::move(text)); }

  /// Replaces expectations of classes by expectations of the program's present ops.
  void completeExpectations();

  /// Gives a new op the splits of the op that it replaces.
  void copySite(Site from, Site to);
  /// Transfers the splits, annotations and expectations of an op to the op that replaces it.
  void moveSite(Operation *from, Operation *to);

  //===--------------------------------------------------------------------===//
  // Queries. A StringAttr is one axis, a StringRef a view.
  //===--------------------------------------------------------------------===//

  /// Returns the axes of a class at `site`, in factor or dimension `index` (-1: any).
  SmallVector<StringAttr> getAxes(int cls, Site site = {}, int index = -1) const;
  bool hasAxis(ArrayRef<int> classes, StringAttr axis, Site site = {}, int index = -1) const;
  /// Returns true if any atom of the view splits one of these classes.
  bool hasAxis(ArrayRef<int> classes, StringRef view, Site site = {}, int index = -1) const;
  /// Returns the atoms of a view over which a tactic may split `cls`: none if the class is fixed,
  /// else those that do not split another class of the same op.
  SmallVector<StringAttr> getFreeAtoms(int cls, StringRef view) const;
  /// Returns the distribution of a dimension or factor that consists of these classes.
  DimAttr getDim(ArrayRef<int> classes, Site site = {}, int index = -1) const;
  /// Returns whether any class is split over the axis or view. usesAxis also includes stored
  /// tensors.
  bool usesAxis(StringAttr axis) const;
  bool usesView(StringRef view) const;
  /// Returns whether an annotation or a tactic splits `cls` over `axis` at any site.
  bool isWanted(int cls, StringAttr axis) const;
  /// Returns true if a value has partial sums (or maxima, minima) over any atom of the view.
  bool isUnreduced(Value value, StringRef view) const;
  bool isFixed(int cls) const { return fixed.contains(cls); }
  bool hasFixed() const { return !fixed.empty(); }

  /// Split of a factor or dimension as a whole.
  struct Placement {
    unsigned index;
    SmallVector<StringAttr> axes;
  };
  /// Returns the placement of a site; null if none.
  const Placement *getPlacement(Site site) const;

  using StoredTensors = llvm::MapVector<Value, SmallVector<StoredSplit, 1>>;
  const StoredTensors &getStored() const { return stored; }
  ArrayRef<StoredSplit> getStored(Value value) const;
  ArrayRef<Operation *> getPinned() const { return pinned.getArrayRef(); }
  bool isPinned(Operation *op) const { return pinned.contains(op); }
  /// Returns the classes with a mark, in the order of marking.
  ArrayRef<int> getMarked(StringRef role) const;
  bool isMarked(int cls, StringRef role) const;

  ArrayRef<Decision> getDecisions() const { return decisions; }
  ArrayRef<std::string> getWarnings() const { return warnings; }
  MutableArrayRef<TacticRecord> getRecords() { return records; }
  ArrayRef<TacticRecord> getRecords() const { return records; }

  /// Attributes the changes of `run` to the tactic `name`.
  void attributeTo(StringRef name, function_ref<void()> run);

private:
  using SiteClass = std::pair<Site, int>;
  struct LocalSplit {
    unsigned index;
    int cls;
    StringAttr axis;
  };
  void decide(Decision::Kind kind, int cls, Site site, ArrayRef<StringAttr> axes, const Twine &why);
  TacticRecord &getRecord() { return records[current]; }

  llvm::MapVector<int, SmallVector<StringAttr, 2>> axes; // in order
  DenseSet<std::pair<SiteClass, StringAttr>> forbidden;
  DenseMap<Site, SmallVector<LocalSplit, 1>> locals;
  DenseMap<SiteClass, SmallVector<StringAttr, 2>> orders;
  DenseMap<Site, Placement> placements;
  DenseSet<int> fixed;
  StoredTensors stored;
  llvm::SetVector<Operation *> pinned;
  llvm::StringMap<llvm::SetVector<int>> roles;

  std::vector<TacticRecord> records;
  size_t current = 0; // record of the running tactic
  std::vector<Decision> decisions;
  std::vector<std::string> warnings;
  llvm::BumpPtrAllocator allocator;
  llvm::UniqueStringSaver texts{allocator};
};

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_TACTICS_PARTITIONSTATE_H
