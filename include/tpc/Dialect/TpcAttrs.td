//===- TpcAttrs.td - Grid and distribution ----------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_TPCATTRS
#define TPC_DIALECT_TPCATTRS

include "tpc/Dialect/TpcDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class Tpc_Attr<string cppName, string attrMnemonic, list<Trait> traits = []> : AttrDef<Tpc_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

def Tpc_ReductionKind : I32EnumAttr<"ReductionKind", "how partial values combine", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_GridAttr : Tpc_Attr<"Grid", "grid"> {
  let summary = "The process grid: named axes, their sizes and their order";
  let description = [{
    `#tpc.grid<tp = 2, cp = 1, ep = 1, dp = 1, pp = 2, mb = 4>`

    The leftmost axis has the smallest stride, as in Megatron-Core's
    `RankGenerator`. `mb` is the axis in time: micro-batches. With `gpus_per_node = 8` at the end, ranks 0 to 7 are in one node,
    8 to 15 in the next; without it all are in one.
  }];
  let parameters = (ins ArrayRefParameter<"StringAttr">:$order, ArrayRefParameter<"int64_t">:$sizes,
                        "int64_t":$microBatches, "int64_t":$gpusPerNode);
  let builders = [
    AttrBuilder<(ins "ArrayRef<StringAttr>":$order, "ArrayRef<int64_t>":$sizes, "int64_t":$microBatches), [{
      return $_get($_ctxt, order, sizes, microBatches, 0);
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Size of an axis; `mb` is the number of micro-batches, an unknown axis
    /// has size 1.
    int64_t getAxisSize(StringRef axis) const;
    bool hasAxis(StringRef axis) const;
    /// Number of ranks.
    int64_t getWorldSize() const;
    /// The grid of the module that `op` is in, or null.
    static GridAttr lookup(Operation *op);
  }];
}

def Tpc_SymExprAttr : Tpc_Attr<"SymExpr", "expr"> {
  let summary = "A symbolic size";
  let description = [{
    `#tpc.expr<"past + sequence">`: an integer, or an expression over symbols, see `SymExpr.h`. It is parsed where
    text is read, which is an error for any other text; from there on it is a `SymExpr`. Equal sizes are one attribute, however
    they were written. Numbers and single symbols stand without quotes. Where an op says what stands there, the text alone is
    written: `from past`, `sizes [batch, 64, "past + sequence"]`.
  }];
  let parameters = (ins AttrParameter<"::tpc::SymExpr", "the size", "const ::tpc::SymExpr &">:$expr);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Lists of sizes.
    static ::mlir::ArrayAttr getArray(::mlir::MLIRContext *context, ::llvm::ArrayRef<::tpc::SymExpr> exprs);
    static ::llvm::SmallVector<::tpc::SymExpr> getExprs(::mlir::ArrayAttr array);
  }];
  // Its key is the canonical text.
  let genStorageClass = 0;
  let storageClass = "SymExprAttrStorage";
}

/// A size: passes see a `SymExpr`. `custom<SymExpr>` writes its text alone.
def Tpc_SymExpr : Attr<CPred<"::llvm::isa<::mlir::tpc::SymExprAttr>($_self)">, "a symbolic size"> {
  let storageType = "::mlir::tpc::SymExprAttr";
  let returnType = "::tpc::SymExpr";
  let convertFromStorage = "$_self.getExpr()";
  let constBuilderCall = "::mlir::tpc::SymExprAttr::get($_builder.getContext(), $0)";
}
def Tpc_SymExprs : TypedArrayAttrBase<Tpc_SymExpr, "symbolic sizes">;

