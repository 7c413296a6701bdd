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

def Tpc_AppendOp : Tpc_InferredOp<"append"> {
  let summary = "A cache with a step's new tokens behind those of each sequence";
  let description = [{
    cache [b, h, capacity, d], fresh [b, h, s, d], lengths [b] -> [b, h, capacity, d]:

        result[b, h, j, d] = fresh[b, h, j - lengths[b], d]    if lengths[b] <= j < lengths[b] + s
                             cache[b, h, j, d]                 else

    Lengths are 0 or more. Tokens for which there is no room are dropped: who runs a step sees to it that those that count have room. Of a
    step in which a sequence has fewer tokens than others, what is behind them is written as well, and written over in the next one. In
    lowering the result is the cache, written in place. Made by `tpc-place-caches`.

    Rule: b, h, d parallel; capacity and s whole. Errors: sizes that differ, lengths that are neither i64 nor i32.
  }];
  let arguments = (ins Tpc_FloatTensor:$cache, Tpc_FloatTensor:$fresh, Tpc_IntTensor:$lengths);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $cache `,` $fresh `at` $lengths attr-dict `:` type($cache) `,` type($fresh) `,` type($lengths) `->` type($result)
  }];
}

#endif
