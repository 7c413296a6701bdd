//===- Importer.h - The state of one import ---------------------*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_IMPORTER_H
#define TPC_LIB_IMPORT_ONNX_IMPORTER_H

#include "Node.h"
#include "tpc/Import/ONNX/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <set>

namespace onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class ModelProto;
class TensorProto;
class ValueInfoProto;
} // namespace onnx

namespace mlir::tpc::frontend {

using NodeProtos = ArrayRef<const ::onnx::NodeProto *>;
/// Nodes that replace others of the file.
using NewNodes = std::vector<std::shared_ptr<::onnx::NodeProto>>;

/// Names that are visible to the nodes of one graph. Branches see the names of the enclosing graph;
/// functions do not.
struct Scope {
  Scope *parent = nullptr;
  llvm::StringMap<Tensor> values;
  /// Names with a use. Nodes that compute only other names are skipped.
  llvm::StringSet<> used;
  /// Version of each operator set, by domain.
  std::map<std::string, int64_t> opsets;
  /// In a function's body: the attributes given by the caller.
  llvm::StringMap<const ::onnx::AttributeProto *> attributes;
  /// In a function's body: location of the call.
  std::optional<Location> caller;
  /// Functions whose bodies enclose this scope, outermost first.
  SmallVector<const ::onnx::FunctionProto *> calls;
  int depth = 0;

  /// Returns null if the name is not defined.
  Tensor *lookup(StringRef name);
  /// Returns the version of a domain's operator set, or nothing if the file does not import it.
  std::optional<int64_t> version(StringRef domain) const;
};

class Importer {
public:
  Importer(MLIRContext *context, const ::onnx::ModelProto &model, TensorReader &reader,
           StringRef path, const ::tpc::OnnxImportOptions &options);

  OwningOpRef<ModuleOp> run();

  /// Imports the nodes that the scope's `used` names need, producers first.
  LogicalResult importNodes(NodeProtos nodes, Scope &scope);
  LogicalResult importInitializers(const ::onnx::GraphProto &graph, Scope &scope);
  /// Imports a graph inside a node. Its results become the node's results.
  LogicalResult importBranch(Node &node, const ::onnx::GraphProto &graph);

  FailureOr<Tensor> readTensor(const ::onnx::TensorProto &proto, const Twine &what, Location loc,
                               bool isInitializer);
  /// Returns the tensor as an SSA value at the builder's insertion point, or null after an error.
  Value materialize(const Tensor &tensor, Location loc);
  /// Same as `materialize`, but makes a parameter of a small tensor too, so that ranks may split
  /// it.
  Value materializeWeight(const Tensor &tensor, Location loc);
  FailureOr<DenseElementsAttr> load(const TensorSource &source, Location loc);

  /// Returns the value of a name, after substituting the equalities of this pass into its sizes.
  /// Returns null for the empty name, and failure if the name is not defined.
  FailureOr<const Tensor *> lookup(Scope &scope, StringRef name);
  /// Replaces a symbol so that the two sizes become equal. Returns false if no symbol can be
  /// replaced: the replacement must not contain the symbol, and must not be negative for any sizes.
  bool equate(const SymExpr &a, const SymExpr &b);
  /// Returns `e` with each replaced symbol resolved to its representative.
  SymExpr resolve(const SymExpr &e);
  /// Replaces `symbol` by `e` from now on. Returns false if `symbol` is not a symbol, has a
  /// replacement already, or occurs in `e`.
  bool replaceSymbol(const SymExpr &symbol, const SymExpr &e);
  /// If `difference` or its negation is the length of the input caches, replaces this length by 0,
  /// because two sizes are equal only for an empty past. Returns false otherwise.
  bool assumeEmptyPast(const SymExpr &difference);
  /// Emits a warning after the last pass.
  void warnLater(Location loc, const Twine &text) { warnings.push_back({loc, text.str()}); }
  /// If `a` equals `b` once a min or max in them is replaced by one of its operands, records that
  /// choice. Returns false otherwise.
  bool chooseOperand(const SymExpr &a, const SymExpr &b);
  /// Returns the operand chosen for a min or max, or null.
  const SymExpr *findChoice(const SymExpr &minOrMax) const;
  void constrain(const SymExpr &expr, int64_t low, int64_t high, const Twine &why);
  /// Whether activations are quantized by the range of each token, and not of all tokens: in
  /// generation, tokens must not depend on later ones. Emits a remark at the first call.
  bool quantizesByToken();
  /// Describes how the inputs that `value` is computed from could become constants, for the end of
  /// an error. Returns an empty string if they cannot.
  std::string explainFixInput(Value value);
  /// Records that a node has an error, which may be due to a wrong name of a size.
  void noteNodeError() { hasNodeErrors = true; }