def Tpc_InputDefaultKind : I32EnumAttr<"InputDefaultKind", "what an input is when it is left out", [
    I32EnumAttrCase<"Ones", 0, "ones">, I32EnumAttrCase<"Positions", 1, "positions">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_InputDefaultAttr : Tpc_Attr<"InputDefault", "default"> {
  let summary = "What an input is when it is left out";
  let description = [{
    The value of `tpc.default` on an argument of @main:

        #tpc.default<ones>                          every token is seen
        #tpc.default<positions>                     0, 1, 2, … along the last dimension
        #tpc.default<positions after past>          the same, behind a past of that many tokens
        #tpc.default<positions of "attention_mask"> by that mask, [batch, past + sequence]: the number of seen tokens before each
                                                    of the last `sequence`, and 1 for those that are not seen themselves (as
                                                    Hugging Face counts)

    An input that would have a default if the program showed what it must be has `tpc.required` instead, with the reason.
  }];
  let parameters = (ins "::mlir::tpc::InputDefaultKind":$kind, OptionalParameter<"SymExprAttr">:$past,
                        OptionalParameter<"StringAttr">:$mask);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "InputDefaultKind":$kind)>,
    // Positions: behind a past, or by a mask.
    AttrBuilder<(ins "const ::tpc::SymExpr &":$past)>, AttrBuilder<(ins "StringAttr":$mask)>];
  let extraClassDeclaration = [{
    /// The default of an argument with these attributes, or null.
    static InputDefaultAttr lookup(DictionaryAttr attributes);
  }];
}

