//===- Embed.cpp - GPU code as data of the host program -------------------===//

#include "tpc/Conversion/Cuda/Cuda.h"

#include "tpc/Conversion/Env/DataEmitter.h"
#include "tpc/Conversion/Env/SizeEmitter.h"
#include "tpc/Kernel/Kernel.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using ::tpc::SymExpr;

static_assert(int(Shape::Elements) == TPC_GPU_ELEMENTS &&
              int(Shape::WarpPerRow) == TPC_GPU_WARP_PER_ROW &&
              int(Shape::BlockPerRow) == TPC_GPU_BLOCK_PER_ROW &&
              int(Shape::RowByLength) == TPC_GPU_ROW_BY_LENGTH &&
              int(Shape::Tiles) == TPC_GPU_TILES &&
              int(Shape::AttentionTiles) == TPC_GPU_ATTENTION);

static int32_t getShape(Shape shape) {
  return std::min<int32_t>(int32_t(shape), TPC_GPU_ATTENTION);
}

namespace {
/// Host functions that compute sizes (tpc_size_fn), one for each expression.
class SizeFunctions {
public:
  SizeFunctions(ModuleOp module, const EnvLayout &layout) : module(module), layout(layout) {}

  StringRef get(const SymExpr &size) {
    std::string &name = names[size.str()];
    if (name.empty())
      name = emit(size, "tpc_gpu_size_" + std::to_string(names.size() - 1));
    return name;
  }

private:
  std::string emit(const SymExpr &size, std::string name) {
    MLIRContext *context = module.getContext();
    Location loc = module.getLoc();
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    auto function = LLVM::LLVMFuncOp::create(b, loc, name, abi::getType<tpc_size_fn>(context),
                                             LLVM::Linkage::Internal);
    Block *entry = function.addEntryBlock(b);
    b.setInsertionPointToStart(entry);
    // All size arithmetic is inserted at the end of this function.
    auto end = LLVM::UnreachableOp::create(b, loc);
    b.setInsertionPoint(end);
    SizeEmitter sizes(b, loc, layout, entry->getArgument(0));
    Value value = sizes.expr(substituteNumbers(size, layout.grid));
    LLVM::ReturnOp::create(sizes.builder(), loc, value);
    end.erase();
    return name;
  }

  ModuleOp module;
  const EnvLayout &layout;
  std::map<std::string, std::string> names;
};
} // namespace

/// Replaces the kernels by an empty module.
static ModuleOp replaceKernels(ModuleOp program) {
  ModuleOp module = kernel::getKernels(program);
  if (!module) {
    module = ModuleOp::create(program.getLoc(), "kernels");
    SymbolTable(program).insert(module);
  }
  for (auto kernel : llvm::make_early_inc_range(module.getOps<kernel::FuncOp>()))
    kernel.erase();
  return module;
}

LogicalResult cuda::embed(ModuleOp program, const Code &code) {
  MLIRContext *context = program.getContext();
  context->loadDialect<LLVM::LLVMDialect>();
  auto layout = EnvLayout::get(program);
  if (failed(layout))
    return failure();
  ModuleOp module = replaceKernels(program);
  if (code.nodes)
    module->setAttr(kernel::kNodesAttr, code.nodes);

  SizeFunctions sizes(module, *layout);
  DataEmitter e(module);
  auto named = [](StringRef what, size_t index) { return (what + "_" + Twine(index)).str(); };
  e.text("tpc_gpu_ptx", code.ptx);
  for (auto [i, launch] : llvm::enumerate(code.launches))
    e.text(named("tpc_gpu_kernel_name", i), launch.name);
  e.array("tpc_gpu_kernels", abi::getStructType<tpc_gpu_kernel>(context), code.launches.size(),
          [&](Value kernel, size_t i) {
            const Launch &launch = code.launches[i];
            SymExpr largest = 0;
            for (const SymExpr &extent : launch.extents)
              largest = SymExpr::max(largest, extent);
            abi::Values<tpc_gpu_kernel> values{
                .name = e.address(named("tpc_gpu_kernel_name", i)),
                .elements_per_row = e.address(sizes.get(launch.elementsPerRow)),
                .largest_extent = e.address(sizes.get(largest)),
                .shape = e.i32(getShape(launch.shape)),
                .threads = e.i32(launch.threads),
                .elements_per_thread = e.i32(launch.elementsPerThread),
                .operands = e.i32(launch.operands),
                .dynamic_shared_bytes = e.i32(launch.dynamicSharedBytes),
            };
            return e.insert(kernel, values.list());
          });
  for (auto [i, cubin] : llvm::enumerate(code.cubins))
    e.bytes(named("tpc_gpu_cubin", i), StringRef(cubin.bytes.data(), cubin.bytes.size()));
  e.array("tpc_gpu_cubins", abi::getStructType<tpc_gpu_cubin>(context), code.cubins.size(),
          [&](Value cubin, size_t i) {
            abi::Values<tpc_gpu_cubin> values{
                .data = e.address(named("tpc_gpu_cubin", i)),
                .bytes = e.i64(code.cubins[i].bytes.size()),
                .architecture = e.i32(code.cubins[i].architecture),
            };
            return e.insert(cubin, values.list());
          });
  e.array("tpc_gpu_attentions", abi::getStructType<tpc_gpu_attention>(context),
          code.attentions.size(), [&](Value entry, size_t i) {
            const AttentionEntry &attention = code.attentions[i];
            const AttentionVariant &variant = attention.variant;
            abi::Values<tpc_gpu_attention> values{
                .tiles = e.i32(attention.tiles),
                .split = e.i32(attention.split),
                .element = e.i32(variant.element),
                .bias = e.i32(variant.bias),
                .slopes = e.i32(variant.slopes),
                .sinks = e.i32(variant.sinks),
                .head_size = e.i32(variant.headSize),
                .value_size = e.i32(variant.valueSize),
                .causal = e.i32(variant.causal),
                .windowed = e.i32(variant.windowed),
                .key_mask = e.i32(variant.keyMask),
                .mask = e.i32(variant.mask),
                .softcap = e.i32(variant.softcap),
                .uniform_rows = e.i32(variant.uniformRows),
                .cached = e.i32(variant.cached),
                .library = e.i32(getLibraryLimitation(variant).empty()),
            };
            return e.insert(entry, values.list());
          });
  e.aggregate(kGpuCodeSymbol, abi::getStructType<tpc_gpu_code>(context), LLVM::Linkage::Internal,
              [&](Value all) {
                abi::Values<tpc_gpu_code> values{
                    .architecture = e.i32(code.architecture),
                    .num_kernels = e.i32(code.launches.size()),
                    .num_cubins = e.i32(code.cubins.size()),
                    .num_attentions = e.i32(code.attentions.size()),
                    .tf32 = e.i32(code.tf32),
                    .ptx = e.address("tpc_gpu_ptx"),
                    .kernels = e.address("tpc_gpu_kernels"),
                    .cubins = e.address("tpc_gpu_cubins"),
                    .attentions = e.address("tpc_gpu_attentions"),
                };
                return e.insert(all, values.list());
              });
  return success();
}
