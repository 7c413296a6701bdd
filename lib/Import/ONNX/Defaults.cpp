//===- Defaults.cpp - Default values of omitted inputs --------------------===//
//
// All exporters of transformers use two names: `attention_mask`, [batch, tokens], non-zero for
// visible tokens, and `position_ids`. An omitted mask hides no token. Omitted positions are
// computed as in Hugging Face's library, from the length of the past and the padding, which are
// derived from the uses of the other inputs. Positions cannot be omitted if a use is not in this
// table:
//
//   tables are indexed by it                      token ids: independent of positions
//   [batch, sequence, 64], symbolic sequence      embedded tokens: independent of positions
//   joined along a dimension of size p with       a cache of p tokens
//     one of size sequence
//   attention_mask, [batch, p + sequence]         visible tokens among past and new ones
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

static constexpr llvm::StringLiteral kMask = "attention_mask", kPositions = "position_ids";

namespace {
/// First consumers of an input, after view ops and casts.
struct Uses {
  bool any = false;
  bool indexes = false;          ///< indices of a lookup
  llvm::SetVector<Value> joined; ///< operands of concatenations

  explicit Uses(Value input) {
    SmallVector<Value> work{input};
    llvm::DenseSet<Value> seen{input};
    while (!work.empty()) {
      Value v = work.pop_back_val();
      for (OpOperand &use : v.getUses()) {
        any = true;
        Operation *user = use.getOwner();
        if (isa<MovementOpInterface, CastOp>(user)) {
          if (seen.insert(user->getResult(0)).second)
            work.push_back(user->getResult(0));
        } else if (auto lookup = dyn_cast<LookupOpInterface>(user)) {
          indexes |= lookup.getLookupIndices() == v;
        } else if (isa<ConcatOp>(user)) {
          joined.insert(v);
        }
      }
    }
  }
};
} // namespace

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

static std::string nameOf(func::FuncOp main, BlockArgument input) {
  auto name = main.getArgAttrOfType<StringAttr>(input.getArgNumber(), kNameAttr);
  return name.str();
}

/// Returns true for integers or booleans of shape [batch, tokens].
static bool isMask(func::FuncOp main, BlockArgument input) {
  return nameOf(main, input) == kMask && isa<IntegerType>(elementOf(input)) &&
         getSizes(input).size() == 2;
}

/// Returns the default of omitted `positions`, or sets `why` they are required.
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
    } else if (uses.any && !uses.indexes &&
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
    why = "'" + kMask.str() + "' is of " + all[1].str() + " tokens, where past and new ones are " +
          (before + sequence).str();
    return {};
  }
  if (own.size() == 2 && !own[0].isConstant(1) && own[0] != all[0]) {
    why = "it has " + own[0].str() + " rows, and '" + kMask.str() + "' " + all[0].str();
    return {};
  }
  return InputDefaultAttr::get(context, StringAttr::get(context, kMask));
}

void Importer::addDefaults() {
  auto set = [&](BlockArgument input, StringRef name, Attribute value) {
    main.setArgAttr(input.getArgNumber(), name, value);
  };
  for (BlockArgument input : main.getArguments()) {
    if (isMask(main, input))
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
