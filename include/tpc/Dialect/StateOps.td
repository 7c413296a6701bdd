//===- StateOps.td - What stays between steps -------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_STATEOPS
#define TPC_DIALECT_STATEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_CacheOp : Tpc_Op<"cache", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Keys or values of past tokens, which stay between the steps of a generation";
  let description = [{
    `tpc.cache @k0 : tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, capacity, 4]>>`: [sequence of a batch, kv head, token, size]. The third
    size is a symbol, how many tokens there is room for; whoever starts the program chooses it.

    A step stays a pure function. It takes what is in the cache as an argument and gives what is to be in it next as a result; both
    carry `tpc.cache = @k0`. Their types are the cache's but for the third size: in the step of
    `tpc-recognize-caches` and `tpc-derive-caches`, `past` tokens go in, and come out with those of this step behind them.

    Errors: a type that is not of that form; not one argument and one result of @main for it, or of other types; a result that holds
    fewer tokens than the argument.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Tpc_FloatTensor>:$type);
  let hasVerifier = 1;
  let assemblyFormat = "$sym_name attr-dict `:` $type";
  let extraClassDeclaration = "static constexpr unsigned tokenDim = 2;";
}

#endif
