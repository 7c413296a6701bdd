//===- ReadProgram.cpp - Reader of program text ---------------------------===//

#include "ReadProgram.h"

#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Kernel/Kernel.h"
#include "tpc/Transforms/Tactics/Passes.h"
#include "tpc/Verify/Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <fstream>

using namespace mlir;
using namespace mlir::tpc;

namespace tpc {

static constexpr llvm::StringLiteral bytecodeMagic = "ML\xefR";

static std::string readStart(StringRef path) {
  std::string start(512, '\0');
  std::ifstream file(path.str(), std::ios::binary);
  file.read(start.data(), start.size());
  start.resize(file.gcount());
  return start;
}

bool isProgramText(StringRef path) {
  if (llvm::sys::path::extension(path) == ".mlir")
    return true;
  std::string start = readStart(path);
  if (StringRef(start).starts_with(bytecodeMagic))
    return true; // bytecode; readProgram emits a specific error
  // The first byte of an ONNX file is the tag of the IR version, which does not occur in text.
  return !start.empty() &&
         llvm::all_of(start, [](char c) { return llvm::isPrint(c) || llvm::isSpace(c); });
}

std::optional<ShardSpec> getSpec(MeshAttr grid) {
  std::vector<std::string> items, order;
  auto add = [&](StringRef name, int64_t size) {
    if (size != 1)
      items.push_back((name + Twine(size)).str());
  };
  if (grid.hasAxis("tpx"))
    items.push_back("tp" + std::to_string(grid.getAxisSize("tpx")) + "x" +
                    std::to_string(grid.getAxisSize("tpy")));
  else
    add("tp", grid.getViewSize("tp"));
  for (StringRef view : {"pp", "dp", "cp", "ep"})
    add(view, grid.getViewSize(view));
  if (grid.getViewSize("etp") != grid.getViewSize("tp"))
    items.push_back("etp" + std::to_string(grid.getViewSize("etp")));
  add("vpp", grid.getChunksPerRank());
  add("mb", grid.getMicroBatches());
  if (grid.getGpusPerNode())
    items.push_back("gpus-per-node=" + std::to_string(grid.getGpusPerNode()));
  for (StringAttr axis : grid.getOrder())
    for (StringRef view : {"tp", "cp", "dp", "pp"})
      if (grid.isInView(axis, view) && !llvm::is_contained(order, view))
        order.push_back(view.str());
  // The order of the atoms determines the position of ep, unless all positions make the same grid.
  for (size_t position = 0; position <= order.size(); ++position) {
    std::vector<std::string> names = order;
    names.insert(names.end() - position, "ep");
    std::vector<std::string> all = items;
    all.push_back("order=" + llvm::join(names, "-"));
    std::string error;
    std::optional<ShardSpec> spec = ShardSpec::parse(llvm::join(all, ","), error);
    if (spec && makeMeshAttr(grid.getContext(), *spec) == grid)
      return spec;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Requirements of later passes
//===----------------------------------------------------------------------===//

static LogicalResult checkType(Operation *op, Type type, StringRef what) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return op->emitError() << what << " must be a tensor, but has type " << type;
  if (!tensor.getElementType().isIntOrFloat())
    return op->emitError() << what << " must have integer or float elements, but has "
                           << tensor.getElementType();
  Attribute encoding = tensor.getEncoding();
  if (encoding && !isa<DistAttr>(encoding))
    return op->emitError() << what << " of type " << type
                           << " must have a #tpc.dist as its encoding";
  if (!encoding && !tensor.hasStaticShape())
    return op->emitError() << what << " of type " << type
                           << " has unknown sizes; declare them in a #tpc.dist";
  return success();
}

static LogicalResult checkOp(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  bool allowed =
      isa<TpcDialect>(op->getDialect()) || isa<func::FuncOp, func::CallOp, func::ReturnOp>(op);
  if (!allowed)
    return op->emitError() << "'" << op->getName()
                           << "' is not allowed in a program up to the staged level; allowed are "
                           << "the ops of 'tpc', func.func, func.call and func.return"
                           << (dialect == "llvm"
                                   ? "; output of --emit=llvm cannot be compiled further"
                                   : "");
  for (Value result : op->getResults())
    if (failed(checkType(op, result.getType(), "a result")))
      return failure();
  for (Region &region : op->getRegions()) {
    if (region.empty() && isa<func::FuncOp>(op))
      return op->emitError() << "@" << cast<func::FuncOp>(op).getName()
                             << " is declared, but has no body";
    if (!region.hasOneBlock())
      return op->emitError() << "'" << op->getName() << "' has " << region.getBlocks().size()
                             << " blocks, but a region must have one";
    for (Value argument : region.getArguments())
      if (failed(checkType(op, argument.getType(), "an argument")))
        return failure();
  }
  return success();
}

/// Rejects direct and indirect recursion.
static LogicalResult checkCalls(ModuleOp module) {
  DenseMap<Operation *, int> state; // 1: active, 2: done
  auto visit = [&](auto &visit, func::FuncOp function) -> LogicalResult {
    state[function] = 1;
    WalkResult result = function.walk([&](func::CallOp call) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      if (state.lookup(callee) == 1) {
        call.emitError() << "@" << call.getCallee()
                         << " must not be recursive, but calls itself here";
        return WalkResult::interrupt();
      }
      if (state.lookup(callee) == 0 && failed(visit(visit, callee)))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    state[function] = 2;
    return failure(result.wasInterrupted());
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (state.lookup(function) == 0 && failed(visit(visit, function)))
      return failure();
  return success();
}

static LogicalResult checkProgram(ModuleOp module) {
  for (Operation &op : *module.getBody())
    if (auto inner = dyn_cast<ModuleOp>(op); inner && !inner.getOps<kernel::FuncOp>().empty())
      return op.emitError()
             << "a program with a module of kernels is output of --emit=kernels or --emit=buffers, "
                "which cannot be compiled further; use the output of --emit=staged";
    else if (!isa<func::FuncOp, WeightOp, CacheOp, PipelineOp>(op))
      return op.emitError() << "'" << op.getName()
                            << "' is not allowed in a module; allowed are functions, tpc.weight, "
                               "tpc.cache and tpc.pipeline";
  auto caches = module.getOps<CacheOp>();
  if ((!caches.empty() || module->hasAttr(kStepAttr)) && !PreallocatedStep::lookup(module))
    return emitError(module.getLoc())
           << "has caches, but is not a step on preallocated caches (" << kStepAttr
           << " with a capacity); use the output of --generate, such as --generate --emit=model";
  WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    return op == module || succeeded(checkOp(op)) ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (result.wasInterrupted() || failed(checkCalls(module)))
    return failure();
  if (Attribute batch = module->getAttr(kBatchAttr); batch && !isa<DimAttr>(batch))
    return emitError(module.getLoc()) << "tpc.batch must be a #tpc.dim, not " << batch;
  for (StringRef name : {kSourceAttr})
    if (Attribute text = module->getAttr(name); text && !isa<StringAttr>(text))
      return emitError(module.getLoc()) << name << " must be text, not " << text;
  return success();
}

//===----------------------------------------------------------------------===//
// Level of the program
//===----------------------------------------------------------------------===//

namespace {
/// First ops in the program that occur only at a specific level.
struct LevelMarkers {
  Operation *sharded = nullptr, *spmd = nullptr;
};
} // namespace

static LevelMarkers findLevelMarkers(ModuleOp module) {
  LevelMarkers markers;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto note = [&](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || !isa_and_nonnull<DistAttr>(tensor.getEncoding()))
        return;
      DistAttr dist = getDist(tensor);
      if (dist.getLocal()) {
        markers.spmd = markers.spmd ? markers.spmd : op;
      } else if (dist.getPartial() || dist.getGlobal() != dist) {
        markers.sharded = markers.sharded ? markers.sharded : op;
      }
    };
    for (Value result : op->getResults())
      note(result.getType());
    for (Region &region : op->getRegions())
      for (Value argument : region.getArguments())
        note(argument.getType());
    if (isa<ReshardOp>(op))
      markers.sharded = markers.sharded ? markers.sharded : op;
    if (isa<CollectiveOpInterface, LocalSliceOp, SendOp, RecvOp>(op))
      markers.spmd = markers.spmd ? markers.spmd : op;
  });
  return markers;
}

static FailureOr<Emit> findLevel(ModuleOp module) {
  LevelMarkers markers = findLevelMarkers(module);
  auto grid = MeshAttr::lookup(module);
  auto pipelines = llvm::to_vector(module.getOps<PipelineOp>());
  if (!grid) {
    Operation *op = markers.sharded ? markers.sharded : markers.spmd;
    if (!op && !pipelines.empty())
      op = pipelines.front();
    if (op)
      return op->emitError() << "'" << op->getName() << "' belongs to a program that is split over "
                             << "ranks, but the module has no " << kMeshAttr;
  }
  if (markers.sharded && (markers.spmd || !pipelines.empty())) {
    InFlightDiagnostic diag =
        markers.sharded->emitError()
        << "'" << markers.sharded->getName()
        << "' belongs to the sharded level, because its type is split, but not local";
    Operation *other = markers.spmd ? markers.spmd : pipelines.front();
    diag.attachNote(other->getLoc()) << "'" << other->getName() << "' belongs to a later level";
    return diag;
  }
  if (pipelines.size() > 1)
    return pipelines[1].emitError() << "a program must have only one tpc.pipeline";
  if (!pipelines.empty())
    return Emit::Staged;
  if (!module.lookupSymbol<func::FuncOp>("main"))
    return emitError(module.getLoc())
           << "there is no function @main, and no tpc.pipeline: nothing to compile";
  return !grid ? Emit::Import : markers.spmd ? Emit::Spmd : Emit::Sharded;
}

OwningOpRef<ModuleOp> readProgram(StringRef path, MLIRContext *context, Emit &level) {
  context->loadDialect<func::FuncDialect, TpcDialect>();
  Location loc = FileLineColLoc::get(context, path, 0, 0);
  if (StringRef(readStart(path)).starts_with(bytecodeMagic)) {
    emitError(loc) << "is MLIR bytecode, but programs must be text; print it with tpc-opt " << path;
    return nullptr;
  }
  // Parsing also verifies all ops.
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, ParserConfig(context));
  if (!module || failed(checkProgram(*module)))
    return nullptr;
  FailureOr<Emit> found = findLevel(*module);
  if (failed(found))
    return nullptr;
  level = *found;
  // Removes results of earlier verification, because the program may have been edited.
  for (StringRef name : {kNotVerifiedAttr, kScheduleAttr, kNoRandomizedCheckAttr})
    (*module)->removeAttr(name);
  if (!(*module)->hasAttr(kSourceAttr)) {
    SmallString<256> absolute(path);
    (void)llvm::sys::fs::make_absolute(absolute);
    (*module)->setAttr(kSourceAttr, StringAttr::get(context, absolute));
  }
  return module;
}

} // namespace tpc
