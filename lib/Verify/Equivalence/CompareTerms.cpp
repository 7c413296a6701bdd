//===- CompareTerms.cpp - Report of the first difference of two terms -----===//

#include "Terms.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {

/// Finds the first difference of two terms: while the ops are equal, descends into the first
/// operand that differs.
class Difference {
public:
  Difference(Terms &terms, Operation *fallback) : terms(terms), at(fallback) {}
  LogicalResult report(TermId actual, TermId expected);

private:
  InFlightDiagnostic begin() {
    return at->emitError() << "'" << getSourceName(at->getLoc()) << "' (" << at->getName()
                           << ") does not compute what the model computes: ";
  }
  LogicalResult noteModel(InFlightDiagnostic diag, const Term &expected) {
    if (expected.inModel)
      diag.attachNote(expected.inModel->getLoc()) << "the model's";
    return diag;
  }
  std::string describe(const Term &term) const;
  void visit(const Term &term) {
    if (term.inProgram)
      at = term.inProgram;
    else if (term.usedInProgram) // an argument
      at = term.usedInProgram;
  }
  std::optional<std::pair<TermId, TermId>> compareSums(const Term &actual, const Term &expected,
                                                       LogicalResult &result);

  /// Maximum number of differing addends that are examined.
  static constexpr size_t maxAddends = 100;
  Terms &terms;
  Operation *at;
};

std::string Difference::describe(const Term &term) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  switch (term.kind) {
  case Term::Op:
    os << term.name;
    if (term.operands.size() == 1 && !term.inModel && isa_and_nonnull<StringAttr>(term.attributes))
      os << " (dimension: major x times x minor " << term.attributes << ")";
    break;
  case Term::Sum:
    os << "a sum of " << terms.getSums().count(term.addends);
    break;
  case Term::Call:
    os << "a call of a layer";
    break;
  case Term::Input:
    os << "input " << term.index;
    break;
  case Term::Variable:
    os << "argument " << term.index << " of the layer";
    break;
  case Term::Parameter:
    os << "weight @" << term.name;
    if (term.attributes)
      os << " view " << term.attributes;
    if (term.attributes2)
      os << " in " << term.attributes2;
    break;
  }
  os << " : " << term.type;
  return text;
}

/// Finds addends that occur in only one of two sums. If each sum has such an addend, returns one of
/// each; otherwise describes the difference in `result` and returns nothing.
std::optional<std::pair<TermId, TermId>>
Difference::compareSums(const Term &actual, const Term &expected, LogicalResult &result) {
  const Multisets &sums = terms.getSums();
  auto subtract = [&](const Term &a, const Term &b) {
    SmallVector<TermId> rest;
    sums.forEach(a.addends, [&](unsigned addend, int64_t times) {
      if (times > sums.getTimes(b.addends, addend) && rest.size() < maxAddends)
        rest.push_back(addend);
    });
    return rest;
  };
  SmallVector<TermId> extra = subtract(actual, expected);
  SmallVector<TermId> missing = subtract(expected, actual);
  if (!extra.empty() && !missing.empty()) {
    // Prefer a pair of the same op.
    for (TermId a : extra)
      for (TermId b : missing)
        if (terms[a].kind == terms[b].kind && terms[a].name == terms[b].name)
          return std::make_pair(a, b);
    return std::make_pair(extra[0], missing[0]);
  }
  if (missing.empty()) {
    const Term &addend = terms[extra[0]];
    result = noteModel(begin() << describe(addend) << " is added "
                               << (sums.getTimes(expected.addends, extra[0])
                                       ? "once too often"
                                       : "which the model does not add"),
                       expected);
  } else {
    const Term &addend = terms[missing[0]];
    result =
        noteModel(begin() << describe(addend) << " is not added"
                          << (sums.getTimes(actual.addends, missing[0]) ? " often enough" : ""),
                  addend);
  }
  return std::nullopt;
}

/// Describes the first difference of two attribute dictionaries, which must differ.
static std::string describeAttributes(DictionaryAttr have, DictionaryAttr want) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (DictionaryAttr list : {have, want})
    for (NamedAttribute entry : list) {
      Attribute actual = have.get(entry.getName()), other = want.get(entry.getName());
      if (actual == other || !text.empty())
        continue;
      auto print = [&](Attribute value) { value ? os << value : os << "not there"; };
      os << "'" << entry.getName().getValue() << "' is ";
      print(actual);
      os << ", the model's is ";
      print(other);
    }
  return text;
}

