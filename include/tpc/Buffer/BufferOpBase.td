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

def Buffer_Place : Buffer_BuildableType<Buffer_PlaceType, "Place", "place">;
def Buffer_Parameter : Buffer_BuildableType<Buffer_ParameterType, "Parameter", "parameter">;
def Buffer_Frame : Buffer_BuildableType<Buffer_FrameType, "Frame", "frame">;

def Buffer_Axes : TypedArrayAttrBase<StrAttr, "grid axes">;

def Buffer_Read : Arg<Buffer_Place, "", [MemRead]>;
def Buffer_Reads : Arg<Variadic<Buffer_Place>, "", [MemRead]>;
def Buffer_MaybeRead : Arg<Optional<Buffer_Place>, "", [MemRead]>;
def Buffer_Write : Arg<Buffer_Place, "", [MemWrite]>;
def Buffer_Writes : Arg<Variadic<Buffer_Place>, "", [MemWrite]>;

class Buffer_Op<string mnemonic, list<Trait> traits = []> : Op<Buffer_Dialect, mnemonic, traits>;

#endif
