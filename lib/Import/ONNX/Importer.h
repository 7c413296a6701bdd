//===- Importer.h - The state of one import --------------------*- C++ -*-===//

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
class ModelProto;
class TensorProto;
class ValueInfoProto;
} // namespace onnx

namespace mlir::tpc::frontend {

using NodeProtos = ArrayRef<const ::onnx::NodeProto *>;

/// Names that are visible to the nodes of one graph. Branches see the names
/// of the graph around them, functions do not.
struct Scope {
  Scope *parent = nullptr;
  llvm::StringMap<Tensor> values;
  /// Names that somebody uses; others are not worth computing.
  llvm::StringSet<> used;
  /// Version of each operator set, by domain.
  std::map<std::string, int64_t> opsets;
  /// In a function's body: the attributes that its caller gives.
  llvm::StringMap<const ::onnx::AttributeProto *> attributes;
  /// In a function's body: where it is called.
  std::optional<Location> caller;
  /// The functions of whose bodies it is part, outermost first.
  SmallVector<const ::onnx::FunctionProto *> calls;
  int depth = 0;

  /// Null if there is none.
  Tensor *lookup(StringRef name);
  /// Version of a domain's operator set; nothing if the file does not import it.
  std::optional<int64_t> version(StringRef domain) const;
};

class Importer {
public:
  Importer(MLIRContext *context, const ::onnx::ModelProto &model, TensorReader &reader,
           StringRef path, const ::tpc::OnnxImportOptions &options);

  OwningOpRef<ModuleOp> run();

  /// Imports the nodes that the scope's `used` names need, each after those that it uses.
  LogicalResult importNodes(NodeProtos nodes, Scope &scope);
  LogicalResult importInitializers(const ::onnx::GraphProto &graph, Scope &scope);
  /// A graph inside of a node; its results become those of the node.
  LogicalResult importBranch(Node &node, const ::onnx::GraphProto &graph);

  FailureOr<Tensor> readTensor(const ::onnx::TensorProto &proto, const Twine &what, Location loc,
                               bool isInitializer);
  /// The tensor as an SSA value at the builder's place; null after an error.
  Value materialize(const Tensor &tensor, Location loc);
  FailureOr<DenseElementsAttr> load(const TensorSource &source, Location loc);

  /// What a name stands for, with the sizes that were found to be equal in this pass put in; null
  /// if for nothing, a failure if there is no such value then.
  FailureOr<const Tensor *> lookup(Scope &scope, StringRef name);
  /// `e` without symbols that stand for others.
  SymExpr resolve(const SymExpr &e);
  /// Has the symbol `symbol` stand for `e`. False if that cannot be, because `symbol` is no symbol,
  /// stands for something already, or `e` holds it.
  bool replaceSymbol(const SymExpr &symbol, const SymExpr &e);
  /// Where `a` and `b` are equal if one min or max in them is one of its operands, has it be that
  /// one. False otherwise.
  bool chooseOperand(const SymExpr &a, const SymExpr &b);
  /// The operand that a min or max was found to be, or null.
  const SymExpr *findChoice(const SymExpr &minOrMax) const;
  void constrain(const SymExpr &expr, int64_t low, int64_t high, const Twine &why);

  /// False once more elements were folded than any sensible model has.
  bool countFolded(int64_t elements) { return (foldedElements += elements) < 4'000'000; }

  MLIRContext *context;
  OpBuilder builder;

private:
  LogicalResult importOnce();
  LogicalResult importNode(const ::onnx::NodeProto &node, Scope &scope);
  LogicalResult importNodeOnce(const ::onnx::NodeProto &node, Scope &scope);
  LogicalResult importCall(Node &node, const ::onnx::FunctionProto &function);
  /// The nodes of a branch or a function, whose `outputs` become those of `node`. `what` begins the
  /// sentence that says that one is not computed.
  LogicalResult importBody(Node &node, NodeProtos body, ArrayRef<StringRef> outputs, Scope &scope,
                           const Twine &what);
  LogicalResult readOpsets();
  LogicalResult readDeviceConfigurations();
  FailureOr<Sizes> readShape(const ::onnx::ValueInfoProto &info);
  LogicalResult addInputs(Scope &scope);
  LogicalResult addResults(Scope &scope);
  LogicalResult checkDeclaredShape(const ::onnx::ValueInfoProto &info, const Tensor &tensor);
  SmallVector<const ::onnx::NodeProto *> dropReplaced(NodeProtos nodes, Scope &scope);
  void warnOfCopies(StringRef name, Location loc);
  /// Is a tensor of the type that another of the same name has?
  bool isTyped(const Tensor &tensor, const ::onnx::TensorProto &proto);
  FailureOr<SmallVector<unsigned>> sortNodes(NodeProtos nodes, Scope &scope);
  const ::onnx::FunctionProto *findFunction(const ::onnx::NodeProto &node) const;
  struct Unsupported;
  void collectUnsupported(NodeProtos nodes, const std::map<std::string, int64_t> &opsets,
                          Unsupported &found, int depth);
  LogicalResult reportUnsupported(NodeProtos nodes, const Scope &scope);
  void eraseUnused();
  /// What inputs are when they are left out.
  void addDefaults();
  Location fileLoc();
  Location nodeLoc(const ::onnx::NodeProto &node, const Scope &scope);
  FlatSymbolRefAttr weightFor(const TensorSource &source, Location loc);

  /// Symbols of `e` that stand for others.
  SmallVector<std::string> findReplaced(const SymExpr &e) const;
  /// `e` with those replaced by what they stand for, once; an overflow where that is no sensible
  /// size.
  SymExpr substitute(const SymExpr &e) const;
  /// `e` resolved, and every min and max that was found to be one of its operands that one.
  SymExpr update(const SymExpr &e);

  const ::onnx::ModelProto &model;
  TensorReader &reader;
  std::string path;
  const ::tpc::OnnxImportOptions &options;

  // Of the current pass.
  OwningOpRef<ModuleOp> module;
  func::FuncOp main;
  Scope top;
  llvm::DenseMap<const TensorSource *, FlatSymbolRefAttr> weights;
  std::vector<std::shared_ptr<const TensorSource>> keptSources;
  llvm::StringSet<> symbolNames, missingFiles;
  std::set<std::string> declaredSymbols;
  struct Constraint {
    SymExpr expr;
    int64_t low, high;
    std::string why;
  };
  std::map<std::string, Constraint> constraints; // by the text of the expression
  int64_t importedNodes = 0, foldedElements = 0;
  std::map<std::tuple<std::string, std::string, std::string>, const ::onnx::FunctionProto *>
      functions; // by domain, name and overload

  /// Times that two sizes were found to be equal in this pass.
  int64_t equalities = 0;

  // Over all passes.
  std::map<std::string, SymExpr> replaced; // by the symbol
  std::map<std::string, SymExpr> choices;  // by the text of a min or max
};

/// Renames what cannot be printed, everywhere in the model; names that differ still do.
void makeNamesPrintable(::onnx::ModelProto &model);

/// Names that a node uses, those that its branches use from outside included.
void collectUses(const ::onnx::NodeProto &node, std::vector<std::string> &names);

/// Makes sure that indices which follow from the sizes stay within dimension `dim` of `table`:
/// positions 0 .. sequence - 1 in a table of 128 rows require sequence <= 128.
LogicalResult checkIndices(Node &n, const Tensor &indices, const Tensor &table, int64_t dim);

/// If, with a condition that is known while importing.
LogicalResult importIf(Node &node);

} // namespace mlir::tpc::frontend

#endif
