//===- BufferAttrs.td - Extents, loads and function arguments -------------===//

#ifndef TPC_BUFFER_BUFFERATTRS
#define TPC_BUFFER_BUFFERATTRS

include "tpc/Buffer/BufferDialect.td"
include "tpc/Buffer/BufferEnums.td"
include "tpc/Dialect/TpcAttrs.td"
include "mlir/IR/AttrTypeBase.td"

class Buffer_Attr<string cppName, string attrMnemonic> : AttrDef<Buffer_Dialect, cppName> {
  let mnemonic = attrMnemonic;
}

def Buffer_ExtentAttr : Buffer_Attr<"Extent", "extent"> {
  let summary = "Extent of a buffer: `\"3*n\" x f32`";
  let parameters = (ins "::mlir::tpc::SymExprAttr":$elements, "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::tpc::SymExpr getBytes() const;
  }];
}

def Buffer_LoadAttr : Buffer_Attr<"Load", "load"> {
  let summary = "Load of a weight through a view, for one use";
  let description = [{
    `packed @w view #tpc.view<…> : tensor<8x3xf32, …>`. The type is the local type of the
    `tpc.parameter` that the load replaces.
  }];
  let parameters = (ins "ParameterUse":$use, "::mlir::StringAttr":$weight,
                        OptionalParameter<"::mlir::tpc::ViewAttr">:$view, "::mlir::Type":$type);
  let hasCustomAssemblyFormat = 1;
}

def Buffer_ArgumentAttr : Buffer_Attr<"Argument", "argument"> {
  let summary = "Contents of an argument of a buffer function";
  let description = [{
    One of

      * `value 0 : "8*n" x f32`: a buffer that contains argument 0 of the tensor function;
      * `value 1 becomes 2 : "8*n" x f32`: a buffer that contains argument 1 of the tensor function
        at entry and result 2 at return;
      * `packed 1`, `dense 1`: the parameter-table index of argument 1 of the tensor function, with
        this use;
      * `packed @w : tensor<…>`: the parameter-table index of a weight that the tensor function
        reads without an argument. A function that several stages share receives the index for the
        caller's stage.
  }];
  let parameters = (ins OptionalParameter<"::mlir::IntegerAttr">:$argument,
                        OptionalParameter<"ExtentAttr">:$extent,
                        "ParameterUse":$use, OptionalParameter<"LoadAttr">:$load,
                        OptionalParameter<"::mlir::IntegerAttr">:$result);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static ArgumentAttr getBuffer(MLIRContext *context, int64_t argument, ExtentAttr extent,
                                 std::optional<int64_t> result = std::nullopt);
    static ArgumentAttr getParameter(MLIRContext *context, int64_t argument, ParameterUse use);
    static ArgumentAttr getImplicitParameter(LoadAttr load);
    bool isBuffer() const { return bool(getExtent()); }
  }];
}

class Buffer_Type<string cppName, string typeMnemonic> : TypeDef<Buffer_Dialect, cppName> {
  let mnemonic = typeMnemonic;
}

def Buffer_BufferType : Buffer_Type<"Buffer", "buffer"> {
  let summary = "Address of a buffer; the defining op has the extent";
}
def Buffer_ParameterType : Buffer_Type<"Parameter", "parameter"> {
  let summary = "Index of an entry of the parameter table";
}
def Buffer_FrameType : Buffer_Type<"Frame", "frame"> {
  let summary = "Uninitialized memory on the runtime's stack, 64-byte aligned";
}

#endif
