//===- ApplyAnnotations.cpp - Application of an annotation file -----------===//

#include "AnnotationFile.h"
#include "AnnotationTargets.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Support/ReadFile.h"
#include "tpc/Transforms/Annotations/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_APPLYANNOTATIONS
#include "tpc/Transforms/Annotations/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

/// Limit on the size of an annotation file.
static constexpr uint64_t kMaxBytes = 16 << 20;

namespace {

/// Tensor, and the line of the file that annotates it.
struct Target : AnnotationTarget {
  const AnnotationLine *line = nullptr;
};

struct ApplyAnnotations : public mlir::tpc::impl::ApplyAnnotationsBase<ApplyAnnotations> {
  using ApplyAnnotationsBase::ApplyAnnotationsBase;

  void runOnOperation() override {
    std::vector<AnnotationTarget> named = collectAnnotationTargets(getOperation());
    // Annotations of the model's file apply before those of the user.
    if (shard.hasValue() &&
        failed(applyDeviceConfiguration(getOperation(), named, shard, configuration)))
      return signalPassFailure();
    if (file.empty())
      return;
    std::vector<AnnotationLine> lines;
    if (failed(readFile(lines)))
      return signalPassFailure();
    std::vector<Target> targets;
    for (AnnotationTarget &target : named)
      targets.push_back({std::move(target)});
    bool ok = true;
    for (const AnnotationLine &line : lines)
      ok &= succeeded(apply(line, targets));
    if (!ok)
      signalPassFailure();
  }

private:
  LogicalResult readFile(std::vector<AnnotationLine> &lines);
  LogicalResult apply(const AnnotationLine &line, std::vector<Target> &targets);
  LogicalResult applyTo(const AnnotationLine &line, Target &target);
  LogicalResult explainNoMatch(const AnnotationLine &line, ArrayRef<Target> targets);
  InFlightDiagnostic error(unsigned line, unsigned column) {
    return emitError(FileLineColLoc::get(&getContext(), file.getValue(), line, column));
  }
};

} // namespace

LogicalResult ApplyAnnotations::readFile(std::vector<AnnotationLine> &lines) {
  std::string text;
  if (std::string problem = ::tpc::readFile(file.getValue(), kMaxBytes, text); !problem.empty())
    return error(0, 0) << "cannot read the annotations: " << problem;
  if (auto fault = parseAnnotations(text, lines))
    return error(fault->line, fault->column) << fault->what;
  return success();
}

static std::string describeShape(ArrayRef<::tpc::SymExpr> sizes) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(sizes))
    text += (i ? ", " : "") + size.str();
  return text + "]";
}

LogicalResult ApplyAnnotations::applyTo(const AnnotationLine &line, Target &target) {
  MLIRContext *context = &getContext();
  if (line.entries.size() != target.sizes.size())
    return error(line.line, line.listColumn)
           << "the list has " << line.entries.size()
           << (line.entries.size() == 1 ? " entry" : " entries") << ", but " << target.kind << " '"
           << target.name << "' has " << target.sizes.size()
           << (target.sizes.size() == 1 ? " dimension " : " dimensions ")
           << describeShape(target.sizes);
  SmallVector<Attribute> dims;
  for (auto [entry, size] : llvm::zip(line.entries, target.sizes)) {
    if (entry.open) {
      dims.push_back(UnitAttr::get(context));
      continue;
    }
    SmallVector<StringAttr> axes;
    for (const AnnotationLine::Axis &axis : entry.axes)
      for (const ::tpc::MeshAtom &atom : shard.getView(axis.name))
        axes.push_back(StringAttr::get(context, atom.name));
    FactorAttr factor = FactorAttr::get(context, size, axes);
    dims.push_back(DimAttr::get(context, factor));
  }
  auto sharding = ArrayAttr::get(context, dims);
  auto source = StringAttr::get(context, file.getValue() + ":" + std::to_string(line.line) + ":" +
                                             std::to_string(line.column));
  if (target.line && target.line->line != line.line) {
    ArrayAttr before = target.getSharding();
    if (before == sharding)
      return success();
    InFlightDiagnostic diag = error(line.line, line.listColumn)
                              << "line " << line.line << " annotates " << target.kind << " '"
                              << target.name << "' as " << printSharding(sharding) << ", but line "
                              << target.line->line << " as " << printSharding(before);
    diag.attachNote(
        FileLineColLoc::get(context, file.getValue(), target.line->line, target.line->listColumn))
        << "the other pattern, '" << target.line->pattern << "'";
    return diag;
  }
  target.line = &line;
  target.setSharding(sharding, source);
  return success();
}

LogicalResult ApplyAnnotations::explainNoMatch(const AnnotationLine &line,
                                               ArrayRef<Target> targets) {
  InFlightDiagnostic diag = error(line.line, line.column)
                            << "pattern '" << line.pattern << "' matches nothing: no weight, "
                            << "input or value of the model has such a name";
  const Target *nearest = nullptr;
  unsigned minDistance = 0;
  for (const Target &target : targets.take_front(4096)) {
    unsigned distance = StringRef(target.name).edit_distance(line.pattern, true, 64);
    if (!nearest || distance < minDistance) {
      nearest = &target;
      minDistance = distance;
    }
  }
  if (nearest)
    diag << "; the nearest is '" << nearest->name << "'";
  return diag;
}

LogicalResult ApplyAnnotations::apply(const AnnotationLine &line, std::vector<Target> &targets) {
  for (const AnnotationLine::Entry &entry : line.entries)
    for (const AnnotationLine::Axis &axis : entry.axes) {
      if (axis.name == kPipelineAxis || axis.name == kMicroBatchAxis)
        return error(line.line, axis.column)
               << "'" << axis.name << "' splits "
               << (axis.name == kPipelineAxis ? "layers" : "the batch in time")
               << ", not dimensions; write " << axis.name << "N in --megatron-shard";
      std::vector<::tpc::MeshAtom> atoms = shard.getView(axis.name);
      if (atoms.empty()) {
        InFlightDiagnostic diag = error(line.line, axis.column)
                                  << "there is no axis '" << axis.name << "'; the grid has ";
        llvm::interleaveComma(shard.axes(), diag, [&](auto &a) { diag << a.name; });
        return diag;
      }
      if (shard.hasValue() && llvm::all_of(atoms, [](auto &atom) { return atom.size == 1; }))
        emitRemark(FileLineColLoc::get(&getContext(), file.getValue(), line.line, axis.column))
            << "axis '" << axis.name << "' has one rank, so it splits nothing";
    }
  bool matched = false, ok = true;
  for (Target &target : targets)
    if (line.matches(target.name)) {
      matched = true;
      ok = succeeded(applyTo(line, target));
      if (!ok)
        break; // one message per line
    }
  if (!matched)
    return explainNoMatch(line, targets);
  return success(ok);
}
