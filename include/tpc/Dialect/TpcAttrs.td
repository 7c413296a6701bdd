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

def Tpc_MeshAttr : Tpc_Attr<"Mesh", "mesh"> {
  let summary = "Mesh of ranks: atomic axes, and named views of them";
  let description = [{
    `#tpc.mesh<tp = 2, cp = 1, ep = 1, dp = 1, pp = 2, mb = 4>`
    The leftmost atom has the smallest stride, as in Megatron-Core's `RankGenerator`. `mb` is not an
    axis of ranks: its coordinate is the micro-batch index. With `gpus_per_node = 8` at the end,
    ranks 0 to 7 share a node, 8 to 15 the next, and so on; without it all ranks share one node.
    With `vpp = 2`, each rank of pp has two chunks of the model.

    An axis of the dense grid or of the grid of experts is a *view*: a list of atoms. In the form
    above each atom is the axis of its name. Other axes are listed. This is `tp4,dp4,ep4,etp2`:

        #tpc.mesh<atoms = [tp_etp = 2, tp_ep = 2, cp = 1, dp_ep = 2, dp_edp = 2, pp = 1],
                  views = {dp = [dp_ep, dp_edp], edp = [cp, dp_edp], ep = [tp_ep, dp_ep],
                           etp = [tp_etp], tp = [tp_etp, tp_ep]}, mb = 1>

    An axis of experts that is not listed has the atoms of its counterpart: etp those of tp, edp
    those of cp and dp. Errors: an atom that is given twice or has a size below 1; a view with an
    atom twice or with one that the mesh does not have; a view that is also an atom; more than 2^24
    ranks.
  }];
  let parameters = (ins ArrayRefParameter<"StringAttr">:$order, ArrayRefParameter<"int64_t">:$sizes,
                        "DictionaryAttr":$views, "int64_t":$microBatches, "int64_t":$gpusPerNode,
                        "int64_t":$chunksPerRank);
  let builders = [
    AttrBuilder<(ins "ArrayRef<StringAttr>":$order, "ArrayRef<int64_t>":$sizes,
                 "int64_t":$microBatches), [{
      return $_get($_ctxt, order, sizes, DictionaryAttr::get($_ctxt), microBatches, 0, 1);
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the size of an axis: the number of micro-batches for `mb`, 1 for an unknown axis.
    int64_t getAxisSize(StringRef axis) const;
    bool hasAxis(StringRef axis) const;
    /// Returns the atoms of a view by ascending stride; none for an unknown view.
    SmallVector<StringAttr> getView(StringRef view) const;
    /// Returns the number of ranks along a view: 1 for an unknown view.
    int64_t getViewSize(StringRef view) const;
    bool isInView(StringAttr atom, StringRef view) const;
    /// Returns the number of ranks.
    int64_t getWorldSize() const;
    /// Returns the mesh of the module that contains `op`, or null.
    static MeshAttr lookup(Operation *op);
  }];
}

def Tpc_ScheduleAttr : Tpc_Attr<"Schedule", "schedule"> {
  let summary = "Order of the events of each rank of pp";
  let description = [{
    `#tpc.schedule<"interleaved", [[F0.0, SF0.0, ...], [RF1.0, F1.0, ...]]>`: the policy that made
    the schedule, and one list of events for each rank of pp. An event is a phase of a chunk for one
    micro-batch, such as `F2.1` for chunk 2 and micro-batch 1:

        RF   the tpc.recv ops of the chunk's tpc.micro_batches
        F    its other ops
        SF   its tpc.send ops

    Each event runs once in a step. The events of a micro-batch without samples are skipped.
  }];
  let parameters = (ins StringRefParameter<"name of the policy">:$policy,
                        ArrayRefParameter<"DenseI64ArrayAttr",
                                          "phases, chunks, micro-batches">:$ranks);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static ScheduleAttr get(MLIRContext *context, StringRef policy,
                            const ::tpc::ScheduleTable &table);
    std::vector<::tpc::ScheduleEvent> getEvents(int64_t rank) const;
    /// Returns the chunks of a rank in ascending order: those of its `tpc.micro_batches`.
    std::vector<int64_t> getChunks(int64_t rank) const;
  }];
}

