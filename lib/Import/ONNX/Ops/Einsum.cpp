//===- Einsum.cpp - Einsum as matmuls -------------------------------------===//
//
// Operands are combined from left to right. Two operands become one matmul. Their common labels are
// batch dimensions if the result or later operands have them, else its inner dimension:
//
//   bhqd,bhkd->bhqk   [b, h, q, d] x [b, h, d, k]
//
//===----------------------------------------------------------------------===//

#include "OpTable.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

namespace {
/// Label of a dimension: a letter, or the dimensions of an ellipsis as negative numbers, -1 being
/// the last.
using Label = int;
using Labels = SmallVector<Label>;

struct Term {
  Labels labels;
  Value value;
};
} // namespace

/// Returns the labels of one operand's text. `dots`: number of dimensions of its ellipsis.
static std::optional<Labels> parseLabels(StringRef text, int64_t dots) {
  Labels labels;
  while (!text.empty()) {
    if (text.consume_front("...")) {
      for (int64_t i = dots; i > 0; --i)
        labels.push_back(Label(-i));
    } else if (llvm::isAlpha(text.front())) {
      labels.push_back(text.front());
      text = text.drop_front();
    } else {
      return std::nullopt;
    }
  }
  return labels;
}

/// Returns the dimensions of a term in the order of `labels`.
static Value permute(Node &n, const Term &term, ArrayRef<Label> labels) {
  SmallVector<int64_t> order;
  for (Label label : labels)
    order.push_back(llvm::find(term.labels, label) - term.labels.begin());
  return n.transpose(term.value, order);
}

/// Sums over labels that are not in `kept`.
static Term sumOthers(Node &n, const Term &term, const llvm::SetVector<Label> &kept) {
  Term result;
  SmallVector<int64_t> dims;
  for (auto [d, label] : llvm::enumerate(term.labels))
    if (kept.contains(label))
      result.labels.push_back(label);
    else
      dims.push_back(d);
  result.value = n.reduce(ReduceFunction::Sum, term.value, dims, /*keep=*/false);
  return result;
}

static Sizes sizesOf(const Term &term, ArrayRef<Label> labels) {
  Sizes all = getSizes(term.value), sizes;
  for (Label label : labels)
    sizes.push_back(all[llvm::find(term.labels, label) - term.labels.begin()]);
  return sizes;
}

/// Multiplies two terms and sums over common labels that are not in `kept`.
static Term multiply(Node &n, const Term &a, const Term &b, const llvm::SetVector<Label> &kept) {
  Labels batch, inner, left, right;
  for (Label label : a.labels)
    (!llvm::is_contained(b.labels, label) ? left
     : kept.contains(label)               ? batch
                                          : inner)
        .push_back(label);
  for (Label label : b.labels)
    if (!llvm::is_contained(a.labels, label))
      right.push_back(label);
  auto join = [](std::initializer_list<ArrayRef<Label>> parts) {
    Labels all;
    for (ArrayRef<Label> part : parts)
      llvm::append_range(all, part);
    return all;
  };
  Labels lhs = join({batch, left, inner}), rhs = join({batch, inner, right});
  auto matrix = [&](const Term &term, ArrayRef<Label> order, ArrayRef<Label> rows,
                    ArrayRef<Label> columns) {
    Sizes sizes = sizesOf(term, batch);
    sizes.push_back(product(ArrayRef(sizesOf(term, rows))));
    sizes.push_back(product(ArrayRef(sizesOf(term, columns))));
    return n.reshape(permute(n, term, order), sizes);
  };
  Term result;
  result.labels = join({batch, left, right});
  result.value = n.matmul(matrix(a, lhs, left, inner), matrix(b, rhs, inner, right));
  if (!result.value)
    return result;
  Sizes sizes = getSizes(result.value); // batch dimensions may have been broadcast
  sizes.resize(batch.size());
  llvm::append_range(sizes, sizesOf(a, left));
  llvm::append_range(sizes, sizesOf(b, right));
  result.value = n.reshape(result.value, sizes);
  return result;
}

/// Replaces a label that occurs twice in an operand by one dimension with the diagonal: the sum of
/// the elements whose two indices are equal.
static LogicalResult takeDiagonals(Node &n, Term &term) {
  for (size_t a = 0; a < term.labels.size(); ++a)
    for (size_t b = a + 1; b < term.labels.size();) {
      if (term.labels[a] != term.labels[b]) {
        ++b;
        continue;
      }
      Sizes sizes = getSizes(term.value);
      if (!n.equate(sizes[a], sizes[b], "dimensions have the same label"))
        return failure();
      int64_t rank = sizes.size();
      Value same = n.compare(Predicate::EQ, n.iota(sizes[a], a, rank), n.iota(sizes[b], b, rank));
      Value diagonal = n.select(same, term.value, n.scalar(0, term.value));
      term.value = n.reduce(ReduceFunction::Sum, diagonal, {int64_t(b)}, /*keep=*/false);
      if (!term.value)
        return failure();
      term.labels.erase(term.labels.begin() + b);
    }
  return success();
}

