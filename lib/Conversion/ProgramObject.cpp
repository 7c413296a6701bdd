//===- ProgramObject.cpp - Tables of a compiled program -------------------===//

#include "ProgramObject.h"

#include "tpc/Conversion/Env/DataEmitter.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;

int32_t ProgramObject::getNode(Operation *op) {
  return indexOf(nodes, StringAttr::get(op->getContext(), getSourceName(op->getLoc())));
}

void ProgramObject::emit(ModuleOp module, ArrayRef<std::string> stages, StringRef manifest,
                         StringRef gpuCode) const {
  MLIRContext *context = module.getContext();
  DataEmitter e(module);
  Type pointer = LLVM::LLVMPointerType::get(context);
  auto named = [](StringRef what, size_t index) { return (what + "_" + Twine(index)).str(); };

  e.text("tpc_manifest", manifest);
  e.array("tpc_stages", pointer, stages.size(),
          [&](Value, size_t i) -> Value { return e.address(stages[i]); });

  auto name = [](Attribute entry) { return cast<StringAttr>(entry).getValue(); };
  for (auto &[kernel, i] : kernels)
    e.text(named("tpc_kernel_name", i), name(kernel));
  e.array("tpc_kernels", abi::getStructType<tpc_kernel>(context), kernels.size(),
          [&](Value kernel, size_t i) {
            abi::Values<tpc_kernel> values{
                .name = e.address(named("tpc_kernel_name", i)),
                .function = gpuCode.empty() ? e.address(name(kernels.begin()[i].first)) : e.null(),
            };
            return e.insert(kernel, values.list());
          });

  for (auto &[constant, i] : constants)
    e.elements(named("tpc_constant", i), cast<DenseElementsAttr>(constant));
  e.array("tpc_constants", abi::getStructType<tpc_data>(context), constants.size(),
          [&](Value data, size_t i) {
            auto elements = cast<DenseElementsAttr>(constants.begin()[i].first);
            abi::Values<tpc_data> values{
                .data = e.address(named("tpc_constant", i)),
                .bytes = e.i64(elements.getNumElements() * getElementBytes(elements.getType())),
            };
            return e.insert(data, values.list());
          });

  for (auto &[node, i] : nodes)
    e.text(named("tpc_node", i), name(node));
  e.array("tpc_nodes", pointer, nodes.size(),
          [&](Value, size_t i) -> Value { return e.address(named("tpc_node", i)); });

  e.aggregate("tpc_program_v7", abi::getStructType<tpc_program>(context), LLVM::Linkage::External,
              [&](Value program) {
                abi::Values<tpc_program> values{
                    .abi_version = e.i32(TPC_ABI_VERSION),
                    .num_stages = e.i32(stages.size()),
                    .num_kernels = e.i32(kernels.size()),
                    .num_constants = e.i32(constants.size()),
                    .num_nodes = e.i32(nodes.size()),
                    .manifest = e.address("tpc_manifest"),
                    .stages = e.address("tpc_stages"),
                    .kernels = e.address("tpc_kernels"),
                    .constants = e.address("tpc_constants"),
                    .nodes = e.address("tpc_nodes"),
                    .gpu_code = gpuCode.empty() ? e.null() : e.address(gpuCode),
                };
                return e.insert(program, values.list());
              });
}
