//===- TpcAttrs.td - Grid and distribution attributes ------*- tablegen -*-===//

#ifndef TPC_DIALECT_TPCATTRS
#define TPC_DIALECT_TPCATTRS

include "tpc/Dialect/TpcDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class Tpc_Attr<string cppName, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Tpc_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

def Tpc_ReductionKind : I32EnumAttr<"ReductionKind", "reduction of partial values", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_GridAttr : Tpc_Attr<"Grid", "grid"> {
  let summary = "The process grid: named axes, their sizes and their order";
  let description = [{
    `#tpc.grid<tp = 2, cp = 1, ep = 1, dp = 1, pp = 2, mb = 4>`
    The leftmost axis has the smallest stride, as in Megatron-Core's `RankGenerator`. `mb` is the
    axis in time: micro-batches. With `gpus_per_node = 8` at the end, ranks 0 to 7 share a node, 8
    to 15 the next, and so on; without it all ranks share one node.
  }];
  let parameters = (ins ArrayRefParameter<"StringAttr">:$order, ArrayRefParameter<"int64_t">:$sizes,
                        "int64_t":$microBatches, "int64_t":$gpusPerNode);
  let builders = [
    AttrBuilder<(ins "ArrayRef<StringAttr>":$order, "ArrayRef<int64_t>":$sizes,
                 "int64_t":$microBatches), [{
      return $_get($_ctxt, order, sizes, microBatches, 0);
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the size of an axis: the number of micro-batches for `mb`, 1 for an unknown axis.
    int64_t getAxisSize(StringRef axis) const;
    bool hasAxis(StringRef axis) const;
    /// Returns the number of ranks.
    int64_t getWorldSize() const;
    /// Returns the grid of the module that contains `op`, or null.
    static GridAttr lookup(Operation *op);
  }];
}

def Tpc_SymExprAttr : Tpc_Attr<"SymExpr", "expr"> {
  let summary = "A symbolic size";
  let description = [{
    `#tpc.expr<"past + sequence">`: an integer, or an expression over symbols, see `SymExpr.h`.
    The parser of the attribute parses the text and rejects any other; from there on it is a
    `SymExpr`. Equal sizes are one attribute, whatever their text was. Numbers and single symbols
    are printed without quotes. Where an op's syntax expects a size, only the text is written: `from
    past`, `sizes [batch, 64, "past + sequence"]`.
  }];
  let parameters = (ins AttrParameter<"::tpc::SymExpr", "the size",
                        "const ::tpc::SymExpr &">:$expr);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Converts between lists of sizes and array attributes.
    static ::mlir::ArrayAttr getArray(::mlir::MLIRContext *context,
                                      ::llvm::ArrayRef<::tpc::SymExpr> exprs);
    static ::llvm::SmallVector<::tpc::SymExpr> getExprs(::mlir::ArrayAttr array);
  }];
  // The uniquing key is the canonical text.
  let genStorageClass = 0;
  let storageClass = "SymExprAttrStorage";
}

/// A size. Passes see a `SymExpr`; `custom<SymExpr>` prints only its text.
def Tpc_SymExpr
    : Attr<CPred<"::llvm::isa<::mlir::tpc::SymExprAttr>($_self)">, "a symbolic size"> {
  let storageType = "::mlir::tpc::SymExprAttr";
  let returnType = "::tpc::SymExpr";
  let convertFromStorage = "$_self.getExpr()";
  let constBuilderCall = "::mlir::tpc::SymExprAttr::get($_builder.getContext(), $0)";
}
def Tpc_SymExprs : TypedArrayAttrBase<Tpc_SymExpr, "symbolic sizes">;

def Tpc_InputDefaultKind : I32EnumAttr<"InputDefaultKind", "default value of an omitted input", [
    I32EnumAttrCase<"Ones", 0, "ones">, I32EnumAttrCase<"Positions", 1, "positions">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_InputDefaultAttr : Tpc_Attr<"InputDefault", "default"> {
  let summary = "Default value of an omitted input";
  let description = [{
    The value of `tpc.default` on an argument of @main:

            #tpc.default<ones>                          every token is visible
            #tpc.default<positions>                     0, 1, 2, … along the last dimension
            #tpc.default<positions after past>          the same, starting after `past` tokens
            #tpc.default<positions of "attention_mask"> derived from that mask, see below

        The mask is [batch, past + sequence]. The position of each of the last `sequence` tokens is
        the number of visible tokens before it, and 1 for tokens that are masked themselves (as
        Hugging Face counts).

        An input whose default cannot be derived from the program has `tpc.required` instead, with
        the reason.
  }];
  let parameters = (ins "::mlir::tpc::InputDefaultKind":$kind,
                        OptionalParameter<"SymExprAttr">:$past,
                        OptionalParameter<"StringAttr">:$mask);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "InputDefaultKind":$kind)>,
    // Positions: after a past, or derived from a mask.
    AttrBuilder<(ins "const ::tpc::SymExpr &":$past)>, AttrBuilder<(ins "StringAttr":$mask)>];
  let extraClassDeclaration = [{
    /// Returns the default of an argument with these attributes, or null.
    static InputDefaultAttr lookup(DictionaryAttr attributes);
  }];
}

def Tpc_StepAttr : Tpc_Attr<"Step", "step"> {
  let summary = "A generation step: its symbols and its own inputs";
  let description = [{
    The value of `tpc.step`, in one of two forms:

        #tpc.step<past = p, tokens = s>
        #tpc.step<tokens = s, capacity = c, lengths = "lengths", counts = "counts", last,
                  window = 6, room = r, window_lengths = "window_lengths">

    | field | |
    |---|---|
 `tokens` | symbol: number of tokens that a step adds to each sequence |
 `past` | symbol: number of cached tokens before the step |
 `capacity` | symbol: capacity in tokens, in a step on whole caches (tpc-preallocate-caches) |
 `lengths` | input [batch]: number of cached tokens of each sequence |
 `counts` | input [batch]: number of valid tokens of each sequence in this step |
 `last` | the first output contains only each sequence's last token |
 `window` | the largest window of any attention that reads sliding-window caches |
 `room` | symbol: capacity of sliding-window caches in tokens |
 `window_lengths` | input [batch]: number of tokens of each sequence in sliding-window caches |

    Errors: a size that is not a symbol; a repeated symbol or name; fields that match neither form.
  }];
  let parameters = (ins "SymExprAttr":$tokens, OptionalParameter<"SymExprAttr">:$past,
                        OptionalParameter<"SymExprAttr">:$capacity,
                        OptionalParameter<"StringAttr">:$lengths,
                        OptionalParameter<"StringAttr">:$counts, "bool":$last,
                        "int64_t":$window, OptionalParameter<"SymExprAttr">:$room,
                        OptionalParameter<"StringAttr">:$windowLengths);
  let builders = [
    AttrBuilder<(ins "SymExprAttr":$tokens, "SymExprAttr":$past), [{
        return $_get($_ctxt, tokens, past, SymExprAttr(), StringAttr(), StringAttr(), false,
                   int64_t(0), SymExprAttr(), StringAttr());
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tpc_FactorAttr : Tpc_Attr<"Factor", "factor"> {
  let summary = "A factor of a dimension and the axes that split it";
  let description = [{
    `size` is the global size. Several axes split it successively. Used only inside `#tpc.dim`.
  }];
  let parameters = (ins "SymExprAttr":$size, ArrayRefParameter<"StringAttr">:$axes);
  let builders = [AttrBuilder<(ins "const ::tpc::SymExpr &":$size,
                                   CArg<"ArrayRef<StringAttr>", "{}">:$axes)>];
  let extraClassDeclaration = [{
    const ::tpc::SymExpr &getExpr() const;
  }];
  let hasCustomAssemblyFormat = 1;
}

def Tpc_DimAttr : Tpc_Attr<"Dim", "dim"> {
  let summary = "One dimension as factors, major to minor";
  let description = [{
    `batch{dp} * sequence` is a dimension of batch·sequence whose batch factor is split over dp;
    `(batch{dp} * sequence){tp}` also splits the product of the local factors over tp.
    Canonical form (created by `DimAttr::get`): adjacent factors without axes are merged; axes on a
    product of one factor belong to the factor.
  }];
  let parameters = (ins ArrayRefParameter<"FactorAttr">:$factors,
                        ArrayRefParameter<"StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    AttrBuilder<(ins "ArrayRef<FactorAttr>":$factors, CArg<"ArrayRef<StringAttr>", "{}">:$axes)>,
    AttrBuilder<(ins "const ::tpc::SymExpr &":$size)>];
  // Stores the product.
  let genStorageClass = 0;
  let storageClass = "DimAttrStorage";
  let extraClassDeclaration = [{
    /// Returns the global size: the product of the factors.
    const ::tpc::SymExpr &getExpr() const;
    bool isSharded() const;
    /// Returns all axes that occur, those of factors first.
    SmallVector<StringAttr> getAllAxes() const;
    bool usesAxis(StringRef axis) const;
    /// Returns the dimension without axes.
    DimAttr getGlobal() const;
    /// Returns the size on the rank with the given coordinates, for given symbols.
    std::optional<int64_t> getLocalSize(GridAttr grid,
                                        const std::map<std::string, int64_t> &coordinates,
                                        const std::map<std::string, int64_t> &symbols) const;
    /// Returns the local size if it is the same number on every rank.
    std::optional<int64_t> getStaticLocalSize(GridAttr grid) const;
  }];
}

def Tpc_PartialAttr : Tpc_Attr<"Partial", "partial"> {
  let summary = "Axes over which a value is unreduced, and the kind of reduction";
  let parameters = (ins "ReductionKind":$kind, ArrayRefParameter<"StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
}

def Tpc_DistAttr
    : Tpc_Attr<"Dist", "dist", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Global sizes and distribution of a tensor value";
  let description = [{
    The encoding of tensor types: `#tpc.dist<[batch{dp} * sequence, 768], sum{tp}>`. It lists the
    global dimensions with the axes that split them. If the value is unreduced, the kind of
    reduction follows, with the axes on which every coordinate has one term. Along any other axis
    the value is replicated. With `local` at the end, the tensor's builtin shape is the shape on one
    rank; dimensions whose local size is not the same number on every rank are `?`.

    A type without encoding is static and replicated. `makeTensorType` builds the canonical type for
    a distribution; `getDist` returns the distribution of any type.

    Errors: an axis that occurs twice in a value; sizes that are negative or exceed 64 bits; a
    tensor shape that differs from the dimensions; an encoding on a type that needs none.
  }];
  let parameters = (ins ArrayRefParameter<"DimAttr">:$dims,
                        OptionalParameter<"PartialAttr">:$partial, "bool":$local);
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
    /// Returns the axes over which the value is unreduced; empty if it is reduced.
    ArrayRef<StringAttr> getPartialAxes() const;
    DistAttr withDims(ArrayRef<DimAttr> dims) const;
    DistAttr withPartial(PartialAttr partial) const;
    DistAttr withLocal(bool local) const;
    /// Returns the type of the same global value, replicated.
    DistAttr getGlobal() const;
    SmallVector<::tpc::SymExpr> getGlobalSizes() const;
  }];
}

