//===- BufferAttrs.td - Expressions, places and arguments -------*- tablegen -*-===//

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
  let summary = "What a place has room for: `\"3*n\" x f32`";
  let parameters = (ins "::mlir::tpc::SymExprAttr":$elements, "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::tpc::SymExpr getBytes() const;
  }];
}

def Buffer_LoadAttr : Buffer_Attr<"Load", "load"> {
  let summary = "What a rank loads: a weight through a view, for one use";
  let description = [{
    `packed @w view #tpc.view<…> : tensor<8x3xf32, …>`: the local type of the `tpc.parameter` that it stands for.
  }];
  let parameters = (ins "ParameterUse":$use, "::mlir::StringAttr":$weight, OptionalParameter<"::mlir::tpc::ViewAttr">:$view,
                        "::mlir::Type":$type);
  let hasCustomAssemblyFormat = 1;
}

def Buffer_ArgumentAttr : Buffer_Attr<"Argument", "argument"> {
  let summary = "What an argument of a buffer function stands for";
  let description = [{
    One of
      * `value 0 : "8*n" x f32`: a place that holds argument 0 of the tensor function;
      * `value 1 becomes 2 : "8*n" x f32`: a place that holds argument 1 of the tensor function, and at its end its result 2;
      * `packed 1`, `dense 1`: the parameter that argument 1 is in every call, for this use;
      * `packed @w : tensor<…>`: an entry of the table of parameters that the caller's stage has and the tensor function takes from
        the weight itself: functions that several stages share are told its index.
  }];
  let parameters = (ins OptionalParameter<"::mlir::IntegerAttr">:$argument, OptionalParameter<"ExtentAttr">:$extent,
                        "ParameterUse":$use, OptionalParameter<"LoadAttr">:$load,
                        OptionalParameter<"::mlir::IntegerAttr">:$result);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static ArgumentAttr getPlace(MLIRContext *context, int64_t argument, ExtentAttr extent, std::optional<int64_t> result = std::nullopt);
    static ArgumentAttr getParameter(MLIRContext *context, int64_t argument, ParameterUse use);
    static ArgumentAttr getHidden(LoadAttr load);
    bool isPlace() const { return bool(getExtent()); }
  }];
}

class Buffer_Type<string cppName, string typeMnemonic> : TypeDef<Buffer_Dialect, cppName> {
  let mnemonic = typeMnemonic;
}

def Buffer_PlaceType : Buffer_Type<"Place", "place"> {
  let summary = "An address of elements; the op that names it says of how many, and of which type";
}
def Buffer_ParameterType : Buffer_Type<"Parameter", "parameter"> {
  let summary = "An index into the table of parameters";
}
def Buffer_FrameType : Buffer_Type<"Frame", "frame"> {
  let summary = "Memory on the runtime's stack, 64-byte aligned, with nothing in it";
}

#endif
