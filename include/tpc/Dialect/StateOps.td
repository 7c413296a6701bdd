//===- StateOps.td - State that persists between generation steps ---------===//

#ifndef TPC_DIALECT_STATEOPS
#define TPC_DIALECT_STATEOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_CacheOp : Tpc_Op<"cache", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "KV cache: keys or values of past tokens, which persist between generation steps";
  let description = [{
    `tpc.cache @k0 : tensor<?x2x?x4xf32, #tpc.dist<[batch, 2, capacity, 4]>>`. Dimensions are
    [batch, kv head, token, head size]. The third size is a symbol: the capacity in tokens, which is
    set at launch.

    A step is a pure function: it receives the cache contents as an argument and returns the updated
    contents as a result. Both have the attribute `tpc.cache = @k0`. Their types equal the cache's
    except for the third size. In the step that `tpc-recognize-caches` and `tpc-derive-caches`
    create, the argument has `past` tokens; the result has the same tokens followed by those of the
    step.

    Errors: a type without this form; a cache without exactly one argument and one result of @main;
    argument, result and cache with different types; a result with fewer tokens than the argument.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Tpc_FloatTensor>:$type);
  let hasVerifier = 1;
  let assemblyFormat = "$sym_name attr-dict `:` $type";
  let extraClassDeclaration = "static constexpr unsigned tokenDim = 2;";
}

def Tpc_AppendOp : Tpc_InferredOp<"append"> {
  let summary = "Writes a step's new tokens after the cached tokens of each sequence";
  let description = [{
    cache [b, h, capacity, d], fresh [b, h, s, d], lengths [b] -> [b, h, capacity, d]:

        result[b, h, j, d] = fresh[b, h, j - lengths[b], d]    if lengths[b] <= j < lengths[b] + s
                             cache[b, h, j, d]                 else

    Lengths are at least 0. Tokens beyond the capacity are dropped; the caller ensures that valid
    tokens fit. If a sequence has fewer new tokens than others, its padding is written too, and the
    next step overwrites it. Lowering updates the cache in place: the result aliases it.
    `tpc-preallocate-caches` creates the op.

    Rule: b, h and d are parallel; capacity and s cannot be split. Errors: sizes that differ;
    lengths that are neither i64 nor i32.
  }];
  let arguments = (ins Tpc_FloatTensor:$cache, Tpc_FloatTensor:$fresh, Tpc_IntTensor:$lengths);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $cache `,` $fresh `at` $lengths attr-dict `:` type($cache) `,` type($fresh) `,` type($lengths)
    `->` type($result)
  }];
}

#endif
