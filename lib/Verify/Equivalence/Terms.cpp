//===- Terms.cpp - Values as symbolic expressions -------------------------===//

#include "Terms.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

TermId Terms::intern(Term term, Operation *op) {
  std::string key;
  auto add = [&](const auto &x) { key.append(reinterpret_cast<const char *>(&x), sizeof(x)); };
  add(term.kind);
  add(term.index);
  add(term.body);
  const void *attributes = term.attributes.getAsOpaquePointer();
  const void *attributes2 = term.attributes2.getAsOpaquePointer();
  const void *type = term.type.getAsOpaquePointer();
  add(attributes);
  add(attributes2);
  add(type);
  add(term.addends);
  for (TermId operand : term.operands)
    add(operand);
  key.append(term.name.begin(), term.name.end());
  auto [it, first] = known.try_emplace(std::move(key), int(terms.size()));
  if (first)
    terms.push_back(std::move(term));
  Operation *&firstOp = inProgram ? terms[it->second].inProgram : terms[it->second].inModel;
  if (!firstOp)
    firstOp = op;
  return it->second;
}

TermId Terms::makeInput(unsigned index, Type type) {
  Term term(Term::Input);
  term.index = index;
  term.type = type;
  return intern(term, nullptr);
}

TermId Terms::makeVariable(unsigned index, Type type) {
  Term term(Term::Variable);
  term.index = index;
  term.type = type;
  return intern(term, nullptr);
}

TermId Terms::makeCall(TermId body, ArrayRef<TermId> arguments, Operation *op) {
  Term term(Term::Call);
  term.body = body;
  term.type = terms[body].type;
  term.operands.assign(arguments.begin(), arguments.end());
  return intern(term, op);
}

Multisets::Set Terms::getAddends(TermId id) {
  return terms[id].kind == Term::Sum ? terms[id].addends : sums.makeSingle(id);
}

TermId Terms::makeSum(Type type, Multisets::Set addends, Operation *op) {
  Term term(Term::Sum);
  term.type = type;
  term.addends = addends;
  return intern(term, op);
}

TermId Terms::makeSum(Type type, ArrayRef<TermId> addends, Operation *op) {
  // If the multiplicities of a nested sum become too large, the sum is kept as one addend.
  for (bool flat : {true, false}) {
    std::optional<Multisets::Set> sum = Multisets::empty;
    for (TermId addend : addends)
      if (sum)
        sum = sums.add(*sum, flat ? getAddends(addend) : sums.makeSingle(addend));
    if (sum)
      return makeSum(type, *sum, op);
  }
  llvm_unreachable("a few addends have small multiplicities");
}

/// Returns the normal form of an op's term.
TermId Terms::normalize(Term term, Operation *op) {
  if (term.isCommutative)
    llvm::sort(term.operands);
  TermId known = term.model ? term.model->normalize(*this, term) : -1;
  return known >= 0 ? known : intern(std::move(term), op);
}

/// Merges adjacent factors of a view: (a x b*t, b x t) is (a*b x t).
static Attribute normalizeView(ViewAttr view) {
  Builder builder(view.getContext());
  SmallVector<Attribute> dims = {builder.getI64IntegerAttr(view.getOffset())};
  for (unsigned d = 0; d < view.getDims().size(); ++d) {
    SmallVector<int64_t> factors; // size, stride, size, stride, …
    for (StridedFactorAttr factor : view.getFactors(d)) {
      int64_t merged, size = factor.getSize(), stride = factor.getStride();
      if (size == 1)
        continue;
      if (!factors.empty() && !llvm::MulOverflow(size, stride, merged) &&
          factors.back() == merged &&
          !llvm::MulOverflow(factors[factors.size() - 2], size, merged)) {
        factors[factors.size() - 2] = merged;
        factors.back() = stride;
      } else {
        factors.append({size, stride});
      }
    }
    dims.push_back(builder.getDenseI64ArrayAttr(factors));
  }
  return builder.getArrayAttr(dims);
}

TermId Terms::makeParameter(ParameterOp op, ViewAttr view, Type type) {
  Term term(Term::Parameter);
  term.type = type;
  term.name = op.getWeight();
  if (WeightOp weight = op.getWeightOp()) {
    term.attributes = normalizeView(view);
    term.attributes2 = ArrayAttr::get(
        op.getContext(), {weight.getFileAttr(), weight.getOffsetAttr(), weight.getTypeAttr()});
  }
  return intern(term, op);
}