LogicalResult Difference::report(TermId actualId, TermId expectedId) {
  while (true) {
    Term actual = terms[actualId], expected = terms[expectedId];
    visit(actual);
    bool sameOp = actual.kind == expected.kind && actual.name == expected.name &&
                  actual.type == expected.type && actual.index == expected.index;
    if (sameOp && actual.kind == Term::Sum) {
      LogicalResult result = failure();
      auto pair = compareSums(actual, expected, result);
      if (!pair)
        return result;
      std::tie(actualId, expectedId) = *pair;
      continue;
    }
    if (sameOp && actual.attributes == expected.attributes &&
        actual.attributes2 == expected.attributes2 &&
        actual.operands.size() == expected.operands.size() && !actual.operands.empty()) {
      if (actual.kind == Term::Call && actual.body != expected.body) {
        actualId = actual.body;
        expectedId = expected.body;
        continue;
      }
      bool found = false;
      for (auto [a, b] : llvm::zip(actual.operands, expected.operands))
        if (a != b) {
          actualId = a;
          expectedId = b;
          found = true;
          break;
        }
      if (found)
        continue;
    }
    if (sameOp && actual.kind == Term::Op && actual.attributes != expected.attributes)
      if (auto have = dyn_cast_or_null<DictionaryAttr>(actual.attributes))
        if (auto want = dyn_cast_or_null<DictionaryAttr>(expected.attributes))
          return noteModel(std::move(begin() << "this is " << actual.name << ", whose "
                                             << describeAttributes(have, want)),
                           expected);
    return noteModel(begin() << "this is " << describe(actual) << ", the model has "
                             << describe(expected),
                     expected);
  }
}

} // namespace

static LogicalResult compareLists(Location loc, StringRef what, ArrayRef<Type> actual,
                                  ArrayRef<Type> expected) {
  if (actual.size() != expected.size())
    return emitError(loc) << "the program has " << actual.size() << " " << what
                          << "s, but the model " << expected.size();
  for (auto [i, a, b] : llvm::enumerate(actual, expected))
    if (a != b)
      return emitError(loc) << what << " " << i << " of the program is " << a
                            << ", but the model's is " << b;
  return success();
}

/// Checks that lookups with unused results also occur in the model. Executables check the bounds of
/// indices, so an additional lookup could reject valid inputs. `read`: number of terms before
/// layers were expanded.
static LogicalResult checkLookups(const Terms &terms, const ProgramTerms &actual, size_t read) {
  std::vector<bool> used(terms.size());
  DenseSet<Multisets::Set> seen;
  SmallVector<TermId> work;
  for (const ProgramTerms::Output &output : actual.outputs)
    work.push_back(output.term);
  while (!work.empty()) {
    TermId id = work.pop_back_val();
    if (used[id])
      continue;
    used[id] = true;
    const Term &term = terms[id];
    llvm::append_range(work, term.operands);
    if (term.body >= 0)
      work.push_back(term.body);
    terms.getSums().forEachNew(term.addends, seen,
                               [&](unsigned addend) { work.push_back(addend); });
  }
  for (size_t id = 0; id < read; ++id)
    if (Operation *op = terms[id].inProgram;
        op && !used[id] && !terms[id].inModel && isa<LookupOpInterface>(op))
      return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                             << ") is a lookup that no output needs and the model does not have: "
                                "inputs would be checked against its table";
  return success();
}

LogicalResult equivalence::compareOutputs(ModuleOp program, Terms &terms,
                                          const ProgramTerms &actual,
                                          const ProgramTerms &expected) {
  Location loc = program.getLoc();
  size_t read = terms.size();
  if (failed(compareLists(loc, "input", actual.inputs, expected.inputs)) ||
      failed(compareLists(loc, "output", actual.outputTypes, expected.outputTypes)))
    return failure();
  for (auto [a, b] : llvm::zip(actual.outputs, expected.outputs)) {
    if (a.term == b.term || terms.expand(a.term) == terms.expand(b.term))
      continue;
    if (terms.isExhausted())
      return a.op->emitError() << "'" << getSourceName(a.op->getLoc()) << "' (" << a.op->getName()
                               << ") " << Terms::exhausted;
    return Difference(terms, a.op).report(a.term, b.term);
  }
  return checkLookups(terms, actual, read);
}
