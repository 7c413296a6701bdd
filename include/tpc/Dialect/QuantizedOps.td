//===- QuantizedOps.td - Ops on quantized weights ----------*- tablegen -*-===//

#ifndef TPC_DIALECT_QUANTIZEDOPS
#define TPC_DIALECT_QUANTIZEDOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_ByteTensor : RankedTensorOf<[I8, UI8]>;

def Tpc_DequantizeOp : Tpc_InferredOp<"dequantize"> {
  let summary = "Unpacks quantized weights from bytes, and scales them";
  let description = [{
    packed [d.., n] of ui8 or i8 -> [d.., n, 8 / bits]: element [.., i, j] is (q - zero) * scale,
    where q has the `bits` bits (2, 4 or 8) of packed[.., i] from bit j * bits on. q is unsigned in
    ui8, and in two's complement in i8. `scale` and `zero` broadcast to the result; without `zero`
    it is the attribute `zero_point`. `zero` is not packed, and has the element type of the packed
    bytes or of the scale. Computed in f32 at least, and rounded once to the type of the scale.

    `tpc.dequantize %w, %s bits 4 zero 8 : tensor<6x2x8xui8>, tensor<6x2x1x1xf32> ->
    tensor<6x2x8x2xf32>` has 6 columns with 2 blocks of 16 numbers; a reshape and a transpose make a
    matrix [32, 6] of them. The shards of a rank thus consist of whole bytes, and of the scales of
    their blocks.

    Rule: all dimensions of `packed` are parallel; the last one of the result cannot be split.
    com.microsoft MatMulNBits, GatherBlockQuantized; ONNX DequantizeLinear.
  }];
  let arguments = (ins Tpc_ByteTensor:$packed, Tpc_FloatTensor:$scale, Optional<Tpc_Tensor>:$zero,
                       I64Attr:$bits, DefaultValuedAttr<I64Attr, "0">:$zero_point);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $packed `,` $scale (`,` $zero^)? `bits` $bits (`zero` $zero_point^)? attr-dict `:`
    type($packed) `,` type($scale) (`,` type($zero)^)? `->` type($result)
  }];
}

#endif
