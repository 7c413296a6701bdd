//===- Passes.td - Verifiers, and interpreters of programs ----------------===//

#ifndef TPC_VERIFY_PASSES
#define TPC_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

def Evaluate : Pass<"tpc-evaluate", "::mlir::ModuleOp"> {
  let summary = "Run a program in the reference interpreter and compare its outputs with the "
                "previous run";
  let description = [{
    For tests of passes. Evaluates the program for the sizes in `shape`, in double precision, with
    generated weights and inputs that depend only on names and indices. The first run records the
    outputs (`tpc.inputs`, `tpc.expected` on the module); later runs must reproduce them:

        tpc-opt model.mlir --tpc-evaluate=shape=batch=2,sequence=5
            --tpc-assign-shardings=shard=tp3 ... --tpc-evaluate=shape=batch=2,sequence=5

    Supports programs of all levels up to staged. Global programs run once; local programs run on
    all ranks of the grid with simulated communication.

    Errors: an output that differs or is incomplete; a replicated value that differs between ranks;
    a collective that not all ranks of its group reach; a message that is not sent or not received.
  }];
  let options = [
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"tolerance", "tolerance", "double", "1.0e-9",
           "Maximum difference, relative to the largest value">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyBounds : Pass<"tpc-verify-bounds", "::mlir::ModuleOp"> {
  let summary = "Prove that no size exceeds 64 bits or the memory budget";
  let description = [{
    Computes bounds of the size of every value and loop of a program of any level, before constants
    are folded or memory is allocated. A symbol is at least 1 and at most its bound in
    `tpc.constraints`, or `symbol-max` without a bound. In a local program, sizes are those of the
    largest shard.

    Errors, with the ONNX node and both numbers: a value's size, an op's number of iterations, or
    the end offset of a weight in its file may exceed 64 bits; a value has more than `budget` bytes
    even for minimal symbols.
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "int64_t(1) << 40",
           "Maximum bytes of one value at minimal sizes">,
    Option<"symbolMax", "symbol-max", "int64_t", "32768",
           "Maximum value of a symbol without constraint">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyGradients : Pass<"tpc-verify-gradients", "::mlir::ModuleOp"> {
  let summary = "Check gradients against differences of the loss at small sizes";
  let description = [{
    Checks a model with loss and gradients (`tpc-derive-backward`) before it is split. The pass runs
    the program at small sizes in doubles, with random weights and inputs. The derivative of the
    loss along a random direction of each weight, by central differences of sixth order, must equal
    the dot product of direction and gradient, up to 1e-7 of the sum of the absolute values of its
    terms. The pass uses neither gradients of ops nor sharding rules.

    Programs whose first result is not `loss` are not checked. If the sizes of a program cannot be
    reduced, the pass warns and checks nothing. Errors name a weight whose gradient differs.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyEquivalence : Pass<"tpc-verify-equivalence", "::mlir::ModuleOp"> {
  let summary = "Prove that a distributed program computes the same as the model";
  let description = [{
    Compares a sharded, spmd or staged program with its source model:

        tpcc gpt2.onnx --emit=model -o model.mlir
        tpc-opt staged.mlir --tpc-verify-equivalence=reference=model.mlir

    First, by one lemma for each op, the pass proves that every value on a rank is what its type
    specifies: a copy of a global value, its shard, or an operand of its reduction. Then it proves
    that the global values are those of the model, for all sizes: the outputs of both programs must
    be the same expressions of inputs and weights. Each layer function is compared once. The
    sharding rules of ops are not used. Finally, as a randomized check, both programs run at small
    sizes over a prime field: sums are exact, nonlinear functions are replaced by hashes. See
    docs/design/verification.md.

    Errors, at the first op that fails, with its ONNX node: operand shards that do not match;
    unreduced operands of an op that requires reduced ones; communication whose result does not
    match its type; an expression that differs from the model's; messages without a receiver or
    sender; outputs that the model does not have; ops without a lemma.
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"", "A program of the model level">,
    Option<"symbolic", "symbolic", "bool", "true", "Prove it for all sizes">,
    Option<"interpret", "interpret", "bool", "true",
           "Run both programs at small sizes over a prime field">,
    Option<"report", "report", "bool", "false", "Print the coverage of the run at small sizes">];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

def VerifyGeneration : Pass<"tpc-verify-generation", "::mlir::ModuleOp"> {
  let summary = "Prove that generation by steps with caches computes the same as the model";
  let description = [{
    Compares a step (`tpc.step`, from `tpc-recognize-caches` or `tpc-derive-caches`, or written by
    hand) with its source model, a program of the model level:

        tpc-opt step.mlir --tpc-verify-generation=reference=model.mlir

    * A step of n tokens on empty caches computes the same outputs as the model for n tokens.
      Outputs are matched by name. Inputs of the model that the step does not have are empty or have
      their defaults.
    * On any caches of p tokens, a step of a + c tokens computes the same outputs and caches as a
      step of a tokens followed by a step of c tokens.

    A prompt may therefore be split into chunks at any token, down to single tokens. Both claims are
    first proved for all sizes: the first by comparing expressions, the second by one lemma for each
    op, which relates a value in two consecutive chunks to the value in the combined step. Then, as
    a randomized check, both claims are tested at small sizes over a prime field, with more tokens
    than the attention windows. See docs/design/verification.md.

    For a step on preallocated caches (`tpc-preallocate-caches`), the reference is the original
    step. The batch has sequences of different lengths and with different numbers of new tokens. For
    each sequence, the outputs of its valid tokens (or of the last one) must be those of the
    original step on this sequence alone. Its cache must contain the old tokens unchanged, followed
    by the new tokens; nothing else may be written. In the randomized check, cache contents beyond
    the lengths are random.

    Errors, with the ONNX node: the first op whose result may differ between chunks and the combined
    step, with the reason; an expression that differs from the model's; an output or a cache that
    differs, with the token; model inputs without a default that the step does not have; a program
    that cannot be run at small sizes.
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"",
           "A program of the model level; for a step on preallocated caches, the original step">,
    Option<"symbolic", "symbolic", "bool", "true", "Prove it for all sizes">,
    Option<"interpret", "interpret", "bool", "true",
           "Run both programs at small sizes over a prime field">,
    Option<"report", "report", "bool", "false", "Print the coverage of the run at small sizes">];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

def VerifyLowered : Pass<"tpc-verify-lowered", "::mlir::ModuleOp"> {
  let summary = "Run the lowered program at small sizes and compare its outputs with the model's";
  let description = [{
    A randomized check of the lowered program. Interprets buffer functions and kernels in double
    precision on all ranks of a small grid, with small values for the named symbols of static sizes.
    Programs with 16-bit types run a second time, with rounding at stores and casts. Rows and
    elements run in random order. Outputs must equal the model's up to rounding.

        tpc-opt lowered.mlir --tpc-verify-lowered="reference=model.mlir staged=staged.mlir"

    Before the run, checks for all sizes that tensor functions are the same expressions as in the
    staged program; that constants and sizes of kernels also occur in their tensor functions; that
    kernels have only known forms of integer arithmetic, without overflow of 64 bits; that ops have
    only attributes that a check covers; and that frames end at their last slot. Each kernel is also
    run separately and compared with its tensor function.

    Errors: the first difference of a tensor function; a constant, a size, a narrow type or integer
    arithmetic in a kernel that its tensor function does not have; an op with overflow flags or an
    alignment; a frame larger than its slots; an access out of bounds of a buffer or a dimension; a
    read of uninitialized or freed memory; a library op whose output overlaps its input; a size that
    differs between ranks; a message that is not sent or not received; an element of an output
    that differs from the model's or is not delivered exactly once. See docs/design/verification.md.
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"", "A program of the model level">,
    Option<"staged", "staged", "std::string", "\"\"", "The staged source program">,
    Option<"symbolic", "symbolic", "bool", "true",
           "Compare tensor functions, constants, sizes and widths for all sizes">,
    Option<"interpret", "interpret", "bool", "true",
           "Run both programs, and kernels alone, at small sizes">,
    Option<"report", "report", "bool", "false", "Print the coverage of the run at small sizes">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyFacts : Pass<"tpc-verify-facts", "::mlir::ModuleOp"> {
  let summary = "Compare facts of a program (names, types, defaults, …) with the model's";
  let description = [{
    Facts are properties of a program outside of its ops: names, types and defaults of inputs and
    outputs, constraints, the generation step, caches, the source, files and offsets of weights.
    docs/reference/facts.md lists each fact and the verifier that covers it.

        tpc-opt staged.mlir --tpc-verify-facts=reference=model.mlir
        tpc-opt lowered.mlir --tpc-verify-facts="reference=model.mlir staged=staged.mlir"

    * `tpc.step` must match the program: the types of the inputs that it names, the type of the
      first output, and the maximum window of attention ops that read sliding-window caches.
    * With `reference`, facts must equal the model's.
    * With `staged`, all attributes of a program of the kernels or buffers level must be the staged
      program's, and each entry of the parameter table must be used.

    `tpc-verify-equivalence` includes the comparison with the model, `tpc-verify-lowered` the
    comparison with the staged program.

    Errors name the fact and both values.

        error: input 0 of the program has the 'tpc.name' "ids", but the model's has the
               'tpc.name' "input_ids"
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"", "A program of the model level">,
    Option<"staged", "staged", "std::string", "\"\"", "The staged source program">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyComms : Pass<"tpc-verify-comms", "::mlir::ModuleOp"> {
  let summary = "Prove that the ranks of a staged program cannot deadlock";
  let description = [{
    Depends only on the staged program, not on the passes that created it. Proves, for all sizes,
    ranks and numbers of micro-batches at once:

    * the members of each group issue the same collectives in the same order (kind, reduction,
      element type, sizes, root), in all loops and branches;
    * sends and receives between two stages match in number, order and type;
    * there is no cycle of ranks that wait for each other, even if sends are not buffered;
    * no memory is overwritten while a message is in flight (trivial: a staged program has only
      values);
    * each output is delivered once.

    Errors name the op's ONNX node, the axes of the group, and the coordinates of two ranks that
    differ. `certificate=FILE` writes the proof ("-": to standard output), which
    tpc-check-certificate checks independently.

        error: tpc.all_reduce 'ln_f': not all members of its group over dp reach it: rank (dp 0) and
               rank (dp 1) may have a different number of micro-batches
  }];
  let options = [
    Option<"certificate", "certificate", "std::string", "\"\"", "Output file of the proof">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyBuffers : Pass<"tpc-verify-buffers", "::mlir::ModuleOp"> {
  let summary = "Prove that the buffer functions implement the tensor functions";
  let description = [{
    Compares each tensor function with its buffer function, op by op. Shares no code with
    `tpc-plan-buffers`. Proves, for all sizes, ranks and micro-batches at once:

    * each tensor op has exactly the runtime calls that implement it, in order; their kind, sizes,
      strides, axes and parameters are derived independently from types;
    * each buffer that a call reads contains the call's operand. A memory model tracks the value of
      each interval, with expressions as bounds; a write invalidates values that may overlap;
    * no write is outside of its frame or overlaps an operand of the same call; operands from the
      caller are not written;
    * frames are freed in order; results are in the caller's buffers; the second micro-batch
      iteration starts in the same memory state as the first.

    Trusted: the runtime executes ops as if each completed before the next begins, and `tpc_send`
    has read its operand when it returns.

        error: 'tpc_buffer.product' op needs the result of tpc.matmul '/h.0/c_fc', which is not
               in the memory that it reads, …
        note: the memory has the result of func.call '/h.0/ln_2', written by tpc_buffer.launch
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::tpc::buffer::BufferDialect",
                           "::mlir::func::FuncDialect"];
}

def Mutate : Pass<"tpc-mutate", "::mlir::ModuleOp"> {
  let summary = "Inject a fault, to test whether a verifier detects it";
  let description = [{
    For tests: injects a fault that simulates a compiler bug. Most kinds change spmd or staged
    programs; `kernel-*`, `buffer-*` and `lowered-*` change lowered programs, `step-*` and
    `preallocated-*` generation steps, `gradient-*` backward programs before they are split,
    `fact-*` the facts of a program of any level. `kind=list` prints all kinds; `seed` selects one
    of the possible locations. Types are adapted to the fault if possible; other faults need
    `--verify-each=0`, so that the invalid program reaches the verifiers.

        tpc-opt model.mlir --tpc-assign-shardings=shard=tp2 ... --tpc-schedule-pipeline
            --tpc-mutate=kind=rank-branch,seed=3 --tpc-verify-comms

    Errors: an unknown kind; a program without a location for the fault.
  }];
  let options = [ListOption<"kind", "kind", "std::string",
      "Kind of fault (list prints all), then seed=N: the location">];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::scf::SCFDialect",
                           "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

#endif
