//===- RuntimeAbi.h - LLVM types of the runtime's C interface ---*- C++ -*-===//
//
// runtime/include/tpc/runtime.h is the single definition of the interface between generated code
// and the runtime. This header derives LLVM types from the C declarations at compile time: function
// types from prototypes, struct layouts from field lists, constants from enumerations. A call with
// a wrong number or kind of arguments, or a struct with a missing field, is a compile error of tpc
// itself.
//
//   e.call(TPC_ABI(tpc_copy), to, from, bytes);
//   e.store(abi::Values<tpc_attention_args>{.q = q, .k = k, ...})
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_ENV_RUNTIMEABI_H
#define TPC_CONVERSION_ENV_RUNTIMEABI_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tpc/gpu.h"
#include "tpc/runtime.h"

#include <array>
#include <cstddef>
#include <type_traits>

namespace mlir::tpc {
/// Symbol of the tpc_gpu_code struct that replaces the kernels of a GPU program.
inline constexpr llvm::StringLiteral kGpuCodeSymbol = "tpc_gpu_code";
} // namespace mlir::tpc

namespace mlir::tpc::abi {

/// Kind of a value in the runtime interface; determines its LLVM type.
enum class Kind : uint8_t { Void, I32, I64, F32, Pointer };

/// The kind of a C type.
template <typename T> constexpr Kind kindOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_void_v<U>) {
    return Kind::Void;
  } else if constexpr (std::is_pointer_v<U>) {
    return Kind::Pointer;
  } else if constexpr (std::is_same_v<U, float>) {
    return Kind::F32;
  } else {
    static_assert(
        (std::is_integral_v<U> || std::is_enum_v<U>) && (sizeof(U) == 4 || sizeof(U) == 8),
        "the interface supports only integers and enums of 4 or 8 bytes, float and pointers");
    return sizeof(U) == 4 ? Kind::I32 : Kind::I64;
  }
}

constexpr size_t bytesOf(Kind kind) {
  return kind == Kind::Void ? 0 : kind == Kind::I32 || kind == Kind::F32 ? 4 : 8;
}

Type getType(MLIRContext *context, Kind kind);

/// A Value whose LLVM type has the given kind.
template <Kind kind> class Typed : public Value {
public:
  explicit Typed(Value value) : Value(value) {
    assert(value && value.getType() == getType(value.getContext(), kind) &&
           "the LLVM type is not of this kind");
  }
};
using I32 = Typed<Kind::I32>;
using I64 = Typed<Kind::I64>;
using F32 = Typed<Kind::F32>;
using Pointer = Typed<Kind::Pointer>;
/// The value that represents a C type.
template <typename T> using ValueOf = Typed<kindOf<T>()>;

//===--- functions --------------------------------------------------------===//

/// A runtime function, for calls whose arguments are checked when the compiler runs.
struct Function {
  StringRef name;
  Kind result;
  ArrayRef<Kind> parameters;

  LLVM::LLVMFunctionType getType(MLIRContext *context) const;
};

namespace detail {
template <typename Signature> struct Prototype;
template <typename R, typename... Ps> struct Prototype<R(Ps...)> {
  static constexpr Kind result = kindOf<R>();
  static constexpr std::array<Kind, sizeof...(Ps)> parameters{kindOf<Ps>()...};
};
} // namespace detail

/// A runtime function with its prototype, for calls whose arguments are checked statically.
template <typename Signature> struct Prototyped : Function {
  constexpr explicit Prototyped(const char *name)
      : Function{name, detail::Prototype<Signature>::result,
                 detail::Prototype<Signature>::parameters} {}
};

/// The runtime function with this C name.
#define TPC_ABI(function) ::mlir::tpc::abi::Prototyped<decltype(::function)>(#function)

/// Returns the LLVM function type of a C function pointer type, such as tpc_stage_fn.
template <typename PointerToFunction> LLVM::LLVMFunctionType getType(MLIRContext *context) {
  return Prototyped<std::remove_pointer_t<PointerToFunction>>("").getType(context);
}

