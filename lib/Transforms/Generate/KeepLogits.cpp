//===- KeepLogits.cpp - Inputs and outputs of generation steps ------------===//
//
// A step has token ids as input and logits as output. All other inputs and outputs must be caches.
//
//===----------------------------------------------------------------------===//

#include "Caches.h"
#include "FeatureLookups.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Generate/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_KEEPLOGITS
#define GEN_PASS_DEF_CHECKTOKENS
#include "tpc/Transforms/Generate/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static std::string getPortName(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(kNameAttr) : StringAttr();
  return name ? name.str() : "";
}

bool mlir::tpc::isTokenIds(Type type) {
  return isa<RankedTensorType>(type) && isa<IntegerType>(getElementTypeOrSelf(type)) &&
         !getElementTypeOrSelf(type).isInteger(1) && getSizes(type).size() == 2 &&
         getSymbolName(getSizes(type)[1]);
}

namespace {
struct KeepLogits : public mlir::tpc::impl::KeepLogitsBase<KeepLogits> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    BlockArgument ids;
    for (BlockArgument argument : main.getArguments())
      if (!ids && isTokenIds(argument.getType()) &&
          !InputDefaultAttr::lookup(main.getArgAttrDict(argument.getArgNumber())))
        ids = argument;
    if (!ids)
      return;
    sizes = getSizes(ids);
    std::optional<unsigned> logits;
    SmallVector<unsigned> found;
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      if (getPortName(main.getResultAttrDict(i)) == "logits")
        logits = i;
      if (isOfTokens(main.getResultTypes()[i]))
        found.push_back(i);
    }
    if (!logits && found.size() > 1) {
      auto error = main.emitError("has outputs");
      for (auto [i, output] : llvm::enumerate(found))
        error << (i == 0                  ? " '"
                  : i + 1 == found.size() ? " and '"
                                          : ", '")
              << getPortName(main.getResultAttrDict(output)) << "'";
      error << " per token, and it is unknown which of them are the logits: name one of them "
               "'logits'";
      return signalPassFailure();
    }
    if (!logits && found.size() == 1)
      logits = found[0];
    if (logits)
      keep(main, *logits);
  }

