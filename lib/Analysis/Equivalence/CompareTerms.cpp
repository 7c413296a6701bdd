//===- CompareTerms.cpp - Where two programs begin to differ --------------===//

#include "Terms.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {

/// Goes down from two different terms to where they begin to differ: as long as the same op
/// is applied, to the first operand that differs.
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
    os << "a sum of " << term.operands.size();
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

/// Addends that only one of the sums has. If there is one on each side, the pair of them;
/// nothing, and `result`, if that is the difference.
std::optional<std::pair<TermId, TermId>>
Difference::compareSums(const Term &actual, const Term &expected, LogicalResult &result) {
  auto subtract = [](ArrayRef<TermId> a, ArrayRef<TermId> b) {
    SmallVector<TermId> rest;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
    return rest;
  };
  SmallVector<TermId> extra = subtract(actual.operands, expected.operands);
  SmallVector<TermId> missing = subtract(expected.operands, actual.operands);
  if (!extra.empty() && !missing.empty()) {
    // Of several, two that look alike.
    for (TermId a : extra)
      for (TermId b : missing)
        if (terms[a].kind == terms[b].kind && terms[a].name == terms[b].name)
          return std::make_pair(a, b);
    return std::make_pair(extra[0], missing[0]);
  }
  if (missing.empty()) {
    const Term &addend = terms[extra[0]];
    result = noteModel(begin() << describe(addend) << " is added "
                               << (llvm::is_contained(expected.operands, extra[0])
                                       ? "once too often"
                                       : "which the model does not add"),
                       expected);
  } else {
    const Term &addend = terms[missing[0]];
    result = noteModel(
        begin() << describe(addend) << " is not added"
                << (llvm::is_contained(actual.operands, missing[0]) ? " often enough" : ""),
        addend);
  }
  return std::nullopt;
}

LogicalResult Difference::report(TermId actualId, TermId expectedId) {
  while (true) {
    Term actual = terms[actualId], expected = terms[expectedId];
    visit(actual);
    bool alike = actual.kind == expected.kind && actual.name == expected.name &&
                 actual.type == expected.type && actual.index == expected.index;
    if (alike && actual.kind == Term::Sum) {
      LogicalResult result = failure();
      auto pair = compareSums(actual, expected, result);
      if (!pair)
        return result;
      std::tie(actualId, expectedId) = *pair;
      continue;
    }
    if (alike && actual.attributes == expected.attributes &&
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
    if (alike && actual.kind == Term::Op && actual.attributes != expected.attributes)
      if (auto have = dyn_cast_or_null<DictionaryAttr>(actual.attributes))
        if (auto want = dyn_cast_or_null<DictionaryAttr>(expected.attributes))
          for (NamedAttribute entry : have)
            if (want.get(entry.getName()) != entry.getValue())
              return noteModel(begin() << "this is " << actual.name << ", whose '"
                                       << entry.getName().getValue() << "' is " << entry.getValue()
                                       << ", the model's is " << want.get(entry.getName()),
                               expected);
    return noteModel(begin() << "this is " << describe(actual) << ", the model has "
                             << describe(expected),
                     expected);
  }
}

} // namespace

LogicalResult equivalence::compareOutputs(ModuleOp program, Terms &terms,
                                          const ProgramTerms &actual,
                                          const ProgramTerms &expected) {
  Location loc = program.getLoc();
  if (actual.inputs != expected.inputs)
    return emitError(loc) << "the program has other inputs than the model";
  for (auto [i, a, b] : llvm::enumerate(actual.inputAttrs, expected.inputAttrs))
    for (StringRef name : {TpcDialect::kNameAttr, TpcDialect::kDefaultAttr}) {
      Attribute want = b ? b.get(name) : Attribute(), have = a ? a.get(name) : Attribute();
      if (want && want != have)
        return emitError(loc) << "input " << i << " of the program has another '" << name
                              << "' than the model's, which has " << want;
    }
  if (actual.outputTypes != expected.outputTypes)
    return emitError(loc) << "the program has other outputs than the model";
  for (auto [a, b] : llvm::zip(actual.outputs, expected.outputs)) {
    if (a.term == b.term || terms.expand(a.term) == terms.expand(b.term))
      continue;
    return Difference(terms, a.op).report(a.term, b.term);
  }
  return success();
}
