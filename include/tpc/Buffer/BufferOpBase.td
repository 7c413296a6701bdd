//===- BufferOpBase.td - Operands and base class of ops on buffers *- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFEROPBASE
#define TPC_BUFFER_BUFFEROPBASE

include "tpc/Buffer/BufferAttrs.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Buffer_BuildableType<TypeDef type, string cppName, string summary>
    : Type<type.predicate, summary, "::mlir::tpc::buffer::" # cppName # "Type">,
      BuildableType<"::mlir::tpc::buffer::" # cppName # "Type::get($_builder.getContext())">;

def Buffer_Buffer : Buffer_BuildableType<Buffer_BufferType, "Buffer", "buffer">;
def Buffer_Parameter : Buffer_BuildableType<Buffer_ParameterType, "Parameter", "parameter">;
def Buffer_Frame : Buffer_BuildableType<Buffer_FrameType, "Frame", "frame">;

def Buffer_Axes : TypedArrayAttrBase<StrAttr, "grid axes">;

def Buffer_Read : Arg<Buffer_Buffer, "", [MemRead]>;
def Buffer_Reads : Arg<Variadic<Buffer_Buffer>, "", [MemRead]>;
def Buffer_MaybeRead : Arg<Optional<Buffer_Buffer>, "", [MemRead]>;
def Buffer_Write : Arg<Buffer_Buffer, "", [MemWrite]>;
def Buffer_Writes : Arg<Variadic<Buffer_Buffer>, "", [MemWrite]>;

class Buffer_Op<string mnemonic, list<Trait> traits = []> : Op<Buffer_Dialect, mnemonic, traits>;

#endif
