//===- Coverage.cpp - Table of ops and their interface models -------------===//

#include "tpc/Driver/Coverage.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Async.h"

#include "tpc/Analysis/Cost.h"
#include "tpc/Analysis/Index/IndexAnalysis.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Dialect/Training.h"
#include "tpc/Driver/Register.h"
#include "tpc/Transforms/Backward/Passes.h"
#include "tpc/Verify/Verify.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {

using Matches = bool (*)(OperationName);
template <typename... Ops> bool isOneOf(OperationName name) {
  return (... || (name.getStringRef() == Ops::getOperationName()));
}
template <typename Interface> bool has(OperationName name) {
  return name.hasInterface<Interface>();
}

bool isStructure(OperationName name) {
  return isOneOf<WeightOp, CacheOp, PipelineOp, StageOp, MicroBatchesOp>(name);
}
bool isMessage(OperationName name) {
  return isOneOf<SendOp, RecvOp, OutputOp, AccumulateOp, AccumulatedOp>(name);
}
bool isCommunication(OperationName name) {
  return has<CollectiveOpInterface>(name) || isOneOf<ReshardOp, LocalSliceOp>(name);
}
bool isSource(OperationName name) { return isOneOf<ParameterOp, ConstantOp, IotaOp, SizeOp>(name); }
bool hasTypeOfItsOwn(OperationName name) {
  return isOneOf<ReshapeOp, ExpandOp, SliceOp, CastOp, ScatterAddOp>(name) || isSource(name);
}

bool computesElements(OperationName name) {
  return isOneOf<MatmulOp, MoeOp, AttentionOp, AttentionGradOp, SoftmaxOp, RotaryOp, ReduceOp,
                 CumSumOp, TriluOp, ScatterAddOp, AllReduceOp, ReduceScatterOp, AllReduceStartOp,
                 DispatchOp, CombineOp>(name);
}

/// Structural ops except loops over micro-batches, which have a lowering model.
bool isStructureOfExecutable(OperationName name) {
  return isStructure(name) && !isOneOf<MicroBatchesOp>(name);
}

/// Reason why an op needs no model in a column. An empty `concern` applies to all columns.
struct Reason {
  StringRef concern;
  Matches isFor;
  StringRef text;
};

constexpr Reason reasons[] = {
    {"", isOneOf<AnnotationOp>, "exists only while the model is recognized"},
    {"rule", isStructure, "has no value"},
    {"rule", isMessage, "crosses stages: the type has the distribution"},
    {"rule", isCommunication, "changes the distribution: the two types define how"},
    {"rule", isOneOf<WaitOp>, "not at the model level"},
    {"type", isStructure, "has no value"},
    {"type", isMessage, "crosses stages: the type is that of the sent value"},
    {"type", isCommunication, "changes the distribution: the two types define how"},
    {"type", hasTypeOfItsOwn, "the result's type defines its computation"},
    {"elements", isStructure, "has no value"},
    {"elements", isMessage, "crosses stages: the result is the sent value"},
    {"elements", isSource, "has no operand"},
    {"elements", computesElements, "computes each element from many elements"},
    {"elements", isOneOf<DequantizeOp>, "computes each element from bits of a byte"},
    {"elements", isOneOf<WaitOp>, "has the elements of its operand"},
    {"elements", isOneOf<ConcatOp, AppendOp>, "takes elements from several operands"},
    {"index", isStructure, "has no value"},
    {"index", isMessage, "not at the model level"},
    {"index", isCommunication, "not at the model level"},
    {"index", isOneOf<WaitOp>, "not at the model level"},
    {"gradient", isStructure, "has no value"},
    {"gradient", isMessage, "not at the model level"},
    {"gradient", isOneOf<WaitOp>, "not at the model level"},
    {"gradient", isCommunication, "not at the model level"},
    {"gradient", isOneOf<AppendOp>, "is only in generation steps"},
    {"gradient", isOneOf<DequantizeOp>,
     "its operands are quantized weights, which are not trained"},
    {"gradient", isOneOf<AttentionGradOp>, "is only in backward programs"},
    {"gradient", isOneOf<GatherNDOp, ModOp, MoeOp>, "tpc-derive-backward rejects it"},
    {"expression", isStructure, "has no value"},
    {"expression", isMessage,
     "crosses stages: programs are read across messages (ReadProgram.cpp)"},
    {"repetition", isStructure, "has no value"},
    {"repetition", isMessage,
     "crosses stages: programs are read across messages (ReadProgram.cpp)"},
    {"repetition", isCommunication, "moves its operand, with its repetitions"},
    {"repetition", isOneOf<WaitOp>, "moves its operand, with its repetitions"},
    {"repetition", isSource, "has no operand that could repeat"},
    {"evaluator", isStructure, "has no value: the interpreter runs stages and loops itself"},
    {"domain", isStructure, "has no value: the interpreter runs stages and loops itself"},
    {"domain", isMessage,
     "crosses stages: inputs are generated for the model, which has no stages"},
    {"domain", isSource, "has no operand"},
    {"code", isStructureOfExecutable,
     "becomes the executable's structure: manifest, functions, loops"},
    {"code", isOneOf<ReshardOp>, "not in local programs"},
};