def Tpc_SymExprAttr : Tpc_Attr<"SymExpr", "expr"> {
  let summary = "A symbolic size";
  let description = [{
    `#tpc.expr<"past + sequence">`: an integer, or an expression over symbols, see `SymExpr.h`.
    The attribute stores a `SymExpr`; the parser rejects text that is not an expression. Attributes
    are uniqued by canonical form, so equal sizes are the same attribute. Numbers and single symbols
    are printed without quotes. Assembly formats of ops print only the expression: `from past`,
    `sizes [batch, 64, "past + sequence"]`.
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

/// A size attribute. Accessors return a `SymExpr`; `custom<SymExpr>` prints only the expression.
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

    The mask is [batch, past + sequence]. The position of each of the last `sequence` tokens is the
    number of visible tokens before it. Masked tokens have position 1, as in Hugging Face
    transformers.

    If no default can be derived from the program, the input has `tpc.required` instead, with the
    reason.
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
  let summary = "Symbols and inputs of a generation step";
  let description = [{
    The value of `tpc.step`, in one of two forms:

        #tpc.step<past = p, tokens = s>
        #tpc.step<tokens = s, capacity = c, lengths = "lengths", counts = "counts", last,
                  window = 6, window_capacity = wc, window_lengths = "window_lengths">

    | field | meaning |
    |---|---|
    | `tokens` | symbol: number of tokens that a step adds to each sequence |
    | `past` | symbol: number of cached tokens before the step |
    | `capacity` | symbol: capacity in tokens of preallocated caches (tpc-preallocate-caches) |
    | `lengths` | input [batch]: number of cached tokens of each sequence |
    | `counts` | input [batch]: number of valid tokens of each sequence in this step |
    | `last` | flag: the first output contains only each sequence's last token |
    | `window` | maximum window of the attention ops that read sliding-window caches |
    | `window_capacity` | symbol: capacity of sliding-window caches in tokens |
    | `window_lengths` | input [batch]: number of tokens of each sequence in sliding-window caches |

    Errors: a size that is not a symbol; a repeated symbol or name; fields that match neither form.
  }];
  let parameters = (ins "SymExprAttr":$tokens, OptionalParameter<"SymExprAttr">:$past,
                        OptionalParameter<"SymExprAttr">:$capacity,
                        OptionalParameter<"StringAttr">:$lengths,
                        OptionalParameter<"StringAttr">:$counts, "bool":$last,
                        "int64_t":$window, OptionalParameter<"SymExprAttr">:$windowCapacity,
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
    `size` is the global size. Several axes split it one after the other: the second splits the
    shards of the first. Used only inside `#tpc.dim`.
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
    Canonical form (created by `DimAttr::get`): adjacent factors without axes are merged; a
    dimension with a single factor stores axes on the factor, never on the product.
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
    /// Returns all axes: those of the factors, then those of the product.
    SmallVector<StringAttr> getAllAxes() const;
    bool usesAxis(StringRef axis) const;
    /// Returns the unsplit dimension.
    DimAttr getGlobal() const;
    /// Returns the size on the rank at `coordinates`, with the given values of symbols.
    std::optional<int64_t> getLocalSize(MeshAttr grid,
                                        const std::map<std::string, int64_t> &coordinates,
                                        const std::map<std::string, int64_t> &symbols) const;
    /// Returns the local size if it is the same number on every rank.
    std::optional<int64_t> getStaticLocalSize(MeshAttr grid) const;
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
    global dimensions with the axes that split them. An unreduced value also has the kind of
    reduction and its axes, `sum{tp}`: ranks that differ only on these axes have one operand of the
    reduction each. The value is replicated along all other axes. With `local` at the end, the
    tensor's builtin shape is the shape on one rank; dimensions whose local size differs between
    ranks are `?`.

    A type without encoding is static and replicated. `makeTensorType` builds the canonical type for
    a distribution; `getDist` returns the distribution of any type.

    Errors: an axis that occurs twice in a value; sizes that are negative or exceed 64 bits; a
    tensor shape that differs from the dimensions; an encoding on a type that is static and
    replicated.
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
    /// Returns the replicated distribution of the same global value.
    DistAttr getGlobal() const;
    SmallVector<::tpc::SymExpr> getGlobalSizes() const;
  }];
}

def Tpc_StridedFactorAttr : Tpc_Attr<"StridedFactor", "strided"> {
  let summary = "Factor of a dimension of a view: size, and stride in elements";
  let parameters = (ins "int64_t":$size, "int64_t":$stride);
  let hasCustomAssemblyFormat = 1;
}

def Tpc_ViewAttr : Tpc_Attr<"View", "view"> {
  let summary = "Strided view of a weight";
  let description = [{
    `#tpc.view<64 [[64 x 192], [4 x 16, 16 x 1]]>` begins at element 64 of the weight. Its first
    dimension has 64 elements with stride 192; its second has the factors 4 (stride 16) and 16
    (stride 1). This is the key projection of a fused `[64, 192]` weight, with 4 heads of 16
    columns. Transposes, slices and reshapes of a view are views; stride 0 broadcasts.
  }];
  let parameters = (ins "int64_t":$offset, ArrayRefParameter<"ArrayAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Returns the dense row-major view of a weight of this shape.
    static ViewAttr getDense(MLIRContext *context, ArrayRef<int64_t> shape);
    /// Returns the factors of one dimension.
    SmallVector<StridedFactorAttr> getFactors(unsigned dim) const;
    SmallVector<int64_t> getShape() const;
    /// Returns the view of the op's result; null if it is not expressible as a view.
    ViewAttr transpose(ArrayRef<int64_t> permutation) const;
    ViewAttr slice(unsigned dim, int64_t start, int64_t size, int64_t step) const;
    ViewAttr reshape(ArrayRef<int64_t> shape) const;
  }];
}

#endif