static LogicalResult importEinsum(Node &n) {
  std::string equation = n.getString("equation", "");
  llvm::erase(equation, ' ');
  auto [operands, output] = StringRef(equation).split("->");
  SmallVector<StringRef> texts;
  operands.split(texts, ',');
  if (failed(n.expectInputs(texts.size())))
    return failure();
  auto wrong = [&](const Twine &what) {
    return n.error() << "has equation '" << equation << "', " << what;
  };
  SmallVector<Term> terms;
  llvm::SetVector<Label> labels;
  llvm::StringMap<int> counts;
  int64_t dots = 0;
  for (auto [i, text] : llvm::enumerate(texts)) {
    if (n.in(i).isBool())
      return n.error() << "needs numbers, but has booleans";
    bool hasDots = text.contains("...");
    int64_t mine = hasDots ? n.in(i).rank() - (int64_t(text.size()) - 3) : 0;
    std::optional<Labels> own = parseLabels(text, mine);
    if (!own || mine < 0 || int64_t(own->size()) != n.in(i).rank())
      return wrong("whose operand '" + text + "' does not fit " + str(n.in(i).shape));
    dots = std::max(dots, mine);
    labels.insert(own->begin(), own->end());
    terms.push_back({*own, n.operand(i)});
    if (!terms.back().value || failed(takeDiagonals(n, terms.back())))
      return failure();
  }
  Labels wanted;
  if (StringRef(equation).contains("->")) {
    std::optional<Labels> own = parseLabels(output, dots);
    if (!own)
      return wrong("whose result '" + output + "' is not made of letters");
    wanted = *own;
  } else {
    // The ellipsis, then the labels that only one operand has, in alphabetical order.
    for (int64_t i = dots; i > 0; --i)
      wanted.push_back(Label(-i));
    for (Label label = 'A'; label <= 'z'; ++label)
      if (llvm::count_if(
              terms, [&](const Term &term) { return llvm::is_contained(term.labels, label); }) == 1)
        wanted.push_back(label);
  }
  for (Label label : wanted)
    if (!labels.contains(label) || llvm::count(wanted, label) != 1)
      return wrong("whose result must have labels of the operands, each once");

  // Equal labels have equal sizes, except that size 1 of an ellipsis is broadcast by the matmul.
  for (Label label : labels) {
    std::optional<SymExpr> size;
    for (const Term &term : terms) {
      if (!llvm::is_contained(term.labels, label))
        continue;
      SymExpr mine = sizesOf(term, {label})[0];
      if (label < 0 && (mine.isConstant(1) || (size && size->isConstant(1)))) {
        size = size && mine.isConstant(1) ? *size : mine;
        continue;
      }
      if (size && !n.equate(*size, mine, "dimensions have the same label"))
        return failure();
      size = mine;
    }
  }
  Term result = std::move(terms.front());
  for (size_t i = 1; i <= terms.size(); ++i) {
    llvm::SetVector<Label> kept(wanted.begin(), wanted.end());
    for (size_t k = i; k < terms.size(); ++k)
      kept.insert(terms[k].labels.begin(), terms[k].labels.end());
    result = sumOthers(n, result, kept);
    if (i == terms.size())
      break;
    llvm::SetVector<Label> other(wanted.begin(), wanted.end());
    other.insert(result.labels.begin(), result.labels.end());
    for (size_t k = i + 1; k < terms.size(); ++k)
      other.insert(terms[k].labels.begin(), terms[k].labels.end());
    Term next = sumOthers(n, terms[i], other);
    llvm::SetVector<Label> after(wanted.begin(), wanted.end());
    for (size_t k = i + 1; k < terms.size(); ++k)
      after.insert(terms[k].labels.begin(), terms[k].labels.end());
    if (!result.value || !next.value)
      return failure();
    result = multiply(n, result, next, after);
    if (!result.value)
      return failure();
  }
  if (!result.value)
    return failure();
  return n.result(permute(n, result, wanted));
}

void mlir::tpc::frontend::addEinsumOps(OpTable &t) {
  t.add("Einsum", {12, 28}, importEinsum, "no booleans");
}
