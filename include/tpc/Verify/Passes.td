//===- Passes.td - Verifiers, and interpreters of programs ----------------===//

#ifndef TPC_VERIFY_PASSES
#define TPC_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

def Evaluate : Pass<"tpc-evaluate", "::mlir::ModuleOp"> {
  let summary = "Run a program with the reference interpreter and compare with the previous run";
  let description = [{
    For tests of passes. Evaluates the program for the sizes in `shape`, in double precision, with
    generated weights and inputs that depend only on names and indices. The first run records the
    outputs (`tpc.inputs`, `tpc.expected` on the module); later runs must reproduce them:

        tpc-opt model.mlir --tpc-evaluate=shape=batch=2,sequence=5
            --tpc-assign-shardings=shard=tp3 ... --tpc-evaluate=shape=batch=2,sequence=5

    Supports programs of all levels up to staged: global programs as they are, local ones on all
    ranks of the grid, which communicate according to their types.

    Errors: an output that differs or is incomplete; ranks that disagree on replicated values; a
    rank that waits for one that does not take part; a message that is not sent or not received.
  }];
  let options = [
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"tolerance", "tolerance", "double", "1.0e-9",
           "Maximum difference, relative to the largest value">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyBounds : Pass<"tpc-verify-bounds", "::mlir::ModuleOp"> {
  let summary = "Prove that no size exceeds 64 bits or the budget";
  let description = [{
    Bounds every value and loop of a program of any level, before constants are folded or memory is
    allocated. A symbol is at least 1, and at most its bound in `tpc.constraints`, or `symbol-max`
    if it has none. For a local program, sizes are those of the rank with the most.

    Errors, with the ONNX node and both numbers: a value, an op's number of iterations, or the end
    of a weight in its file that may exceed 64 bits; a value that needs more than `budget` bytes
    even if all symbols are minimal.
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "int64_t(1) << 40",
           "Maximum bytes of one value at minimal sizes">,
    Option<"symbolMax", "symbol-max", "int64_t", "32768",
           "Maximum value of a symbol without constraint">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyEquivalence : Pass<"tpc-verify-equivalence", "::mlir::ModuleOp"> {
  let summary = "Prove that a distributed program computes the same as the model";
  let description = [{
    Compares a program (sharded, spmd or staged) with its source model:

        tpcc gpt2.onnx --emit=model -o model.mlir
        tpc-opt staged.mlir --tpc-verify-equivalence=reference=model.mlir

    First, one lemma for each op proves that every value on a rank is the part of a whole value that
    its type specifies: replicated, a shard, or a term of a sum. Then the whole values are proved to
    be those of the model, for all sizes: the outputs of both programs must be the same expressions
    of inputs and weights. Layers are compared once. The sharding rules of ops are not used.
    Finally, as a randomized check, both programs run at small sizes over a prime field: sums are
    exact, nonlinear functions are hashes. See docs/design/verification.md.

    Errors, at the first op that fails, with its ONNX node: shards that do not match; unreduced
    values where reduced ones are needed; communication whose result does not match its type; an
    expression that differs from the model's; messages or outputs without counterpart; ops without a
    lemma.
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
  let summary = "Prove that a step with caches, token by token, computes the same as the model";
  let description = [{
    Compares a step (`tpc.step`, from `tpc-recognize-caches` or `tpc-derive-caches`, or written by
    hand) with its source model, a program of the model level:

        tpc-opt step.mlir --tpc-verify-generation=reference=model.mlir

    * A step of n tokens on empty caches has the same result as the model for n tokens, in outputs
      of the same names. Inputs of the model that the step does not have are empty or have their
      defaults.
    * On any caches of p tokens, a step of a + c tokens has the same result as a step of a tokens
      followed by one of c, in outputs and in caches.

    So a prompt may be cut into chunks at any token, and tokens may arrive one by one. First, this
    is proved for all sizes. On empty caches both programs are the same expressions. By one lemma
    for each op, each value in two consecutive chunks equals its tokens in the whole step. Then, as
    a randomized check, both claims are tested at small sizes over a prime field, beyond the
    windows. See docs/design/verification.md.

    A step on preallocated caches (`tpc-preallocate-caches`) is compared with the original step,
    which is then the reference. For sequences of different lengths and numbers of new tokens in one
    batch, each sequence must have the outputs, for its valid tokens or the last of them, that the
    original step computes for it alone. Its cache must keep old tokens unchanged and have the new
    ones after them; nothing else may be written. Cache contents beyond the lengths are random.

    Errors, with the ONNX node: the first op whose result differs between chunks, or for which this
    is unknown, with the reason; an expression that differs from the model's; an output or a cache
    that differs, with the token; inputs of the model that the step does not have; a program that
    cannot be run at small sizes.
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
  let summary = "Run kernels and buffers at small sizes and compare with the model";
  let description = [{
    A randomized check of the compiled program. Runs the program on buffers, with its kernels, in
    double precision on all ranks of a small grid, with small numbers for the named symbols of
    static sizes. Programs with 16-bit numbers run once more, rounded to their type where they are
    stored or cast. Rows and elements run in random order. Outputs must equal those of the model, up
    to rounding.

        tpc-opt lowered.mlir --tpc-verify-lowered="reference=model.mlir staged=staged.mlir"

    Before, for all sizes: the tensor functions must be those of the staged program, as expressions;
    constants and sizes of kernels must be those of their tensor functions; integer arithmetic must
    be of a form that these need and stay within 64 bits; ops must have no attributes that no check
    covers; frames must end at their last slot. Each kernel also runs alone and is compared with its
    tensor function.

    Errors: a tensor function that differs, and where; a constant, a size, a narrow type or integer
    arithmetic in a kernel that its tensor function does not have; overflow flags or an alignment; a
    frame larger than its slots; an access out of bounds of a buffer or a
    dimension; a read of uninitialized or freed memory; a library op whose output overlaps its
    input; ranks that disagree on a size; a message that is not sent or not received; an element of
    an output that differs from the model's, or that is not delivered exactly once. See
    docs/design/verification.md.
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
  let summary = "Compare the facts of an executable with the model's";
  let description = [{
    Facts are properties of a program outside of its ops: names, types and defaults of inputs and
    outputs, constraints, the generation step, caches, the source, files and offsets of weights.
    docs/reference/facts.md lists each fact and the verifier that covers it.

        tpc-opt staged.mlir --tpc-verify-facts=reference=model.mlir
        tpc-opt lowered.mlir --tpc-verify-facts="reference=model.mlir staged=staged.mlir"

    * `tpc.step` must match the program itself: its inputs and first output by their types, its
      window is the largest one of any attention that reads sliding-window caches.
    * With `reference`, facts must equal the model's.
    * With `staged`, all attributes of a program on kernels or buffers must be the staged program's,
      and each entry of the parameter table must be used.

    `tpc-verify-equivalence` includes the comparison with the model, `tpc-verify-lowered` that with
    the staged program.

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
    Reads only the staged program, and trusts none of the passes that created it. For all sizes, all
    ranks and all numbers of micro-batches at once:

    * the members of each group issue the same collectives in the same order (kind, reduction,
      element type, sizes, root), in all loops and branches;
    * each message that one stage sends, another receives: equally often, in the same order, with
      the same type;
    * without any buffering there is no cycle of ranks that wait for each other;
    * no memory is overwritten while a message is in flight: a staged program has only values;
    * each output is delivered once.

    Errors name the op's ONNX node, the axes of the group and, by coordinates, two ranks that
    disagree. `certificate=FILE` writes the proof ("-": to standard output), which
    tpc-check-certificate checks independently.

        error: tpc.all_reduce 'ln_f': not all members of its group over dp reach it: rank (dp 0) and
               rank (dp 1) may have a different number of micro-batches
  }];
  let options = [
    Option<"certificate", "certificate", "std::string", "\"\"", "Output file of the proof">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyBuffers : Pass<"tpc-verify-buffers", "::mlir::ModuleOp"> {
  let summary = "Prove that a program on buffers implements the tensor program";
  let description = [{
    Walks each tensor function and its buffer function op by op. Shares no code with
    `tpc-plan-buffers`. For all sizes, all ranks and all micro-batches at once:

    * each tensor op has exactly the calls that implement it, in order; kind, sizes, strides, axes
      and parameters are derived independently from types;
    * each operand of a call is in the buffer that the call reads. A memory model of intervals,
      whose bounds are expressions, tracks the value of each interval; values that may overlap with
      a write are invalidated;
    * nothing is written outside of its frame or over operands of the same call; operands that the
      caller passes are not written;
    * frames are freed in order; results are in the caller's buffers; a second micro-batch iteration
      finds the state of the first one.

    The runtime is trusted: an op completes, or appears to complete, before the next one begins, and
    `tpc_send` has read its operand when it returns.

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
    For tests: changes an spmd or staged program as a bug in a partitioner would. Kinds `kernel-*`
    and `buffer-*` change lowered programs, `step-*` and `place-*` generation steps, `fact-*` the
    facts of a program of any level. `kind=list` prints all kinds; `seed` selects one of the
    possible locations. Types are adapted to the fault where that is possible; for other faults,
    `--verify-each=0` passes the invalid program on to the verifiers.

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