def Tpc_StepAttr : Tpc_Attr<"Step", "step"> {
  let summary = "A step of a generation: its symbols and its own inputs";
  let description = [{
    The value of `tpc.step`, in one of two forms:

        #tpc.step<past = p, tokens = s>
        #tpc.step<tokens = s, capacity = c, lengths = "lengths", counts = "counts", last,
                  window = 6, room = r, window_lengths = "window_lengths">

    | field | |
    |---|---|
    | `tokens` | symbol: the tokens that a step adds to each sequence |
    | `past` | symbol: the tokens that caches hold before the step |
    | `capacity` | symbol: the tokens that caches have room for, where a step takes whole caches (tpc-place-caches) |
    | `lengths`, `counts` | inputs [batch]: the tokens that caches hold of each sequence, and how many of the step's tokens are real |
    | `last` | the first output is of each sequence's last token alone |
    | `window` | the largest window of attention that reads sliding-window caches |
    | `room` | symbol: the tokens that sliding-window caches have room for |
    | `window_lengths` | input [batch]: the tokens that sliding-window caches hold of each sequence |

    Errors: a size that is not a symbol; symbols or names that are used twice; a form that is neither of the two.
  }];
  let parameters = (ins "SymExprAttr":$tokens, OptionalParameter<"SymExprAttr">:$past, OptionalParameter<"SymExprAttr">:$capacity,
                        OptionalParameter<"StringAttr">:$lengths, OptionalParameter<"StringAttr">:$counts, "bool":$last,
                        "int64_t":$window, OptionalParameter<"SymExprAttr">:$room, OptionalParameter<"StringAttr">:$windowLengths);
  let builders = [
    AttrBuilder<(ins "SymExprAttr":$tokens, "SymExprAttr":$past), [{
      return $_get($_ctxt, tokens, past, SymExprAttr(), StringAttr(), StringAttr(), false, int64_t(0), SymExprAttr(), StringAttr());
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tpc_FactorAttr : Tpc_Attr<"Factor", "factor"> {
  let summary = "A factor of a dimension and the axes that split it";
  let description = [{
    `size` is the global size. Several axes split one after the other. Only used
    inside `#tpc.dim`.
  }];
  let parameters = (ins "SymExprAttr":$size, ArrayRefParameter<"StringAttr">:$axes);
  let builders = [AttrBuilder<(ins "const ::tpc::SymExpr &":$size, CArg<"ArrayRef<StringAttr>", "{}">:$axes)>];
  let extraClassDeclaration = [{
    const ::tpc::SymExpr &getExpr() const;
  }];
  let hasCustomAssemblyFormat = 1;
}

def Tpc_DimAttr : Tpc_Attr<"Dim", "dim"> {
  let summary = "One dimension as factors, major to minor";
  let description = [{
    `batch{dp} * sequence` is a dimension of batch·sequence whose batch factor is
    split over dp; `(batch{dp} * sequence){tp}` splits what is left of the product
    over tp. Canonical form (what `DimAttr::get` makes): adjacent factors without axes are one;
    axes on a product of one factor belong to the factor.
  }];
  let parameters = (ins ArrayRefParameter<"FactorAttr">:$factors, ArrayRefParameter<"StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "ArrayRef<FactorAttr>":$factors, CArg<"ArrayRef<StringAttr>", "{}">:$axes)>,
    AttrBuilder<(ins "const ::tpc::SymExpr &":$size)>];
  // Keeps the product.
  let genStorageClass = 0;
  let storageClass = "DimAttrStorage";
  let extraClassDeclaration = [{
    /// The global size: the product of the factors.
    const ::tpc::SymExpr &getExpr() const;
    bool isSharded() const;
    /// All axes that occur, factors' first.
    SmallVector<StringAttr> getAllAxes() const;
    bool usesAxis(StringRef axis) const;
    /// The dimension with no axes.
    DimAttr getGlobal() const;
    /// The size on the rank with the given coordinates, for given symbols.
    std::optional<int64_t> getLocalSize(GridAttr grid, const std::map<std::string, int64_t> &coordinates,
                                        const std::map<std::string, int64_t> &symbols) const;
    /// The size that every rank has, where that is one number.
    std::optional<int64_t> getStaticLocalSize(GridAttr grid) const;
  }];
}

def Tpc_PartialAttr : Tpc_Attr<"Partial", "partial"> {
  let summary = "Axes over which a value is unreduced, and how it reduces";
  let parameters = (ins "ReductionKind":$kind, ArrayRefParameter<"StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
}

def Tpc_DistAttr : Tpc_Attr<"Dist", "dist", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "What a tensor value is: global sizes and its distribution";
  let description = [{
    The encoding of tensor types. `#tpc.dist<[batch{dp} * sequence, 768], sum{tp}>`: global
    dimensions with the axes that split them, then, if the value is unreduced, the
    kind of reduction and the axes on which every coordinate holds one part. Along
    any other axis the value is replicated. With `local` at the end the tensor's
    builtin shape is one rank's, and dimensions whose local size is not the same
    number on every rank are `?`.

    A type without encoding is static and replicated. `makeTensorType` builds the
    canonical type for a distribution; `getDist` gives the distribution of any type.

    Errors: an axis may occur once in a value; sizes fit in 64 bits and are not negative; the
    tensor's shape is that of the dimensions; a type for which no encoding is needed has none.
  }];
  let parameters = (ins ArrayRefParameter<"DimAttr">:$dims, OptionalParameter<"PartialAttr">:$partial, "bool":$local);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let builders = [
    AttrBuilder<(ins "ArrayRef<DimAttr>":$dims, CArg<"PartialAttr", "{}">:$partial), [{
      return $_get($_ctxt, dims, partial, false);
    }]>];
  let extraClassDeclaration = [{
    bool isSharded() const;
    bool usesAxis(StringRef axis) const;
    bool isUnreducedOver(StringRef axis) const;
    /// Axes of the unreduced part, empty where there is none.
    ArrayRef<StringAttr> getPartialAxes() const;
    DistAttr withDims(ArrayRef<DimAttr> dims) const;
    DistAttr withPartial(PartialAttr partial) const;
    DistAttr withLocal(bool local) const;
    /// The same global value, replicated.
    DistAttr getGlobal() const;
    SmallVector<::tpc::SymExpr> getGlobalSizes() const;
  }];
}

def Tpc_StridedFactorAttr : Tpc_Attr<"StridedFactor", "strided"> {
  let summary = "A factor of a dimension of a view: its size, and elements between neighbours";
  let parameters = (ins "int64_t":$size, "int64_t":$stride);
  let hasCustomAssemblyFormat = 1;
}

def Tpc_ViewAttr : Tpc_Attr<"View", "view"> {
  let summary = "Where the elements of a parameter lie in its weight";
  let description = [{
    `#tpc.view<64 [[64 x 192], [4 x 16, 16 x 1]]>`: beginning at element 64 of the
    weight, a first dimension of 64 elements 192 apart, a second of 4 times 16. This
    one is the key projection of a fused `[64, 192]` weight, its columns
    seen as 4 heads of size 16. Transposes, slices, splits and merges of weights
    compose in this form; stride 0 broadcasts.
  }];
  let parameters = (ins "int64_t":$offset, ArrayRefParameter<"ArrayAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The dense row-major view of a whole weight.
    static ViewAttr getDense(MLIRContext *context, ArrayRef<int64_t> shape);
    /// Factors of one dimension.
    SmallVector<StridedFactorAttr> getFactors(unsigned dim) const;
    SmallVector<int64_t> getShape() const;
    /// Views of views; null where the result has no such form.
    ViewAttr transpose(ArrayRef<int64_t> permutation) const;
    ViewAttr slice(unsigned dim, int64_t start, int64_t size, int64_t step) const;
    ViewAttr reshape(ArrayRef<int64_t> shape) const;
  }];
}

#endif
