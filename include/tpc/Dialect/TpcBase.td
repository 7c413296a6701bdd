//===- TpcBase.td - Base classes of the dialect's ops -----------*- tablegen -*-===//

#ifndef TPC_DIALECT_TPCBASE
#define TPC_DIALECT_TPCBASE

include "tpc/Dialect/TpcAttrs.td"
include "tpc/Interfaces/Elements.td"
include "tpc/Interfaces/Scalar.td"
include "tpc/Interfaces/ShardingRule.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tpc_FloatTensor : RankedTensorOf<[F16, BF16, F32, F64]>;
def Tpc_IntTensor : RankedTensorOf<[I8, I16, I32, I64, UI8]>;
def Tpc_BoolTensor : RankedTensorOf<[I1]>;
def Tpc_Tensor : RankedTensorOf<[F16, BF16, F32, F64, I1, I8, I16, I32, I64, UI8]>;

class Tpc_Op<string mnemonic, list<Trait> traits = []> : Op<Tpc_Dialect, mnemonic, traits>;

/// An op with a sharding rule. Pure: its value depends only on its operands.
class Tpc_ModelOp<string mnemonic, list<Trait> traits = []>
    : Tpc_Op<mnemonic,
             !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface>], traits)>;

/// A model op whose global result type is inferred from the operands. Builders without a result
/// type create the global, unsharded type; passes that distribute values set the type.
class Tpc_InferredOp<string mnemonic, list<Trait> traits = []>
    : Tpc_ModelOp<mnemonic, !listconcat(traits, [InferTypeOpAdaptorWithIsCompatible])>;

/// An inferred op that defines getFlopsPerPoint: operations per point of its iteration space.
class Tpc_CostedOp<string mnemonic, list<Trait> traits = []>
    : Tpc_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface,
                                                                    ["getFlopsPerPoint"]>],
                                   traits, [InferTypeOpAdaptorWithIsCompatible])>;

#endif