TermId Terms::makeRepetition(TermId operand, const Repeats &repeats, Type type, Operation *op) {
  Term term(Term::Op);
  term.name = "repetition";
  term.attributes = StringAttr::get(type.getContext(), toText(repeats));
  term.type = type;
  term.operands = {operand};
  TermId id = intern(term, op);
  repetitions.try_emplace(id, operand, repeats);
  return id;
}

TermId Terms::makeOp(OperationName name, Operation *op, ArrayRef<TermId> operands, Type type,
                     Attribute attributes) {
  Term term(Term::Op);
  term.name = name.getStringRef();
  term.model = name.getInterface<TermOpInterface>();
  term.attributes = attributes;
  term.type = type;
  term.operands.assign(operands.begin(), operands.end());
  term.isCommutative = name.hasTrait<OpTrait::IsCommutative>();
  return normalize(std::move(term), op);
}

TermId Terms::makeOp(Operation *op, ArrayRef<TermId> operands, Type type) {
  return makeOp(op->getName(), op, operands, type, op->getPropertiesAsAttribute());
}

void Terms::noteUse(ArrayRef<TermId> operands, Operation *op) {
  for (TermId operand : operands)
    if (inProgram && !terms[operand].usedInProgram)
      terms[operand].usedInProgram = op;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Returns the subterms that have not been replaced yet, without the bodies of calls, in ascending
/// order. Operands precede their users, because they have smaller ids.
std::vector<TermId> Terms::collect(TermId id, const Substitution &substitution) const {
  std::vector<TermId> found;
  DenseSet<TermId> seen;
  DenseSet<Multisets::Set> seenSums;
  SmallVector<TermId> work;
  auto push = [&](TermId next) {
    if (!substitution.done.contains(next) && seen.insert(next).second)
      work.push_back(next);
  };
  push(id);
  while (!work.empty()) {
    TermId next = work.pop_back_val();
    found.push_back(next);
    llvm::for_each(terms[next].operands, push);
    sums.forEachNew(terms[next].addends, seenSums, push);
  }
  llvm::sort(found);
  return found;
}

std::optional<Multisets::Set> Terms::instantiateSum(Multisets::Set set,
                                                    Substitution &substitution) {
  if (set == Multisets::empty)
    return set;
  if (auto it = substitution.sums.find(set); it != substitution.sums.end())
    return it->second;
  Multisets::Node node = sums[set];
  std::optional<Multisets::Set> result;
  if (node.bit == 0) {
    result = sums.scale(getAddends(substitution.done.lookup(node.bits)), node.times);
  } else {
    auto left = instantiateSum(node.left, substitution);
    auto right = instantiateSum(node.right, substitution);
    if (left && right)
      result = sums.add(*left, *right);
  }
  if (result)
    substitution.sums[set] = *result;
  return result;
}

/// Replaces one term. Its operands must have been replaced.
TermId Terms::instantiateOne(TermId id, Substitution &substitution) {
  Term term = terms[id]; // a copy, because the table may be reallocated
  Operation *op = inProgram && term.inProgram ? term.inProgram : term.inModel;
  for (TermId &operand : term.operands)
    operand = substitution.done.lookup(operand);
  switch (term.kind) {
  case Term::Variable:
    return size_t(term.index) < substitution.arguments.size() ? substitution.arguments[term.index]
                                                              : id;
  case Term::Input:
  case Term::Parameter:
    return id;
  case Term::Op:
    return normalize(term, op);
  case Term::Sum: {
    if (std::optional<Multisets::Set> sum = instantiateSum(term.addends, substitution))
      return makeSum(term.type, *sum, op);
    SmallVector<TermId> addends; // one term per addend
    sums.forEach(term.addends, [&](unsigned addend, int64_t times) {
      addends.push_back(
          makeSum(term.type, sums.makeSingle(substitution.done.lookup(addend), times), op));
    });
    std::optional<Multisets::Set> sum = Multisets::empty;
    for (TermId addend : addends)
      sum = sums.add(*sum, sums.makeSingle(addend));
    return makeSum(term.type, *sum, op);
  }
  case Term::Call: {
    if (isExhausted())
      return makeCall(term.body, term.operands, op);
    Substitution inner;
    inner.arguments.assign(term.operands.begin(), term.operands.end());
    return instantiate(term.body, inner);
  }
  }
  llvm_unreachable("all kinds of terms are listed");
}

/// Returns `id` with variables replaced and calls replaced by their bodies. The recursion depth is
/// the nesting depth of layer calls.
TermId Terms::instantiate(TermId id, Substitution &substitution) {
  for (TermId next : collect(id, substitution))
    substitution.done[next] = instantiateOne(next, substitution);
  return substitution.done.lookup(id);
}

TermId Terms::expand(TermId id) { return instantiate(id, expanded); }
