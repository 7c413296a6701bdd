//===- Passes.td - Proofs, and programs that are run  ----------*- tablegen -*-===//

#ifndef TPC_VERIFY_PASSES
#define TPC_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

def Evaluate : Pass<"tpc-evaluate", "::mlir::ModuleOp"> {
  let summary = "Run a program with the reference interpreter and compare with the last time";
  let description = [{
    For tests of passes: evaluates the program for the sizes in `shape`, in double precision, with made-up
    weights and inputs that depend on names and indices alone. The first time the outputs are
    recorded (`tpc.inputs`, `tpc.expected` on the module); from then on they must
    be the same:

        tpc-opt model.mlir --tpc-evaluate=shape=batch=2,sequence=5
            --tpc-assign-shardings=shard=tp3 ... --tpc-evaluate=shape=batch=2,sequence=5

    Programs of all levels up to staged: global ones as they are, local ones on all ranks of the
    grid, which communicate as their types say.

    Errors: an output differs, or a part of it is missing; ranks disagree on replicated values;
    a rank waits for one that does not take part; a message is not sent or not received.
  }];
  let options = [
    ListOption<"shape", "shape", "std::string", "Sizes of symbols, such as batch=2,sequence=128">,
    Option<"tolerance", "tolerance", "double", "1.0e-9", "Largest difference, relative to the largest value">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyBounds : Pass<"tpc-verify-bounds", "::mlir::ModuleOp"> {
  let summary = "Prove that no size overflows 64 bits or the budget";
  let description = [{
    Bounds every value and loop of a program of any level, before anything is folded or
    allocated. A symbol is at least 1, at most what `tpc.constraints` says, and at most `symbol-max` where
    they say nothing. Of a local program the fullest rank counts.

    Errors, with the ONNX node and both numbers: a value, the iterations of an op, or a weight's end in its file
    may pass 64 bits; a value needs more than `budget` bytes even where all symbols are as small as they can
    be.
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "int64_t(1) << 40", "Bytes that one value may need at the least sizes">,
    Option<"symbolMax", "symbol-max", "int64_t", "32768", "The largest value of a symbol that has no constraint">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyEquivalence : Pass<"tpc-verify-equivalence", "::mlir::ModuleOp"> {
  let summary = "Prove that a distributed program computes what the model does";
  let description = [{
    Compares a program (sharded, spmd or staged) with the model it was made of:

        tpcc gpt2.onnx --emit=model -o model.mlir
        tpc-opt staged.mlir --tpc-verify-equivalence=reference=model.mlir

    First, by one lemma for each op, that every value on a rank is the part of a whole value that
    its type says: replicated, a shard, or a part of a sum. Then that the whole values are those of
    the model, for all sizes: the outputs of both programs must be the same expressions of inputs and
    weights. Layers are looked at once. The sharding rules of ops are not used. Then, as a randomized check, both programs are run
    at small sizes with elements of a prime field for numbers: sums are exact, what is not linear is a hash. See docs/verification.md.

    Errors, at the first op where it fails, with its ONNX node: parts that do not fit together,
    unreduced values where whole ones are needed, communication that does not give what its
    type says, another expression than the model's, messages and outputs that do not pair, and
    ops for which there is no lemma.
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"", "The program of the model level">,
    Option<"symbolic", "symbolic", "bool", "true", "Prove it for all sizes">,
    Option<"interpret", "interpret", "bool", "true", "Run both programs at small sizes over a prime field">,
    Option<"report", "report", "bool", "false", "Print what the run at small sizes has exercised">];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

def VerifyGeneration : Pass<"tpc-verify-generation", "::mlir::ModuleOp"> {
  let summary = "Prove that a step with caches, token by token, computes what the model does";
  let description = [{
    Compares a step (`tpc.step`, of `tpc-recognize-caches` or `tpc-derive-caches`, or written by hand) with the model that it was made of,
    a program of the model level:

        tpc-opt step.mlir --tpc-verify-generation=reference=model.mlir

    * A step of n tokens on empty caches gives what the model gives of n tokens: outputs of the same names. What the model takes and the step
      does not is empty then, or what it is when it is left out.
    * On any caches of p tokens a step of a + c tokens gives what one of a and then one of c give, in outputs and in caches.

    So a prompt may be cut into any pieces, and tokens may come one by one. First, it is proved for all sizes: on empty caches both
    programs are the same expressions; and by one lemma for each op, two pieces have of each value what the whole step has of their tokens. Then, as a randomized
    check, both claims are tried at small sizes with elements of a prime field for numbers. Windows are crossed. See docs/verification.md.

    A step that takes whole caches (`tpc-place-caches`) is compared with the step, which is the reference then: of sequences of different
    lengths and numbers of new tokens in one batch each has the outputs, for its real tokens or the last of them, that the step gives of it
    alone; its cache has old tokens as they were, new ones behind them, and nothing is written where there are neither. What caches hold behind
    their lengths is random.

    Errors, with the ONNX node: the first op that gives something else in pieces, or of which that is not known, and why; another expression than the
    model's; an output or a cache that differs, and of which token; inputs of the model that the step does not have; a program that
    cannot be run at small sizes.
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"", "The model: a program of the model level; of a placed step the step">,
    Option<"symbolic", "symbolic", "bool", "true", "Prove it for all sizes">,
    Option<"interpret", "interpret", "bool", "true", "Run both programs at small sizes over a prime field">,
    Option<"report", "report", "bool", "false", "Print what the run at small sizes has exercised">];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

def VerifyLowered : Pass<"tpc-verify-lowered", "::mlir::ModuleOp"> {
  let summary = "Run kernels and buffers at small sizes and compare with the model";
  let description = [{
    The randomized check of what is compiled. The program on buffers, with the kernels that it launches, is run in double precision
    on all ranks of a small grid, with small numbers for static sizes: the text itself, in which they have names. Programs with numbers of 16 bits run once more, rounded to
    their type where they are stored or cast. Rows and elements come in any order. Outputs must be those of the model, up to rounding.

        tpc-opt lowered.mlir --tpc-verify-lowered="reference=model.mlir staged=staged.mlir"

    Before, for all sizes: functions of tensors beside the buffers are the staged program's, as expressions; constants and sizes of kernels are those of
    their functions of tensors; integer arithmetic is of a form that these need, and stays in 64 bits; no op has an attribute that nothing checks; frames end where
    their slots do. Each kernel also runs alone, beside its function of tensors.

    Errors: a function of tensors that differs, and where; a constant, a size, a narrow type or integer arithmetic in a kernel that tensors do not have; overflow flags or an alignment; a larger frame than its slots need; an access outside of a place or of a dimension; a read of what nobody has written, or of memory that was given back; a
    library's op that writes where it reads; ranks that disagree on a size, a message that is not sent or not received; an element
    of an output that differs from the model's, or is delivered twice or by nobody. See docs/verification.md.
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"", "The model: a program of the model level">,
    Option<"staged", "staged", "std::string", "\"\"", "The staged program that this one was made of">,
    Option<"symbolic", "symbolic", "bool", "true", "Compare functions of tensors, constants, sizes and widths for all sizes">,
    Option<"interpret", "interpret", "bool", "true", "Run both programs, and kernels alone, at small sizes">,
    Option<"report", "report", "bool", "false", "Print what the run at small sizes has exercised">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyFacts : Pass<"tpc-verify-facts", "::mlir::ModuleOp"> {
  let summary = "Compare the facts that an executable acts on with the model's";
  let description = [{
    Facts are what a program says beside its ops: names, types and defaults of inputs and outputs, constraints, the step of a generation,
    caches, the source, files and offsets of weights. docs/reference/facts.md lists each fact and the verifier that covers it.

        tpc-opt staged.mlir --tpc-verify-facts=reference=model.mlir
        tpc-opt lowered.mlir --tpc-verify-facts="reference=model.mlir staged=staged.mlir"

    * `tpc.step` must fit the program itself: its inputs and first output by their types, its window is the largest one of attention
      that reads sliding-window caches.
    * With `reference`, facts are the model's.
    * With `staged`, all attributes of a program on kernels or buffers are the staged program's, and each entry of the table of
      parameters is used.

    The comparison with the model is a part of `tpc-verify-equivalence` as well, that with the staged program of `tpc-verify-lowered`.

    Errors name the fact and both values.

        error: input 0 of the program has the 'tpc.name' "ids", but the model's has the 'tpc.name' "input_ids"
  }];
  let options = [
    Option<"reference", "reference", "std::string", "\"\"", "The model: a program of the model level">,
    Option<"staged", "staged", "std::string", "\"\"", "The staged program that this one was made of">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyComms : Pass<"tpc-verify-comms", "::mlir::ModuleOp"> {
  let summary = "Prove that the ranks of a staged program cannot deadlock";
  let description = [{
    Reads the staged program only, and trusts nobody who made it. For all sizes, all ranks and all
    numbers of micro-batches at once:

    * the members of each group issue the same collectives in the same order (kind, reduction, element
      type, sizes, root), whatever loops and branches are around them;
    * what one stage sends, another receives: as often, in the same order, of the same type;
    * without any buffering there is no circle of ranks that wait for each other;
    * nothing writes memory while a message is under way: a staged program has values only;
    * each output is delivered once.

    Errors name the op's ONNX node, the axes of the group and, by coordinates, two ranks that disagree.
    `certificate=FILE` writes the proof ("-": to standard output), which tpc-check-certificate checks again.

        error: tpc.all_reduce 'ln_f': not all members of its group over dp come: rank (dp 0) and
               rank (dp 1) may have a different number of micro-batches
  }];
  let options = [Option<"certificate", "certificate", "std::string", "\"\"", "Where to write the proof">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def VerifyBuffers : Pass<"tpc-verify-buffers", "::mlir::ModuleOp"> {
  let summary = "Prove that a program on buffers does what the program on tensors means";
  let description = [{
    Goes through each function of tensors and the one on buffers beside it, op by op, and shares nothing with `tpc-plan-buffers`.
    For all sizes, all ranks and all micro-batches at once:

    * each op on tensors has just the calls that mean the same, in order; kind, sizes, strides, axes and parameters are derived from types again;
    * what a call reads is in the place where it reads it: a memory of intervals, whose ends are expressions, says which value lies where;
      what may overlap with something that is written is forgotten;
    * nothing is written outside of its frame or over what the same call still reads; what is given is not written;
    * frames are given back in order; results are where the caller looks for them; a second round finds what the first one found.

    The runtime's part is trusted: an op has ended before the next one begins, or it looks like that, and `tpc_send` has taken what it sends when it returns.

        error: 'tpc_buffer.product' op needs what tpc.matmul '/h.0/c_fc' gives, which is not in the place that it reads, …
        note: there is what func.call '/h.0/ln_2' gives, written by tpc_buffer.launch
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::tpc::buffer::BufferDialect", "::mlir::func::FuncDialect"];
}

def Mutate : Pass<"tpc-mutate", "::mlir::ModuleOp"> {
  let summary = "Make one mistake, to see whether a verifier finds it";
  let description = [{
    For tests: changes an spmd or staged program as a bug in a partitioner would. Kinds `kernel-*` and `buffer-*` change what is lowered,
    `step-*` and `place-*` a step of a generation, `fact-*` what a program of any level says beside its ops. `kind=list` prints all kinds; of
    the places where one fits, `seed` chooses. Where it goes, the types are kept right if a
    mistake of that kind can be: `--verify-each=0` lets the others through to the verifiers.

        tpc-opt model.mlir --tpc-assign-shardings=shard=tp2 ... --tpc-schedule-pipeline
            --tpc-mutate=kind=rank-branch,seed=3 --tpc-verify-comms

    Errors: no such kind; the program has no place for it.
  }];
  let options = [ListOption<"kind", "kind", "std::string", "Which mistake (list prints all), then seed=N: which of the places">];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif
