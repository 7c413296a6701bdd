//===- SpecializeLayers.cpp - One function per annotation of a layer ------===//
//
// A layer function is called once per layer, with the weights of the layer. If annotations name
// only the weights of some layers, the function is cloned for these layers.
//
//===----------------------------------------------------------------------===//

#include "BuiltinTactics.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

class Specializer {
public:
  explicit Specializer(ModuleOp module) : module(module), symbols(module) {}

  void run() {
    auto main = module.lookupSymbol<func::FuncOp>("main");
    // Visit callers before callees, so that annotations of arguments are known. Each clone has
    // fewer calls than the original, so the loop terminates.
    SmallVector<func::FuncOp> work = {main};
    DenseSet<Operation *> done;
    for (size_t i = 0; i < work.size(); ++i) {
      if (!done.insert(work[i]).second || work[i].isExternal())
        continue;
      llvm::MapVector<Operation *, SmallVector<func::CallOp>> callees;
      work[i].walk([&](func::CallOp call) {
        if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
          callees[callee].push_back(call);
      });
      for (auto &[callee, calls] : callees)
        specialize(cast<func::FuncOp>(callee), calls, work);
    }
  }

private:
  /// Annotation of a weight, and the view that reads it.
  using Key = SmallVector<std::pair<Attribute, Attribute>>;

  std::pair<Attribute, Attribute> getAnnotation(Value value) {
    if (auto parameter = value.getDefiningOp<ParameterOp>()) {
      Attribute sharding = parameter.getWeightOp()->getAttr(kShardingAttr);
      return {sharding, sharding ? Attribute(parameter.getViewOrDense()) : Attribute()};
    }
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? arguments.lookup(argument) : std::pair<Attribute, Attribute>();
  }

  void specialize(func::FuncOp callee, ArrayRef<func::CallOp> calls,
                  SmallVectorImpl<func::FuncOp> &work) {
    llvm::MapVector<Attribute, SmallVector<func::CallOp>> groups;
    std::map<const void *, Key> keys;
    MLIRContext *context = module.getContext();
    for (func::CallOp call : calls) {
      Key key;
      SmallVector<Attribute> text;
      for (Value operand : call.getOperands()) {
        key.push_back(getAnnotation(operand));
        for (Attribute a : {key.back().first, key.back().second})
          text.push_back(a ? a : Attribute(UnitAttr::get(context)));
      }
      Attribute id = ArrayAttr::get(context, text);
      keys[id.getAsOpaquePointer()] = key;
      groups[id].push_back(call);
    }
    for (auto &[id, group] : groups) {
      func::FuncOp function = callee;
      // Other calls may already use the function with other annotations.
      if (Attribute taken = annotationOf.lookup(callee); taken && taken != id) {
        func::FuncOp &copy = copies[{callee, id}];
        if (!copy) {
          copy = callee.clone();
          symbols.insert(copy, std::next(callee->getIterator()));
        }
        function = copy;
      } else {
        annotationOf[callee] = id;
      }
      for (func::CallOp call : group)
        call.setCallee(function.getName());
      for (auto [argument, annotation] :
           llvm::zip(function.getArguments(), keys[id.getAsOpaquePointer()]))
        arguments[argument] = annotation;
      work.push_back(function);
    }
  }

  ModuleOp module;
  SymbolTable symbols;
  DenseMap<Value, std::pair<Attribute, Attribute>> arguments;
  DenseMap<Operation *, Attribute> annotationOf;
  DenseMap<std::pair<Operation *, Attribute>, func::FuncOp> copies;
};

} // namespace

void mlir::tpc::specializeLayers(ModuleOp module) {
  bool annotated = llvm::any_of(module.getOps<WeightOp>(),
                                [](WeightOp weight) { return weight->hasAttr(kShardingAttr); });
  if (annotated)
    Specializer(module).run();
}