private:
  /// Returns true for floats with the two dimensions of the ids and a constant third one.
  bool isOfTokens(Type type) const {
    if (!isa<RankedTensorType>(type) || !isa<FloatType>(getElementTypeOrSelf(type)) ||
        getSizes(type).size() != 3)
      return false;
    SmallVector<SymExpr> rest = getSizes(type);
    for (const SymExpr &size : sizes)
      if (auto same = llvm::find(rest, size); same != rest.end())
        rest.erase(same);
    return rest.size() == 1 && rest[0].isConstant();
  }

  /// Returns true if the type has symbols other than those of the ids, such as the number of past
  /// tokens.
  bool isOfPast(Type type) const {
    std::set<std::string> symbols, own;
    for (const SymExpr &size : getSizes(type))
      size.collectSymbols(symbols);
    for (const SymExpr &size : sizes)
      size.collectSymbols(own);
    return llvm::any_of(symbols, [&](const std::string &symbol) { return !own.count(symbol); });
  }

  void keep(func::FuncOp main, unsigned logits) {
    Operation *end = main.front().getTerminator();
    for (unsigned i = main.getNumResults(); i-- > 0;) {
      Type type = main.getResultTypes()[i];
      if (i == logits || !isa<RankedTensorType>(type) || isOfPast(type))
        continue;
      end->eraseOperand(i);
      (void)main.eraseResult(i);
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  SmallVector<SymExpr> sizes; // of the ids
};

struct CheckTokens : public mlir::tpc::impl::CheckTokensBase<CheckTokens> {
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    auto step = StepSymbols::lookup(getOperation());
    if (main && !main.isExternal() && step && failed(check(main, *step)))
      signalPassFailure();
  }

private:
  /// Returns true for embedded tokens: floats of shape [sequences, tokens, numbers].
  static bool isEmbedded(Type type, const StepSymbols &step) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && isa<FloatType>(tensor.getElementType()) && tensor.getRank() == 3 &&
           getSymbolName(getSizes(type)[1]) == step.tokens && getSizes(type)[2].isConstant();
  }

  /// Returns true for a source that tokens attend to, [sequences, source tokens, …].
  static bool isSource(Type type, const StepSymbols &step) {
    SmallVector<SymExpr> sizes = getSizes(type);
    if (sizes.size() < 2 || !getSymbolName(sizes[0]))
      return false;
    auto tokens = getSymbolName(sizes[1]);
    return tokens && *tokens != step.tokens && *tokens != step.past &&
           llvm::all_of(ArrayRef(sizes).drop_front(2),
                        [](const SymExpr &size) { return size.isConstant(); });
  }

  /// Returns the inputs that features of images are computed from, and keys and values of
  /// cross-attention where all sources have the same number of tokens.
  static DenseSet<Value> findFixedSources(func::FuncOp main, const StepSymbols &step) {
    SmallVector<Value> open;
    for (auto op : main.getOps<AttentionOp>())
      if (getSizes(op.getK())[1].isConstant() &&
          getSymbolName(getSizes(op.getQ())[1]) == step.tokens)
        open.append({op.getK(), op.getV()});
    for (GatherNDOp op : findFeatureLookups(main, step.tokens))
      open.push_back(op.getData());
    DenseSet<Value> seen;
    while (!open.empty())
      if (Value next = open.pop_back_val(); seen.insert(next).second && next.getDefiningOp())
        llvm::append_range(open, next.getDefiningOp()->getOperands());
    return seen;
  }

  /// Returns the remedy for an input that generation does not supply. `why`: reason why positions
  /// have no default.
  static std::string findRemedy(Type type, StringAttr why) {
    if (why)
      return "It has no default, because " + why.str();
    SmallVector<SymExpr> sizes = getSizes(type);
    bool isFloat = isa<FloatType>(getElementTypeOrSelf(type));
    if (isFloat && sizes.size() == 3 && !sizes[0].isConstant() && sizes[1].isConstant())
      return "If tokens attend to it, export the model with a symbolic number of its tokens "
             "(dynamic axes)";
    if (isFloat && llvm::all_of(sizes, [](const SymExpr &s) { return s.isConstant(); }))
      return "It is a weight, such as an adapter's: store it in the file, as an initializer";
    return "Masks and positions are recognized by the names 'attention_mask' and 'position_ids': "
           "rename the input if it is one of these, or export the model without it";
  }

  LogicalResult check(func::FuncOp main, const StepSymbols &step) {
    bool has = false;
    DenseSet<Value> fixedSources = findFixedSources(main, step);
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      if (getCache(main.getArgAttrDict(i)))
        continue;
      Type type = main.getArgumentTypes()[i];
      std::string name = getPortName(main.getArgAttrDict(i));
      if (isSource(type, step) || fixedSources.contains(main.getArgument(i)))
        continue; // tpc-cache-sources checks its uses
      if (isEmbedded(type, step))
        return main.emitError() << "takes '" << name << "', embedded tokens of "
                                << getSizes(type)[2].str()
                                << " numbers, but generation supplies token ids: export the model "
                                   "with its embedding (in onnxruntime-genai's builder without "
                                   "exclude_embeds)";
      if (has || !isTokenIds(type) || getSymbolName(getSizes(type)[1]) != step.tokens)
        return main.emitError() << "takes '" << name << "', " << type
                                << ", but generation supplies only token ids [batch, "
                                << step.tokens << "]. "
                                << findRemedy(type,
                                              main.getArgAttrOfType<StringAttr>(i, kRequiredAttr));
      if (!getSymbolName(getSizes(type)[0]))
        return main.emitError() << "takes '" << name << "' of " << getSizes(type)[0].str()
                                << " sequences: export the model with a symbolic batch";
      has = true;
    }
    if (!has)
      return main.emitError("takes no token ids");
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      Type type = main.getResultTypes()[i];
      if (!getCache(main.getResultAttrDict(i)) && !isa<FloatType>(getElementTypeOrSelf(type)))
        return main.emitError() << "has output '" << getPortName(main.getResultAttrDict(i)) << "', "
                                << type << ", but tokens are sampled from logits, which are floats";
    }
    return success();
  }
};
} // namespace
