//===- TensorTerms.cpp - Expressions of tensor functions ------------------===//

#include "TensorTerms.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

TermId Terms::intern(Term term) {
  std::string key = (term.name + " ").str();
  auto add = [&](auto x) { key.append(reinterpret_cast<const char *>(&x), sizeof(x)); };
  add(term.attributes.getAsOpaquePointer());
  add(term.type.getAsOpaquePointer());
  add(term.index);
  for (TermId operand : term.operands)
    add(operand);
  auto [it, isNew] = known.try_emplace(std::move(key), TermId(terms.size()));
  if (isNew)
    terms.push_back(std::move(term));
  return it->second;
}

static std::string describe(const Term &term) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << term.name;
  if (term.name == "argument")
    os << " " << term.index;
  if (term.op && term.name != "argument")
    os << " '" << getSourceName(term.op->getLoc()) << "'";
  if (term.type)
    os << " of type " << term.type;
  return text;
}

LogicalResult lowered::reportDifference(const Terms &terms, Effect actual, Effect expected) {
  const Term *have = &terms[actual.term], *want = &terms[expected.term];
  for (bool found = true; found;) {
    found = false;
    if (have->name != want->name || have->attributes != want->attributes ||
        have->type != want->type || have->index != want->index ||
        have->operands.size() != want->operands.size())
      break;
    for (auto [a, b] : llvm::zip_equal(have->operands, want->operands))
      if (a != b) {
        have = &terms[a];
        want = &terms[b];
        found = true;
        break;
      }
  }
  Operation *op = have->op ? have->op : actual.op;
  InFlightDiagnostic diag = op->emitError()
                            << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                            << "): its tensor functions differ from the staged program's: ";
  if (have->name == want->name && have->type == want->type && have->attributes && want->attributes)
    for (auto [from, other] : {std::pair(have, want), std::pair(want, have)})
      for (NamedAttribute attr : from->attributes)
        if (attr.getValue() != other->attributes.get(attr.getName())) {
          auto print = [&](Attribute value) { value ? diag << value : diag << "none"; };
          diag << "this is " << have->name << " with '" << attr.getName().getValue() << "' ";
          print(have->attributes.get(attr.getName()));
          diag << ", in the staged program ";
          print(want->attributes.get(attr.getName()));
          return diag;
        }
  return diag << "this is " << describe(*have) << ", in the staged program " << describe(*want);
}
