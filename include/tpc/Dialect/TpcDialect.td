//===- TpcDialect.td - The tpc dialect --------------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_TPCDIALECT
#define TPC_DIALECT_TPCDIALECT

include "mlir/IR/OpBase.td"

def Tpc_Dialect : Dialect {
  let name = "tpc";
  let cppNamespace = "::mlir::tpc";
  let summary = "Transformer programs, and how they are distributed over a grid";
  let description = [{
    One dialect for a program on its whole way: model ops on global tensors, the
    same ops with a distribution on every value, one rank's program with
    collectives over named grid axes, and pipeline stages with their schedule.

    Sizes are symbolic and live in the types, see `#tpc.dist`; there are no
    shape operands. Every op states its sharding rule once, see
    `ShardingRuleOpInterface`, and one verifier checks each op's types with it.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();

    // Discardable attributes; the table in DiscardableAttrs.cpp has all of them.

    /// Module attribute: the `#tpc.grid` that axes refer to.
    static constexpr llvm::StringLiteral kGridAttr = "tpc.grid";
    /// Argument and result attributes of `@main`: the ONNX name, and the value
    /// that an input takes when it is left out, see InputDefault.h.
    static constexpr llvm::StringLiteral kNameAttr = "tpc.name";
    static constexpr llvm::StringLiteral kDefaultAttr = "tpc.default";
    /// Module attribute: an array of dictionaries {expr, min, max, why}: sizes
    /// that a run must satisfy.
    static constexpr llvm::StringLiteral kConstraintsAttr = "tpc.constraints";
    /// Module attribute: absolute path of the file that was imported.
    static constexpr llvm::StringLiteral kSourceAttr = "tpc.source";
    /// Unit attribute of a function that stands for a repeated part of the
    /// model, called once per repetition with that repetition's weights.
    static constexpr llvm::StringLiteral kLayerAttr = "tpc.layer";
    /// Unit attribute of a cast that lowering has put behind a product: it rounds
    /// each part of a sum, as the product itself did.
    static constexpr llvm::StringLiteral kRoundsPartsAttr = "tpc.rounds_parts";
  }];
}

#endif
