//===- Chunks.cpp - Proof that steps may be split into chunks -------------===//

#include "Chunks.h"

#include "../Equivalence/ProofOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::generation;
using equivalence::Lemma;
using ::tpc::SymExpr;

#include "ChunkOps.cpp.inc"

// New symbols begin with a number sign, which symbols of programs do not contain.
ChunkProver::ChunkProver(func::FuncOp main, const std::string &pastName,
                         const std::string &tokensName)
    : main(main), past(SymExpr::symbol(pastName)), tokens(SymExpr::symbol(tokensName)),
      cached(past), appended(past + tokens), first(SymExpr::symbol("#first")),
      second(SymExpr::symbol("#second")), names{pastName, tokensName},
      whole{{tokensName, first + second}}, firstChunk{{tokensName, first}},
      secondChunk{{pastName, past + first}, {tokensName, second}} {}

ChunkProver::ChunkProver(func::FuncOp main, const StepSymbols &symbols)
    : ChunkProver(main, symbols.past, symbols.tokens) {}

ChunkProver::ChunkProver(func::FuncOp main, const PreallocatedStep &step)
    : ChunkProver(main, "#past", step.tokens) {
  cached = appended = SymExpr::symbol(step.capacity);
  names = {step.tokens, step.capacity};
  firstChunk[step.capacity] = secondChunk[step.capacity] = SymExpr::symbol("#capacity");
  for (BlockArgument argument : main.getArguments()) {
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (name && name.getValue() == step.lengths)
      lengths = argument;
    if (name && name.getValue() == step.counts)
      counts = argument;
  }
}

ChunkProver ChunkProver::forRows(func::FuncOp main, const std::string &batch) {
  ChunkProver prover(main, "#none", batch);
  prover.hasCaches = false;
  return prover;
}

InFlightDiagnostic ChunkProver::fail(Operation *op) const {
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
}

bool ChunkProver::dependsOnTokens(const SymExpr &e) const {
  std::set<std::string> symbols;
  e.collectSymbols(symbols);
  return llvm::any_of(symbols, [&](const std::string &name) { return names.count(name) != 0; });
}

bool ChunkProver::dependsOnTokens(Type type) const {
  return llvm::any_of(getSizes(type), [&](const SymExpr &size) { return dependsOnTokens(size); });
}

std::optional<ChunkRelation> ChunkProver::makeTokens(const SymExpr &size, unsigned dim) const {
  for (ChunkRelation::Kind kind : {ChunkRelation::New, ChunkRelation::Appended})
    if (size == countTokens(kind))
      return ChunkRelation{.kind = kind, .dim = dim};
  return std::nullopt;
}

