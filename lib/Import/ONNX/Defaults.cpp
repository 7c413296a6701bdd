//===- Defaults.cpp - Default values of omitted inputs --------------------===//
//
// All exporters of transformers use two names: `attention_mask`, [batch, tokens], non-zero for
// visible tokens, and `position_ids`. An omitted mask hides no token. Omitted positions are
// computed as in Hugging Face's library, from the length of the past and the padding, which are
// derived from the uses of the other inputs. Positions cannot be omitted if an input has a use that
// is not in this table:
//
//   use                                                meaning of the input
//   index of a lookup                                  token ids: independent of positions
//   [batch, sequence, 64], symbolic sequence           embedded tokens: independent of positions
//   joined along a dimension of size p with a tensor   a cache of p tokens
//     that has the size sequence there
//   attention_mask, [batch, p + sequence]              visible tokens among past and new ones
//   [64, 8], only an operand of matmuls                a matrix of an adapter
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

static constexpr llvm::StringLiteral kMask = "attention_mask", kPositions = "position_ids",
                                     kSourceMask = "encoder_attention_mask";

namespace {
/// First consumers of an input, after view ops and casts.
struct Uses {
  bool any = false;
  bool indexes = false;          ///< indices of a lookup
  bool added = false;            ///< added to computed values
  bool onlyMatrix = true;        ///< only an operand of matmuls
  llvm::SetVector<Value> joined; ///< operands of concatenations

  explicit Uses(Value input) {
    SmallVector<Value> work{input};
    llvm::DenseSet<Value> seen{input};
    while (!work.empty()) {
      Value v = work.pop_back_val();
      for (OpOperand &use : v.getUses()) {
        any = true;
        Operation *user = use.getOwner();
        onlyMatrix &= isa<MovementOpInterface, CastOp, MatmulOp>(user);
        if (isa<MovementOpInterface, CastOp>(user)) {
          if (seen.insert(user->getResult(0)).second)
            work.push_back(user->getResult(0));
        } else if (auto lookup = dyn_cast<LookupOpInterface>(user)) {
          indexes |= lookup.getLookupIndices() == v;
        } else if (isa<ConcatOp>(user)) {
          joined.insert(v);
        } else if (isa<AddOp>(user)) {
          added |= !user->getOperand(1 - use.getOperandNumber()).getDefiningOp<ConstantOp>();
        }
      }
    }
  }
};
} // namespace

static std::string nameOf(func::FuncOp main, BlockArgument input) {
  auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr);
  return name.str();
}

std::string Importer::explainFixInput(Value value) {
  llvm::SetVector<Value> sources;
  if (value)
    sources.insert(value);
  std::string text;
  for (unsigned i = 0; i < sources.size() && i < 64; ++i) {
    if (Operation *op = sources[i].getDefiningOp()) {
      sources.insert(op->operand_begin(), op->operand_end());
      continue;
    }
    std::optional<int64_t> count = product(getSizes(sources[i])).asConstant();
    if (!isa<IntegerType>(elementOf(sources[i])) || !count || *count > kMaxContents)
      return "";
    std::string name = nameOf(main, cast<BlockArgument>(sources[i]));
    text += (text.empty() ? "; " : " and ") + ("--fix-input=" + name + "=VALUE");
  }
  return text.empty() ? "" : text + " makes it a constant";
}

/// Returns true for a matrix of an adapter that is an input, such as LoRA's A [64, 8].
static bool isAdapter(Value input, const Uses &uses) {
  Sizes sizes = getSizes(input);
  return sizes.size() == 2 && isa<FloatType>(elementOf(input)) && uses.onlyMatrix &&
         sizes[0].isConstant() && sizes[1].isConstant();
}

/// Returns the length of a cache: the length of an operand that is concatenated with `sequence` new
/// elements. Returns nothing if there is no such operand, or if lengths differ.
static std::optional<SymExpr> findPast(const Uses &uses, const SymExpr &sequence) {
  std::optional<SymExpr> past;
  for (Value operand : uses.joined)
    for (Operation *user : operand.getUsers()) {
      auto concat = dyn_cast<ConcatOp>(user);
      if (!concat)
        continue;
      SymExpr mine = getSizes(operand)[concat.getDim()];
      if (getSizes(concat.getResult())[concat.getDim()] - mine != sequence)
        continue;
      if (past && *past != mine)
        return std::nullopt;
      past = mine;
    }
  return past;
}

/// Returns true for embedded tokens, for example [batch, sequence, 64].
static bool isEmbedded(RankedTensorType type, const SymExpr &sequence) {
  Sizes sizes = getSizes(type);
  return sizes.size() == 3 && isa<FloatType>(type.getElementType()) && !sequence.isConstant() &&
         sizes[1] == sequence && sizes[2].isConstant();
}

/// Returns true for a mask of shape [batch, tokens] that is zero for hidden tokens. A mask of
/// floats that is added to scores is no such mask: it is zero for visible tokens.
static bool isMask(func::FuncOp main, BlockArgument input, StringRef name = kMask) {
  return nameOf(main, input) == name && getSizes(input).size() == 2 &&
         (isa<IntegerType>(elementOf(input)) || !Uses(input).added);
}

