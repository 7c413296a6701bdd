//===- ProgramObject.cpp - What a compiled program is made of -------------===//

#include "ProgramObject.h"

#include "tpc/Conversion/Env/RuntimeAbi.h"
#include "tpc/Conversion/Env/SizeEmitter.h"
#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;

int32_t ProgramObject::getNode(Operation *op) {
  return place(nodes, StringAttr::get(op->getContext(), getSourceName(op->getLoc())));
}

namespace {
/// Defines constants of the module.
class DataEmitter {
public:
  explicit DataEmitter(ModuleOp module)
      : b(OpBuilder::atBlockEnd(module.getBody())), loc(module.getLoc()) {}

  abi::I32 i32(int64_t n) {
    return abi::I32(LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(n)));
  }
  abi::I64 i64(int64_t n) {
    return abi::I64(LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(n)));
  }
  abi::Pointer address(StringRef symbol) {
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    return abi::Pointer(LLVM::AddressOfOp::create(b, loc, pointer, symbol));
  }

  /// A text, with a NUL behind it.
  void text(StringRef name, StringRef value) {
    std::string bytes = (value + Twine('\0')).str();
    LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()),
                           /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           b.getStringAttr(bytes));
  }

  /// A tensor's elements, 64-byte aligned. LLVM wants signless ones, and a boolean takes a byte.
  void elements(StringRef name, DenseElementsAttr value) {
    Type element = value.getElementType();
    if (isUnsigned(element)) {
      SmallVector<int8_t> bytes;
      for (APInt v : value.getValues<APInt>())
        bytes.push_back(element.isInteger(1) ? (v.isZero() ? 0 : 1) : v.getZExtValue());
      element = b.getI8Type();
      value = DenseElementsAttr::get(RankedTensorType::get(value.getType().getShape(), element),
                                     ArrayRef<int8_t>(bytes));
    }
    value = value.reshape(RankedTensorType::get({value.getNumElements()}, element));
    LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(element, value.getNumElements()),
                           /*isConstant=*/true, LLVM::Linkage::Internal, name, value,
                           /*alignment=*/64);
  }

  /// Values that are addresses and numbers, built in the initializer.
  void aggregate(StringRef name, Type type, LLVM::Linkage linkage,
                 function_ref<Value(Value undefined)> build) {
    auto global =
        LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, linkage, name, Attribute());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&global.getInitializer());
    LLVM::ReturnOp::create(b, loc, build(LLVM::UndefOp::create(b, loc, type)));
  }
  Value insert(Value into, ArrayRef<Value> values) {
    for (auto [i, value] : llvm::enumerate(values))
      into = LLVM::InsertValueOp::create(b, loc, into, value, static_cast<int64_t>(i));
    return into;
  }
  /// An array of as many entries.
  void array(StringRef name, Type element, size_t count,
             function_ref<Value(Value undefined, size_t place)> entry) {
    auto type = LLVM::LLVMArrayType::get(element, count);
    aggregate(name, type, LLVM::Linkage::Internal, [&](Value all) {
      SmallVector<Value> entries;
      for (size_t i = 0; i < count; ++i)
        entries.push_back(entry(LLVM::UndefOp::create(b, loc, element), i));
      return insert(all, entries);
    });
  }

private:
  OpBuilder b;
  Location loc;
};
} // namespace

void ProgramObject::emit(ModuleOp module, ArrayRef<std::string> stages, StringRef manifest) const {
  MLIRContext *context = module.getContext();
  DataEmitter e(module);
  Type pointer = LLVM::LLVMPointerType::get(context);
  auto named = [](StringRef what, size_t place) { return (what + "_" + Twine(place)).str(); };

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
                .function = e.address(name(kernels.begin()[i].first)),
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

  e.aggregate("tpc_program_v3", abi::getStructType<tpc_program>(context), LLVM::Linkage::External,
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
                };
                return e.insert(program, values.list());
              });
}