  /// Returns false if the number of folded elements exceeds a limit that no real model reaches.
  bool countFolded(int64_t elements) { return (foldedElements += elements) < 4'000'000; }

  MLIRContext *context;
  OpBuilder builder;

private:
  using Messages = std::vector<Diagnostic>;
  /// Imports the file until no more equal sizes are found.
  LogicalResult importPasses(Messages &messages);
  LogicalResult importOnce();
  void emit(Messages messages);
  LogicalResult importNode(const ::onnx::NodeProto &node, Scope &scope);
  LogicalResult importNodeOnce(const ::onnx::NodeProto &node, Scope &scope);
  LogicalResult importCall(Node &node, const ::onnx::FunctionProto &function);
  /// Imports the nodes of a branch or function whose `outputs` become the results of `node`. `what`
  /// is the subject of the error on a missing output.
  LogicalResult importBody(Node &node, NodeProtos body, ArrayRef<StringRef> outputs, Scope &scope,
                           const Twine &what);
  LogicalResult readOpsets();
  LogicalResult readDeviceConfigurations();

  // Names of sizes are hints in ONNX (DeclaredSizes.cpp).

  /// Names of input sizes that the import uses.
  struct SizeNames {
    bool symbols = true;     ///< `batch`: one size in all inputs
    bool expressions = true; ///< `past + sequence`
    bool numbers = false;    ///< `1`, as a name
    bool emptyPast = false;  ///< sizes may be equal only without past tokens
  };
  /// Returns the SizeNames in the order in which the import tries them.
  SmallVector<SizeNames> listSizeNames();
  void collectDeclaredSymbols();
  FailureOr<Sizes> readShape(const ::onnx::ValueInfoProto &info);
  SymExpr readSize(const ::onnx::ValueInfoProto &info, int dim);
  /// Called after an import. Derives sizes of inputs that the graph does not determine from the
  /// roles of the inputs and from their names, and imports the file again with these sizes.
  void tieSizes(Messages &messages);
  using InputDim = std::pair<std::string, int>; // name of an input, and a dimension
  /// Imports the file again with these sizes of inputs. Restores the state and returns false if the
  /// import fails or adds a constraint, or if `mustRelax` is set and no constraint is dropped.
  bool importTied(const std::map<InputDim, SymExpr> &sizes, Messages &messages,
                  bool mustRelax = false);
  /// Finds caches whose length differs from the length of the first cache, although a constraint
  /// relates both lengths. Returns the length of the first cache for their dimensions.
  std::map<InputDim, SymExpr> findPastSizes();
  /// Returns the sizes of `attention_mask` that differ from those of its tokens. `isNamed`: the
  /// mask has the size of the tokens, although there is a past.
  std::map<InputDim, SymExpr> findMaskSizes(bool &isNamed);
  void remarkOnNames(const ::onnx::ValueInfoProto &info, ArrayRef<SymExpr> sizes);
  std::set<std::string> collectInputSymbols();

  LogicalResult addInputs(Scope &scope);
  /// Returns the value of an input that becomes a constant.
  std::optional<int64_t> findFixedValue(StringRef input) const;
  /// Inputs of caches that TensorScatter writes, with their dimension of rows, and inputs with the
  /// numbers of rows before and after the write.
  struct CacheViews {
    std::map<std::string, int64_t> dims;
    std::set<std::string> starts, ends;
  };
  /// For a generation: finds the inputs that change if a cache has only the rows of past tokens.
  CacheViews findCacheViews() const;
  /// Returns the size of past and new tokens, for `CacheViews::ends`.
  FailureOr<SymExpr> countTokens(const CacheViews &views);
  /// Returns true for the condition of a merged decoder whose branch with a past also computes
  /// prompts, with an empty past: it uses all inputs that the other branch uses. The decoder of an
  /// encoder-decoder does not: only its branch without a past reads the encoder's output.
  bool selectsPast(StringRef input) const;
  LogicalResult fixInput(StringRef name, Type element, ArrayRef<SymExpr> sizes, int64_t value,
                         Scope &scope);
  LogicalResult addResults(Scope &scope);
  LogicalResult checkDeclaredShape(const ::onnx::ValueInfoProto &info, const Tensor &tensor);
  SmallVector<const ::onnx::NodeProto *> dropReplaced(NodeProtos nodes, Scope &scope);
  void warnOfCopies(StringRef name, Location loc);
  /// Returns true if `tensor` has the type of `proto`, another tensor of the same name.
  bool isTyped(const Tensor &tensor, const ::onnx::TensorProto &proto);
  /// Reports outputs whose declared sizes differ from those of the graph.
  void reportWrongShapes();
  FailureOr<SmallVector<unsigned>> sortNodes(NodeProtos nodes, Scope &scope);
  const ::onnx::FunctionProto *findFunction(const ::onnx::NodeProto &node) const;
  struct Unsupported;
  void collectUnsupported(NodeProtos nodes, const std::map<std::string, int64_t> &opsets,
                          Unsupported &found, int depth);
  LogicalResult reportUnsupported(NodeProtos nodes, const Scope &scope);
  void eraseUnused();
  /// Adds default values of inputs that may be omitted.
  void addDefaults();
  Location fileLoc();
  Location nodeLoc(const ::onnx::NodeProto &node, const Scope &scope);
  FlatSymbolRefAttr weightFor(const TensorSource &source, Location loc);
  /// Creates a parameter of a tensor in a file, and the conversion of a replaced initializer.
  Value createParameter(const Tensor &tensor, Location loc);

