//===- PrintFactorClasses.cpp - Printing of factor classes ----------------===//

#include "tpc/Analysis/FactorClasses.h"
#include "tpc/Analysis/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_PRINTFACTORCLASSES
#include "tpc/Analysis/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct PrintFactorClasses : public mlir::tpc::impl::PrintFactorClassesBase<PrintFactorClasses> {
  void runOnOperation() override {
    FactorClasses classes(getOperation());
    llvm::MapVector<int, unsigned> numbers; // in order of appearance
    llvm::raw_ostream &os = llvm::outs();
    auto print = [&](StringRef what, Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type)
        return;
      os << "  " << what << ":";
      for (int64_t dim = 0; dim < type.getRank(); ++dim) {
        os << " [";
        llvm::interleave(
            classes.getClasses(value, dim), os,
            [&](int cls) {
              unsigned number = numbers.insert({cls, numbers.size()}).first->second;
              os << "#" << number << "=" << classes.getSize(cls).str();
              if (classes.getPreventingOp(cls))
                os << "!";
            },
            " ");
        os << "]";
      }
      os << "\n";
    };
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto symbol = dyn_cast<SymbolOpInterface>(op); symbol && op->getNumRegions() > 0)
        os << "@" << SymbolTable::getSymbolName(op).getValue() << "\n";
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            print("argument", argument);
      for (Value result : op->getResults()) {
        std::string name = getSourceName(op->getLoc());
        print(op->getName().getStringRef().str() +
                  (isa<NameLoc>(op->getLoc()) ? " '" + name + "'" : ""),
              result);
      }
    });
  }
};
} // namespace