/// Returns the first input of token ids, [batch, sequence], or of embedded tokens.
static BlockArgument findTokens(func::FuncOp main) {
  for (BlockArgument input : main.getArguments()) {
    Sizes sizes = getSizes(input);
    if (sizes.size() < 2 || isMask(main, input) || nameOf(main, input) == kPositions)
      continue;
    bool isIds = sizes.size() == 2 && isa<IntegerType>(elementOf(input)) && Uses(input).indexes;
    if (isIds || isEmbedded(cast<RankedTensorType>(input.getType()), sizes[1]))
      return input;
  }
  return {};
}

std::map<Importer::InputDim, SymExpr> Importer::findPastSizes() {
  BlockArgument tokens = findTokens(main);
  std::map<InputDim, SymExpr> result;
  std::optional<SymExpr> first;
  for (BlockArgument input : main.getArguments()) {
    std::optional<SymExpr> length;
    if (tokens && input != tokens && !isMask(main, input))
      length = findPast(Uses(input), getSizes(tokens)[1]);
    if (!length || (first && *length == *first))
      continue;
    if (!first) {
      first = length;
      continue;
    }
    bool isCut =
        constraints.count((*first - *length).str()) || constraints.count((*length - *first).str());
    for (auto [i, size] : llvm::enumerate(getSizes(input)))
      if (isCut && size == *length && !size.isConstant() && !first->isConstant())
        result.insert({{nameOf(main, input), int(i)}, *first});
  }
  return result;
}

std::map<Importer::InputDim, SymExpr> Importer::findMaskSizes(bool &isNamed) {
  BlockArgument tokens = findTokens(main), mask;
  for (BlockArgument input : main.getArguments())
    if (isMask(main, input))
      mask = input;
  if (!mask || !tokens)
    return {};
  SymExpr sequence = getSizes(tokens)[1];
  Sizes all = getSizes(mask);
  std::optional<SymExpr> past;
  for (BlockArgument input : main.getArguments()) {
    if (input == mask || input == tokens)
      continue;
    std::optional<SymExpr> length = findPast(Uses(input), sequence);
    if (length && past && *past != *length)
      return {};
    if (length)
      past = length;
    else if (llvm::is_contained(getSizes(input), all[1]) && all[1] != sequence)
      return {}; // it masks other tokens, such as those of an encoder
  }
  isNamed = all[1] == sequence;
  Sizes wanted = {getSizes(tokens)[0], past.value_or(SymExpr(0)) + sequence};
  std::map<InputDim, SymExpr> result;
  for (auto [i, size] : llvm::enumerate(all))
    if (size != wanted[i] && !size.isConstant() && !wanted[i].isConstant())
      result.insert({{nameOf(main, mask), int(i)}, wanted[i]});
  return result;
}

/// Returns the default of omitted `positions`. If they are required, sets `why` to the reason.
static InputDefaultAttr findPositions(func::FuncOp main, BlockArgument positions,
                                      std::string &why) {
  Sizes own = getSizes(positions);
  SymExpr sequence = own.back();
  std::optional<SymExpr> past;
  BlockArgument mask, cache;
  for (BlockArgument input : main.getArguments()) {
    if (input == positions)
      continue;
    if (isMask(main, input)) {
      mask = input;
      continue;
    }
    Uses uses(input);
    if (std::optional<SymExpr> length = findPast(uses, sequence)) {
      if (past && *past != *length) {
        why = "'" + nameOf(main, cache) + "' and '" + nameOf(main, input) +
              "' seem to be caches of different lengths, " + past->str() + " and " + length->str();
        return {};
      }
      past = length;
      cache = input;
    } else if (uses.any && !uses.indexes && !isAdapter(input, uses) &&
               !isEmbedded(cast<RankedTensorType>(input.getType()), sequence)) {
      why = "the effect of input '" + nameOf(main, input) + "' on positions is unknown";
      return {};
    }
  }

  MLIRContext *context = main.getContext();
  SymExpr before = past.value_or(SymExpr(0));
  if (!mask)
    return InputDefaultAttr::get(context, before);
  Sizes all = getSizes(mask);
  if (all[1] != before + sequence) {
    why = "'" + kMask.str() + "' has " + all[1].str() + " tokens, but past and new tokens are " +
          (before + sequence).str();
    return {};
  }
  if (own.size() == 2 && !own[0].isConstant(1) && own[0] != all[0]) {
    why = "it has " + own[0].str() + " rows, but '" + kMask.str() + "' has " + all[0].str();
    return {};
  }
  return InputDefaultAttr::get(context, StringAttr::get(context, kMask));
}

void Importer::addDefaults() {
  auto set = [&](BlockArgument input, StringRef name, Attribute value) {
    main.setArgAttr(input.getArgNumber(), name, value);
  };
  for (BlockArgument input : main.getArguments()) {
    if (isMask(main, input) || isMask(main, input, kSourceMask))
      set(input, kDefaultAttr, InputDefaultAttr::get(context, InputDefaultKind::Ones));
    int64_t rank = getSizes(input).size();
    if (nameOf(main, input) != kPositions || !isa<IntegerType>(elementOf(input)) ||
        elementOf(input).isInteger(1) || (rank != 1 && rank != 2))
      continue;
    std::string why;
    if (auto positions = findPositions(main, input, why))
      set(input, kDefaultAttr, positions);
    else
      set(input, kRequiredAttr, builder.getStringAttr(why));
  }
}