def Tpc_StridedFactorAttr : Tpc_Attr<"StridedFactor", "strided"> {
  let summary = "A factor of a dimension of a view: its size, and its stride in elements";
  let parameters = (ins "int64_t":$size, "int64_t":$stride);
  let hasCustomAssemblyFormat = 1;
}

def Tpc_ViewAttr : Tpc_Attr<"View", "view"> {
  let summary = "Elements of a weight that a parameter consists of";
  let description = [{
    `#tpc.view<64 [[64 x 192], [4 x 16, 16 x 1]]>` begins at element 64 of the weight; its first
    dimension has 64 elements with stride 192, its second 4 times 16. It is the key projection of a
    fused `[64, 192]` weight, with the columns seen as 4 heads of size 16. Transposes, slices,
    splits and merges of weights compose in this form; stride 0 broadcasts.
  }];
  let parameters = (ins "int64_t":$offset, ArrayRefParameter<"ArrayAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Returns the dense row-major view of a whole weight.
    static ViewAttr getDense(MLIRContext *context, ArrayRef<int64_t> shape);
    /// Returns the factors of one dimension.
    SmallVector<StridedFactorAttr> getFactors(unsigned dim) const;
    SmallVector<int64_t> getShape() const;
    /// Apply an op to a view; null if the result is not expressible as a view.
    ViewAttr transpose(ArrayRef<int64_t> permutation) const;
    ViewAttr slice(unsigned dim, int64_t start, int64_t size, int64_t step) const;
    ViewAttr reshape(ArrayRef<int64_t> shape) const;
  }];
}

#endif