SmallVector<CoverageColumn> getConcerns() {
  SmallVector<CoverageColumn> concerns = {
      {"rule",
       "how it may be split (`ShardingRuleOpInterface`)",
       {{"yes", TypeID::get<ShardingRuleOpInterface>()}}},
      {"type",
       "the result's type follows from the operands (`InferTypeOpInterface`)",
       {{"yes", TypeID::get<InferTypeOpInterface>()}}},
      {"elements",
       "origin of the result's elements: the op `moves` them (`MovementOpInterface`), `looks up` "
       "(`LookupOpInterface`), computes `each` by itself (`ScalarOpInterface`) or normalizes a "
       "`row` (`NormOpInterface`)",
       {{"moves", TypeID::get<MovementOpInterface>()},
        {"looks up", TypeID::get<LookupOpInterface>()},
        {"each", TypeID::get<ScalarOpInterface>()},
        {"row", TypeID::get<NormOpInterface>()}}},
  };
  llvm::append_range(concerns, getIndexCoverage());
  llvm::append_range(concerns, getCostCoverage());
  llvm::append_range(concerns, getGradientCoverage());
  llvm::append_range(concerns, getVerificationCoverage());
  llvm::append_range(concerns, getLoweringCoverage());
  return concerns;
}

const Reason *findReason(const CoverageColumn &concern, OperationName op) {
  const auto *it = llvm::find_if(reasons, [&](const Reason &reason) {
    return (reason.concern.empty() || reason.concern == concern.name) && reason.isFor(op);
  });
  return it == std::end(reasons) ? nullptr : it;
}

} // namespace

bool ::tpc::printCoverage(llvm::raw_ostream &os) {
  DialectRegistry registry;
  ::tpc::registerAllDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<TpcDialect>();
  SmallVector<CoverageColumn> concerns = getConcerns();
  SmallVector<StringRef> notes; // in order of first use
  bool good = true;
  std::string table;
  llvm::raw_string_ostream rows(table);
  SmallVector<RegisteredOperationName> ops =
      llvm::to_vector(context.getRegisteredOperationsByDialect(TpcDialect::getDialectNamespace()));
  llvm::sort(ops, [](auto a, auto b) { return a.getStringRef() < b.getStringRef(); });
  for (RegisteredOperationName op : ops) {
    rows << "| `" << op.stripDialect() << "` |";
    for (const CoverageColumn &concern : concerns) {
      SmallVector<StringRef> found;
      for (auto [mark, interface] : concern.interfaces)
        if (op.hasInterface(interface))
          found.push_back(mark);
      const Reason *reason = findReason(concern, op);
      if (found.empty() == !reason) {
        good = false;
        llvm::WithColor::error() << op << " has " << (reason ? "a" : "no") << " model of '"
                                 << concern.name << "' (" << concern.description << "), "
                                 << (reason ? "but is listed as an exception: "
                                            : "and is not listed as an exception")
                                 << (reason ? reason->text : "") << "\n";
      }
      rows << " " << llvm::join(found, ", ");
      if (reason) {
        auto *note = llvm::find(notes, reason->text);
        size_t number = note - notes.begin() + 1;
        if (note == notes.end())
          notes.push_back(reason->text);
        rows << "(" << number << ")";
      }
      rows << " |";
    }
    rows << "\n";
  }

  os << "# Coverage: models of ops\n\n"
        "One row for each op of the dialect, one column for each concern. A cell is filled if the "
        "op has a\nmodel of the concern; otherwise a note gives the reason. A pass that finds an "
        "op without a model rejects\nit by name. [Adding an op](../dev/adding-an-op.md) names the "
        "files of models.\n\n";
  for (const CoverageColumn &concern : concerns)
    os << "* **" << concern.name << "**: " << concern.description << "\n";
  os << "\n| op |";
  for (const CoverageColumn &concern : concerns)
    os << " " << concern.name << " |";
  os << "\n|---|";
  for (size_t i = 0; i < concerns.size(); ++i)
    os << "---|";
  os << "\n" << table << "\n";
  for (auto [i, note] : llvm::enumerate(notes))
    os << "(" << i + 1 << ") " << note << "<br>\n";
  return good;
}

void ::tpc::printFacts(llvm::raw_ostream &os) { mlir::tpc::printFactTable(os); }