  /// Equates m and n if the difference of two sizes is b * m - b * n.
  bool replaceFactor(const SymExpr &difference);
  /// Returns the symbols of `e` that have a replacement.
  SmallVector<std::string> findReplaced(const SymExpr &e) const;
  /// Substitutes each replaced symbol once. Returns an overflow if the result is too complex.
  SymExpr substitute(const SymExpr &e) const;
  /// Resolves `e` and replaces each min and max by its chosen operand.
  SymExpr update(const SymExpr &e);

  const ::onnx::ModelProto &model;
  TensorReader &reader;
  std::string path;
  const ::tpc::OnnxImportOptions &options;
  bool hasRemarkedRanges = false; // whether quantizesByToken has emitted its remark

  // State of the current pass.
  OwningOpRef<ModuleOp> module;
  func::FuncOp main;
  Scope top;
  llvm::DenseMap<const TensorSource *, FlatSymbolRefAttr> weights;
  std::vector<std::shared_ptr<const TensorSource>> keptSources;
  llvm::StringSet<> symbolNames, missingFiles;
  std::set<std::string> declaredSymbols;
  std::map<InputDim, SymExpr> hints; // sizes that unused names denote
  std::set<std::string> ownSymbols;  // symbols that replace `hints`
  bool hasNodeErrors = false;
  /// First output whose declared shape is wrong, by names or by numbers, and how many there are.
  struct WrongShapes {
    std::string first;
    int64_t count = 0;
  } wrongNames, wrongNumbers;
  struct Constraint {
    SymExpr expr;
    int64_t low, high;
    std::string why;
  };
  std::map<std::string, Constraint> constraints; // key: text of the expression
  int64_t importedNodes = 0, foldedElements = 0;
  NewNodes newNodes;
  std::map<std::tuple<std::string, std::string, std::string>, const ::onnx::FunctionProto *>
      functions; // by domain, name and overload

  /// Number of equalities found in this pass.
  int64_t equalities = 0;

  // State kept over all passes.
  std::map<std::string, SymExpr> replaced; // key: symbol
  std::map<std::string, SymExpr> choices;  // key: text of a min or max
  std::vector<std::pair<Location, std::string>> warnings;
  std::map<InputDim, SymExpr> tied; // sizes of inputs in place of their names
  SizeNames sizeNames;
};

/// Renames unprintable names in the whole model. Distinct names stay distinct.
void makeNamesPrintable(::onnx::ModelProto &model);

/// Optimum's name for the condition of a merged decoder: whether there is a past.
constexpr llvm::StringLiteral kUseCacheBranch = "use_cache_branch";

/// Symbol of the rows of a cache that a generation sees as past tokens.
constexpr llvm::StringLiteral kPastSymbol = "past_sequence_length";

/// Maximum nesting of calls and branches; each level uses stack.
constexpr int kMaxDepth = 200;

/// Appends the names that a node uses, including names that its branches use from outside.
void collectUses(const ::onnx::NodeProto &node, std::vector<std::string> &names);
/// Appends the names that a branch uses from outside.
void collectUses(const ::onnx::GraphProto &graph, std::vector<std::string> &names);

/// Checks that indices which follow from sizes are within dimension `dim` of `table`. Example:
/// positions 0 .. sequence - 1 in a table of 128 rows require sequence <= 128.
LogicalResult checkIndices(Node &n, const Tensor &indices, const Tensor &table, int64_t dim);
/// Reports an error if input `input` has scales in the file that are not finite.
LogicalResult checkScales(Node &n, unsigned input);

/// Returns the size that all elements of an integer tensor equal, or nothing.
std::optional<SymExpr> findCommonSize(Value value);

/// Imports an If whose condition is known during import.
LogicalResult importIf(Node &node);

} // namespace mlir::tpc::frontend

#endif