//===--- structs ----------------------------------------------------------===//

struct Field {
  Kind kind;
  size_t offset;
};

/// Values of a struct's fields: one member for each field, with the same name and without a
/// default.
template <typename Struct> struct Values;
/// Layout of a struct: `fields`, and their indices by name.
template <typename Struct> struct Layout;

LLVM::LLVMStructType getStructType(MLIRContext *context, ArrayRef<Field> fields);

template <typename Struct> LLVM::LLVMStructType getStructType(MLIRContext *context) {
  return getStructType(context, Layout<Struct>::fields);
}

/// Whether the layout of a C struct equals LLVM's layout, which aligns each field to its size.
template <size_t n> constexpr bool matchesCLayout(const std::array<Field, n> &fields, size_t size) {
  size_t at = 0, alignment = 1;
  auto align = [&](size_t to) { at = (at + to - 1) / to * to; };
  for (const Field &field : fields) {
    size_t bytes = bytesOf(field.kind);
    alignment = bytes > alignment ? bytes : alignment;
    align(bytes);
    if (at != field.offset)
      return false;
    at += bytes;
  }
  align(alignment);
  return at == size;
}

#define TPC_ABI_MEMBER(type, name) ::mlir::tpc::abi::ValueOf<type> name;
#define TPC_ABI_VALUE(type, name) name,
#define TPC_ABI_FIELD(type, name)                                                                  \
  ::mlir::tpc::abi::Field{::mlir::tpc::abi::kindOf<type>(), offsetof(Struct, name)},
#define TPC_ABI_STRUCT(T, FIELDS)                                                                  \
  template <> struct Values<T> {                                                                   \
    FIELDS(TPC_ABI_MEMBER)                                                                         \
    SmallVector<Value> list() const { return {FIELDS(TPC_ABI_VALUE)}; }                            \
  };                                                                                               \
  template <> struct Layout<T> {                                                                   \
    using Struct = T;                                                                              \
    enum FieldIndex : int32_t { FIELDS(TPC_ABI_VALUE) };                                           \
    static constexpr auto fields = std::to_array<Field>({FIELDS(TPC_ABI_FIELD)});                  \
    static_assert(matchesCLayout(fields, sizeof(T)));                                              \
  };

TPC_ABI_STRUCT(tpc_status, TPC_STATUS_FIELDS)
TPC_ABI_STRUCT(tpc_kernel, TPC_KERNEL_FIELDS)
TPC_ABI_STRUCT(tpc_data, TPC_DATA_FIELDS)
TPC_ABI_STRUCT(tpc_program, TPC_PROGRAM_FIELDS)
TPC_ABI_STRUCT(tpc_product, TPC_PRODUCT_FIELDS)
TPC_ABI_STRUCT(tpc_fusion, TPC_FUSION_FIELDS)
TPC_ABI_STRUCT(tpc_attention_args, TPC_ATTENTION_FIELDS)
TPC_ABI_STRUCT(tpc_experts_args, TPC_EXPERTS_FIELDS)
TPC_ABI_STRUCT(tpc_append_args, TPC_APPEND_FIELDS)
TPC_ABI_STRUCT(tpc_quantized_args, TPC_QUANTIZED_FIELDS)
TPC_ABI_STRUCT(tpc_gpu_kernel, TPC_GPU_KERNEL_FIELDS)
TPC_ABI_STRUCT(tpc_gpu_cubin, TPC_GPU_CUBIN_FIELDS)
TPC_ABI_STRUCT(tpc_gpu_attention, TPC_GPU_ATTENTION_FIELDS)
TPC_ABI_STRUCT(tpc_gpu_code, TPC_GPU_CODE_FIELDS)

#undef TPC_ABI_STRUCT
#undef TPC_ABI_FIELD
#undef TPC_ABI_VALUE
#undef TPC_ABI_MEMBER

} // namespace mlir::tpc::abi

#endif // TPC_CONVERSION_ENV_RUNTIMEABI_H