bool ChunkProver::isTokens(Value value, const ChunkRelation &relation, unsigned dim,
                           ChunkRelation::Kind kind) const {
  for (auto [d, size] : llvm::enumerate(getSizes(value)))
    if (d == dim ? size != countTokens(kind) : dependsOnTokens(size))
      return false;
  // A value that does not depend on the token matches any kind.
  return relation.kind == ChunkRelation::Same || (relation.kind == kind && relation.dim == dim);
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

static StringRef describe(Lemma::Letter letter) {
  switch (letter) {
  case Lemma::Letter::Sum:
    return "sums over tokens";
  case Lemma::Letter::Max:
    return "takes the maximum over tokens";
  case Lemma::Letter::Min:
    return "takes the minimum over tokens";
  default:
    return "does not compute each token independently";
  }
}

/// Propagates a shift through an op that only moves elements of some operands. All of these
/// operands must have the same shift, and no other operand may have a shift.
static LogicalResult passShift(const Lemma &lemma, ArrayRef<ChunkRelation> operands,
                               ChunkRelation &result) {
  for (const Lemma::Linear &linear : lemma.linear) {
    const ChunkRelation &one = operands[linear.operands[0]];
    bool passes = linear.moves;
    for (auto [i, relation] : llvm::enumerate(operands))
      passes &= llvm::is_contained(linear.operands, int(i))
                    ? relation.inFirst == one.inFirst && relation.inSecond == one.inSecond
                    : !relation.isShifted();
    if (!passes)
      continue;
    result.setShift(one);
    return success();
  }
  return failure();
}

/// Returns the number that all elements of the result equal, if all operands have such a number.
static std::optional<int64_t> findNumber(Operation *op, const Lemma &lemma,
                                         ArrayRef<ChunkRelation> operands) {
  SmallVector<double> numbers;
  for (const ChunkRelation &relation : operands) {
    if (!relation.number || relation.isShifted())
      return std::nullopt;
    numbers.push_back(double(*relation.number));
  }
  if (numbers.size() == 1 && llvm::any_of(lemma.linear, [](auto &l) { return l.moves; }))
    return operands[0].number;
  auto scalar = dyn_cast<ScalarOpInterface>(op);
  if (!scalar || numbers.empty() || isFloatTensor(op->getResult(0)))
    return std::nullopt;
  double number = scalar.evaluateScalar(numbers);
  constexpr double exact = 1ll << 53;
  return std::fabs(number) < exact && number == std::floor(number)
             ? std::optional<int64_t>(int64_t(number))
             : std::nullopt;
}

FailureOr<ChunkRelation> ChunkProver::relateByFormula(Operation *op,
                                                      ArrayRef<ChunkRelation> operands) {
  auto known = dyn_cast<equivalence::LemmaOpInterface>(op);
  std::optional<Lemma> lemma = known ? known.getFormula() : std::nullopt;
  if (!lemma)
    return fail(op) << "cannot be proved: the verifier has no lemma for its effect on each "
                       "token";
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (auto size = dyn_cast<SymExprAttr>(attribute.getValue());
        size && dependsOnTokens(size.getExpr()))
      return fail(op) << "has an attribute '" << attribute.getName().getValue()
                      << "' that depends on the number of tokens, " << size.getExpr().str();
  const ChunkRelation *layout = nullptr;
  std::map<ChunkRelation::Kind, int> letters; // of dimensions with tokens of each kind, or pairs
  for (auto [i, relation, value] : llvm::enumerate(operands, op->getOperands())) {
    if (relation.kind == ChunkRelation::Cached)
      return fail(op) << "uses cache " << relation.cache
                      << " before the step in another way than to append new tokens to it";
    for (auto [d, size] : llvm::enumerate(getSizes(value))) {
      if (!dependsOnTokens(size))
        continue;
      int letter = lemma->operands[i][d];
      if (letter == Lemma::broadcast || lemma->letters[letter] != Lemma::Letter::Each)
        return fail(op) << describe(letter == Lemma::broadcast ? Lemma::Letter::All
                                                               : lemma->letters[letter])
                        << " (dimension " << d << " of operand " << i
                        << "): its results for earlier tokens would change with each new token";
      if (!relation.hasTokens())
        continue; // all elements are equal
      auto [known, fresh] = letters.try_emplace(relation.getKind(d), letter);
      bool pairs = letters.size() == 2 && !letters.count(ChunkRelation::Pairs) &&
                   letters[ChunkRelation::New] != letters[ChunkRelation::Appended];
      if (known->second != letter || (letters.size() > 1 && !pairs) ||
          (layout && !layout->hasSameLayout(relation)))
        return fail(op) << "takes tokens in two dimensions, or in different orders: its result for "
                           "each token is unknown";
      layout = &relation;
    }
  }
  ChunkRelation result;
  SmallVector<SymExpr> sizes = getSizes(op->getResult(0));
  if (layout) {
    result = *layout;
    result.joint = nullptr;
    result.setShift({});
    for (const auto &[kind, letter] : letters)
      if (llvm::count(lemma->result, letter) != 1)
        return fail(op) << "has a result without the dimension of its tokens";
    auto find = [&](const auto &known) -> unsigned {
      return llvm::find(lemma->result, known.second) - lemma->result.begin();
    };
    // New is before Appended.
    result.dim = find(*letters.begin());
    result.other = find(*letters.rbegin());
    result.kind = letters.size() == 2 ? ChunkRelation::Pairs : letters.begin()->first;
  } else {
    result.number = findNumber(op, *lemma, operands);
  }
  if (llvm::any_of(operands, [](const ChunkRelation &relation) { return relation.isShifted(); }) &&
      failed(passShift(*lemma, operands, result)))
    return fail(op) << "takes values that depend on the number of tokens: for the same token they "
                       "differ from step to step (positions without the offset of the past, "
                       "or lengths)";
  return result;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

FailureOr<ChunkRelation> ChunkProver::findInput(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  SmallVector<SymExpr> sizes = getSizes(argument);
  ChunkRelation relation;
  FlatSymbolRefAttr cache = hasCaches ? getCache(main.getArgAttrDict(index)) : FlatSymbolRefAttr();
  if (argument == lengths)
    relation.inSecond = first;
  if (argument == counts) { // all tokens of the step are real
    relation.inFirst = -second;
    relation.inSecond = -first;
  }
  for (auto [d, size] : llvm::enumerate(sizes)) {
    if (!dependsOnTokens(size))
      continue;
    bool good = cache ? d == CacheOp::tokenDim && size == cached
                      : relation.kind == ChunkRelation::Same && size == tokens;
    if (!good)
      return main.emitError() << "argument " << index << ", " << argument.getType()
                              << (cache ? ", has other tokens than those of the past in dimension "
                                        : ", has no dimension of its own for tokens: dimension ")
                              << d;
    relation = {.kind = cache ? ChunkRelation::Cached : ChunkRelation::New, .dim = unsigned(d)};
  }
  if (cache && relation.kind != ChunkRelation::Cached)
    return main.emitError() << "argument " << index << ", cache " << cache
                            << ", has no tokens of the past";
  relation.cache = cache;
  return relation;
}

/// Checks that the size of the token dimension of a value matches its relation, and that sizes of
/// other dimensions do not depend on tokens.
LogicalResult ChunkProver::checkRelation(Operation *op, Type type,
                                         const ChunkRelation &relation) const {
  if (!relation.hasTokens())
    return success();
  if (relation.kind == ChunkRelation::Pairs) {
    bool merged = relation.dim == relation.other, good = relation.dim <= relation.other;
    for (auto [d, size] : llvm::enumerate(getSizes(type)))
      good &= d == relation.dim     ? size == (merged ? tokens * appended : tokens)
              : d == relation.other ? size == appended
                                    : !dependsOnTokens(size);
    if (!good || !relation.major.isConstant(1) || !relation.minor.isConstant(1))
      return fail(op) << "has pairs of tokens in an unknown order";
    return success();
  }
  for (auto [d, size] : llvm::enumerate(getSizes(type)))
    if (d == relation.dim ? size != relation.major * countTokens(relation.kind) * relation.minor ||
                                dependsOnTokens(relation.major) || dependsOnTokens(relation.minor)
                          : dependsOnTokens(size))
      return fail(op) << "has tokens in two dimensions, or parts of tokens: the token of each "
                         "element is unknown";
  return success();
}

FailureOr<ChunkRelation> ChunkProver::relate(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions())
    return fail(op) << "cannot be proved: this op is not allowed at the model level";
  SmallVector<ChunkRelation> operands;
  for (Value operand : op->getOperands()) {
    auto it = relations.find(operand);
    if (it == relations.end())
      return fail(op) << "takes a value that is not computed before";
    operands.push_back(it->second);
  }
  auto lemma = dyn_cast<ChunkOpInterface>(op);
  FailureOr<ChunkRelation> relation =
      lemma ? lemma.relate(*this, operands) : relateByFormula(op, operands);
  if (failed(relation) || failed(checkRelation(op, op->getResult(0).getType(), *relation)))
    return failure();
  return relation;
}

LogicalResult ChunkProver::checkOutput(unsigned index, Value value) {
  auto it = relations.find(value);
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : main;
  if (it == relations.end())
    return main.emitError() << "returns a value that is not computed before";
  const ChunkRelation &relation = it->second;
  if (relation.kind == ChunkRelation::Cached || relation.kind == ChunkRelation::Appended)
    return fail(op) << "returns tokens of the past as output " << index;
  if (relation.isShifted())
    return fail(op) << "returns values that depend on the number of tokens as output " << index;
  bool found = false;
  for (const SymExpr &size : getSizes(value)) {
    if (dependsOnTokens(size) && (found || size != tokens))
      return fail(op) << "returns output " << index << ", " << value.getType()
                      << ", which has no dimension of its own for tokens";
    found |= dependsOnTokens(size);
  }
  return success();
}

/// Checks the assumption of the lemmas: the result of a cache is the concatenation of the cache and
/// the tokens of the step. The cache of the second chunk is the result of the first chunk.
LogicalResult ChunkProver::checkCache(FlatSymbolRefAttr cache, Value value) {
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : main;
  auto it = relations.find(value);
  ArrayRef<Operation *> appends = joints[cache];
  Operation *joint = it == relations.end() ? nullptr : it->second.joint;
  if (!joint || !llvm::is_contained(appends, joint)) {
    InFlightDiagnostic diag =
        fail(op) << "is cache " << cache
                 << " after the step, but is not its contents before the step followed "
                    "by the tokens of the step";
    for (auto &[other, list] : joints)
      if (joint && llvm::is_contained(list, joint))
        diag.attachNote() << "it is the expected contents of cache " << other;
    return diag;
  }
  for (Operation *other : appends)
    if (other->getName() != joint->getName() || other->getOperands() != joint->getOperands() ||
        other->getAttrDictionary() != joint->getAttrDictionary())
      return fail(other) << "appends other tokens to cache " << cache
                         << " than the cache has after the step";
  return success();
}

LogicalResult ChunkProver::run() {
  if (past == tokens)
    return main.emitError() << "tokens of the past and of the step are one symbol, " << past.str();
  DenseSet<Attribute> given;
  for (BlockArgument argument : main.getArguments()) {
    FlatSymbolRefAttr cache = getCache(main.getArgAttrDict(argument.getArgNumber()));
    if (cache && hasCaches && !given.insert(cache).second)
      return main.emitError() << "cache " << cache << " has two arguments";
    FailureOr<ChunkRelation> relation = findInput(argument);
    if (failed(relation))
      return failure();
    relations[argument] = *relation;
  }
  DenseSet<Operation *> needed;
  for (Operation &op : llvm::reverse(main.front()))
    if (op.hasTrait<OpTrait::IsTerminator>() ||
        llvm::any_of(op.getUsers(), [&](Operation *user) { return needed.contains(user); }))
      needed.insert(&op);
  for (Operation &op : main.front().without_terminator()) {
    if (!needed.contains(&op))
      continue;
    FailureOr<ChunkRelation> relation = relate(&op);
    if (failed(relation))
      return failure();
    relations[op.getResult(0)] = *relation;
  }
  DenseSet<Attribute> returned;
  for (auto [i, value] : llvm::enumerate(main.front().getTerminator()->getOperands())) {
    FlatSymbolRefAttr cache = hasCaches ? getCache(main.getResultAttrDict(i)) : FlatSymbolRefAttr();
    if (cache && !returned.insert(cache).second)
      return main.emitError() << "cache " << cache << " has two results";
    if (failed(cache ? checkCache(cache, value) : checkOutput(i, value)))
      return failure();
  }
  for (Attribute cache : given)
    if (!returned.count(cache))
      return main.emitError() << "cache " << cache << " has an argument but no result";
  return success();
}
