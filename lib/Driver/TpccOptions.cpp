//===- TpccOptions.cpp - Command line of tpcc -----------------------------===//

#include "TpccOptions.h"

#include "TpccHelp.h"
#include "Version.h"
#include "tpc/Cost/Machine.h"
#include "tpc/printable.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace tpc;
namespace cl = llvm::cl;

/// Pseudo-level of --emit: the ONNX file with the chosen shardings.
static constexpr llvm::StringLiteral kOnnx = "onnx-sharded";

static bool parseEmit(llvm::StringRef name, TpccOptions &options) {
  Emit &emit = options.emit;
  bool &onnx = options.onnx;
  llvm::SmallVector<llvm::StringRef> names;
  for (unsigned i = 0; i <= unsigned(Emit::Exe); ++i)
    names.push_back(emitName(Emit(i)));
  onnx = name == kOnnx;
  if (onnx) {
    emit = Emit::Staged;
    return true;
  }
  llvm::SmallVector<llvm::StringRef> others{kOnnx};
  for (const mlir::tpc::TargetTraits *target : mlir::tpc::TargetTraits::getAll()) {
    if (target->kernelText.empty())
      continue;
    others.push_back(target->kernelText);
    options.kernelText |= name == target->kernelText;
  }
  if (options.kernelText) {
    options.kernelTextName = name.str();
    emit = Emit::Buffers;
    return true;
  }
  auto *found = llvm::find(names, name);
  if (found != names.end()) {
    emit = Emit(found - names.begin());
    return true;
  }
  auto *near = llvm::min_element(names, [&](llvm::StringRef a, llvm::StringRef b) {
    return name.edit_distance(a) < name.edit_distance(b);
  });
  llvm::WithColor::error(llvm::errs(), "tpcc")
      << "--emit: there is no level '" << printable(name) << "'; did you mean '" << *near
      << "'? Expected one of " << llvm::join(names, ", ") << ", " << llvm::join(others, ", ")
      << "\n";
  return false;
}

/// Rejects repeated flags, of which LLVM's parser would use the last, and empty values, which
/// result from unset shell variables.
static bool checkOnce(const cl::Option &option, llvm::StringRef value, bool mayBeEmpty) {
  bool twice = option.getNumOccurrences() > 1;
  bool empty = option.getNumOccurrences() == 1 && value.empty() && !mayBeEmpty;
  if (twice || empty)
    llvm::WithColor::error(llvm::errs(), "tpcc")
        << (option.ArgStr.size() == 1 ? "-" : "--") << option.ArgStr
        << (twice ? " is given twice" : " is empty: it needs a ")
        << (twice ? llvm::StringRef() : option.ValueStr) << "\n";
  return !twice && !empty;
}

bool TpccOptions::parse(int argc, char **argv) {
  // Removes LLVM's own command-line options.
  cl::ResetCommandLineParser();

  cl::OptionCategory files("1. Input and output");
  cl::opt<std::string, true> inputOption(cl::Positional, cl::desc("<model.onnx>"),
                                         cl::location(input), cl::cat(files));
  cl::list<std::string> encoderOption(
      "encoder",
      cl::desc("ONNX file of the encoder of an encoder-decoder: its output becomes the decoder's "
               "input 'encoder_hidden_states', or its keys and values of cross-attention, in one "
               "program. Given twice, the first file is the encoder of the second. With "
               "--embedding, an encoder of images: its output replaces image tokens"),
      cl::value_desc("encoder.onnx"), cl::cat(files));
  cl::opt<std::string, true> embeddingOption(
      "embedding",
      cl::desc("ONNX file of the embedding of tokens: its output becomes the decoder's input "
               "'inputs_embeds', in one program"),
      cl::value_desc("embed_tokens.onnx"), cl::location(parts.embedding), cl::cat(files));
  cl::opt<int64_t> imageTokenOption(
      "image-token",
      cl::desc("Token id that stands for a row of an image's features in prompts (default: that "
               "of config.json next to the model)"),
      cl::value_desc("id"), cl::cat(files));
  cl::opt<std::string, true> outputOption("o", cl::desc("Output file ('-': standard output)"),
                                          cl::value_desc("file"), cl::location(output),
                                          cl::cat(files));
  cl::opt<std::string> emitOption(
      "emit",
      cl::desc(
          "Stop at a level and write it: import, model, sharded, spmd, staged, kernels, buffers, "
          "llvm, obj, lib or exe (default); text goes to standard output without -o. ptx: kernels "
          "for "
          "GPUs. onnx-sharded: the model with its shardings as multi-device fields"),
      cl::value_desc("level"), cl::init("exe"), cl::cat(files));
  cl::opt<bool, true> plainOption(
      "plain",
      cl::desc(
          "Write programs in MLIR's format: no names for types and weights, each op in one line"),
      cl::location(plain), cl::cat(files));
  cl::opt<std::string, true> targetOption(
      "target", cl::desc("Target of kernels: cpu (default) or cuda"), cl::value_desc("name"),
      cl::location(target), cl::cat(files));
  cl::opt<std::string, true> architecturesOption(
      "gpu-arch",
      cl::desc(
          "With --target=cuda: architectures of GPUs (default: sm_80,sm_90,sm_100); PTX is for "
          "the lowest, machine code for each where there is a ptxas"),
      cl::value_desc("sm_N,…"), cl::location(architectures), cl::cat(files));
  cl::opt<std::string, true> precisionOption(
      "precision",
      cl::desc(
          "Precision of f32 matmuls: f32 (default); with --target=cuda: tf32, which is "
          "several times as fast and keeps 10 bits of each operand's fraction; with --train or "
          "--gradients: bf16 or f16, in which matmuls round operands and results; with f16, an "
          "input loss_scale multiplies the loss's cotangent"),
      cl::value_desc("type"), cl::location(precision), cl::init("f32"), cl::cat(files));
  cl::opt<std::string, true> residualOption(
      "residual",
      cl::desc(
          "For models in f16 or bf16: type of the residual stream: f32 (default), or same, the "
          "model's type, which halves messages between ranks and is less accurate"),
      cl::value_desc("type"), cl::location(residual), cl::init("f32"), cl::cat(files));
  cl::opt<std::string, true> quantizeOption(
      "quantize",
      cl::desc("Quantize the weights of matmuls, with a scale for each column (int8, fp8), or for "
               "each block of a column (int4:32, the default of int4). They are written to "
               "<output>.weights. With fp8 (E4M3), rows of activations are rounded as well"),
      cl::value_desc("int8|int4[:block]|fp8"), cl::location(quantize), cl::cat(files));
  cl::opt<std::string, true> expertCapacityOption(
      "expert-capacity",
      cl::desc("Maximum number of tokens of a sample that an expert computes, as a factor of the "
               "mean number; others are dropped, in the order of tokens. Default: none is dropped"),
      cl::value_desc("factor"), cl::location(expertCapacity), cl::cat(files));
  cl::opt<std::string, true> expertDispatchOption(
      "expert-dispatch",
      cl::desc("With ep over replicas: all ranks of experts receive all tokens (gather), or only "
               "those of their experts (all-to-all; on GPUs, steps are then not CUDA graphs). "
               "Default: the faster form by estimate (auto); gather for GPUs with --generate"),
      cl::value_desc("auto|gather|all-to-all"), cl::location(expertDispatch), cl::cat(files));
  cl::opt<std::string> generateOption(
      "generate",
      cl::desc(
          "Compile a program that generates tokens. Its caches are split like the heads and kept "
          "from step to step; models without caches get them. Logits are those of a prompt's "
          "last token (last, the default) or of all tokens"),
      cl::value_desc("last|all"), cl::ValueOptional, cl::init(""), cl::cat(files));
  cl::opt<bool, true> trainOption(
      "train",
      cl::desc("Compile a program that trains: a step computes --loss and its gradients, and "
               "updates the f32 weights by --optimizer"),
      cl::location(train), cl::cat(files));
  cl::opt<std::string, true> optimizerOption(
      "optimizer",
      cl::desc(
          "With --train: adamw:beta1=0.9,beta2=0.999,epsilon=1e-8,decay=0.01,clip=0 (default), "
          "or sgd:momentum=0,decay=0,clip=0; settings that are left out have these values. "
          "clip: maximum norm of all gradients together; 0: none"),
      cl::value_desc("name:setting=value,…"), cl::location(optimizer), cl::cat(files));
  cl::opt<std::string, true> noDecayOption(
      "no-decay",
      cl::desc("With --train: weights without decay, as patterns (*.wte.*,*norm*). Biases and "
               "scales never decay"),
      cl::value_desc("pattern,…"), cl::location(noDecay), cl::cat(files));
  cl::opt<bool, true> gradientsOption(
      "gradients",
      cl::desc(
          "Compile a program whose outputs are a loss and its gradients, grad.<weight> for "
          "each f32 weight. Its input 'labels' has the id after each token; -100 is ignored, and "
          "other labels outside of the vocabulary are errors"),
      cl::location(gradients), cl::cat(files));
  cl::opt<std::string, true> lossOption("loss",
                                        cl::desc("With --train or --gradients: next-token "
                                                 "(default), the mean cross-entropy of the labels"),
                                        cl::value_desc("name"), cl::location(loss), cl::cat(files));
  cl::opt<double, true> smoothingOption(
      "label-smoothing",
      cl::desc("With --train or --gradients: fraction of each target distribution that is uniform "
               "over all classes, from 0 (default) to below 1"),
      cl::value_desc("fraction"), cl::location(labelSmoothing), cl::init(0), cl::cat(files));
  cl::opt<double, true> zLossOption(
      "z-loss",
      cl::desc("With --train or --gradients: coefficient of logsumexp(logits)^2 in the loss "
               "(default: 0)"),
      cl::value_desc("factor"), cl::location(zLoss), cl::init(0), cl::cat(files));
  cl::opt<std::string, true> nameOption("name",
                                        cl::desc("The program's name (default: the output's)"),
                                        cl::value_desc("name"), cl::location(name), cl::cat(files));
  cl::opt<std::string, true> marchOption(
      "march", cl::desc("CPU to compile for (default: native, this one)"), cl::value_desc("cpu"),
      cl::location(march), cl::init("native"), cl::cat(files));
  cl::opt<unsigned, true> levelOption(
      "O", cl::Prefix,
      cl::desc(
          "Optimization level of LLVM, 0 to 3 (default: 3); lower compiles faster, to slower code"),
      cl::value_desc("level"), cl::location(optLevel), cl::init(3), cl::cat(files));

  cl::opt<std::string, true> weightsOption(
      "weights",
      cl::desc(
          "Folder or file of the model's external data, if not next to the model; or a checkpoint "
          "of safetensors, whose tensors replace initializers of the same name"),
      cl::value_desc("folder|file"), cl::location(weights), cl::cat(files));
  cl::opt<std::string, true> weightsMapOption(
      "weights-map",
      cl::desc("With a checkpoint: names of its tensors, {\"initializer\": \"tensor\"} as JSON"),
      cl::value_desc("file"), cl::location(weightsMap), cl::cat(files));
  cl::list<std::string, std::vector<std::string>> fixedOption(
      "fix-input",
      cl::desc("Value of an integer or boolean input, which becomes a constant: "
               "use_cache_branch=1"),
      cl::value_desc("name=value"), cl::location(fixedInputs), cl::cat(files));
  cl::opt<bool, true> digestOption(
      "digest-weights",
      cl::desc("Read all weights, and record a digest of each for the executable's "
               "--verify-weights (default: digests of samples, which every start checks)"),
      cl::location(digestWeights), cl::cat(files));

  cl::OptionCategory partitioning("2. Partitioning");
  cl::opt<std::string, true> shardOption(
      "megatron-shard",
      cl::desc(
          "Ranks per axis, such as tp8,pp4 (default: tp1, one rank); auto: the fastest grid of "
          "--devices on --machine at --shape, printed with its time by cause"),
      cl::value_desc("spec"), cl::location(megatronShard), cl::init("tp1"), cl::cat(partitioning));
  cl::opt<int64_t, true> devicesOption("devices", cl::desc("With auto: number of devices"),
                                       cl::value_desc("number"), cl::location(devices), cl::init(0),
                                       cl::cat(partitioning));
  // cl::desc stores a reference, so the text must outlive the option.
  const std::string machines =
      "With auto or --simulate: the machine, a file that tpc-probe wrote, or a name: " +
      llvm::join(Machine::getNames(), ", ");
  cl::opt<std::string, true> machineOption("machine", cl::desc(machines),
                                           cl::value_desc("file|name"), cl::location(machine),
                                           cl::cat(partitioning));
  cl::opt<int64_t, true> perNodeOption(
      "gpus-per-node", cl::desc("With auto: devices of a node (default: all are in one)"),
      cl::value_desc("number"), cl::location(gpusPerNode), cl::init(0), cl::cat(partitioning));
  cl::opt<std::string, true> goalOption(
      "goal",
      cl::desc(
          "With auto: latency (default), the time of a step; throughput, that time divided by the "
          "copies of the grid that fit on the devices; or cost, that time multiplied by the ranks"),
      cl::value_desc("goal"), cl::location(goal), cl::cat(partitioning));
  cl::opt<std::string, true> memoryOption(
      "memory", cl::desc("With auto: memory that a rank may use (default: the device's)"),
      cl::value_desc("size"), cl::location(memory), cl::cat(partitioning));
  cl::opt<double, true> priceOption(
      "price", cl::desc("With auto: price of a device for one hour (default: the machine's)"),
      cl::value_desc("number"), cl::location(price), cl::init(0), cl::cat(partitioning));
  cl::opt<std::string, true> searchOption(
      "search",
      cl::desc(
          "With auto: maximum number of grids to estimate, the most promising first, or "
          "exhaustive to estimate all (default: until no other grid can be faster; 32 grids for "
          "more than 64 devices)"),
      cl::value_desc("number|exhaustive"), cl::location(search), cl::cat(partitioning));
  cl::opt<std::string, true> linksOption(
      "links",
      cl::desc("Latency and bandwidth within and between nodes, as JSON (default: nodes with "
               "NVLink)"),
      cl::value_desc("file"), cl::location(links), cl::cat(partitioning));
  cl::opt<std::string, true> annotationsOption(
      "annotations",
      cl::desc("Shardings of weights, inputs and values, one 'PATTERN: [-, tp]' per line; they "
               "take precedence over --megatron-shard"),
      cl::value_desc("file"), cl::location(annotations), cl::cat(partitioning));
  cl::opt<std::string, true> configurationOption(
      "device-configuration",
      cl::desc("Device configuration of the ONNX file (IR version 11) to follow "
               "(default: the one with as many devices as there are ranks)"),
      cl::value_desc("name"), cl::location(deviceConfiguration), cl::cat(partitioning));

  cl::opt<std::string, true> overlapOption(
      "overlap",
      cl::desc(
          "Run all-reduces of matmuls in chunks, each while the matmul of the next is computed: "
          "off (default), on (4 chunks), the number of chunks, 2 to 8, or auto: the number with "
          "the lowest estimate for a GPU and --links, none if it gains less than 5%. Results have "
          "the same bits; pays if links are slow"),
      cl::value_desc("chunks"), cl::location(overlap), cl::init("off"), cl::cat(partitioning));
  cl::opt<std::string, true> referenceOption(
      "reference",
      cl::desc("The model that the program must compute: ONNX, or output of --emit=model (default: "
               "the input, unless it is a program that is split already)"),
      cl::value_desc("file"), cl::location(reference), cl::cat(partitioning));
  cl::opt<bool, true> noVerifyOption(
      "no-verify",
      cl::desc("Skip all verifiers: bounds, equivalence, communication, facts, buffers, lowered "
               "programs, generation steps, gradients; the executable reports this"),
      cl::location(noVerify), cl::cat(partitioning));

  cl::OptionCategory reporting("3. Reports and diagnostics");
  cl::opt<std::string, true> certificateOption(
      "certificate",
      cl::desc("Write the proof that ranks cannot deadlock, for tpc-check-certificate; "
               "without -o, nothing else is written"),
      cl::value_desc("file"), cl::location(certificate), cl::cat(reporting));
  cl::opt<std::string, true> routingOption(
      "routing",
      cl::desc(
          "With --report, --simulate or auto: .npy file, [tokens, experts] or [layers, tokens, "
          "experts], in which an element is not 0 if the token selects the expert. The report then "
          "has the bytes that each rank sends"),
      cl::value_desc("file"), cl::location(routing), cl::cat(reporting));
  cl::opt<std::string, true> reportOption(
      "report",
      cl::desc("Write communication and memory at --shape as JSON, and the resources of "
               "GPU kernels (without --shape, only those); without -o, nothing else is written"),
      cl::value_desc("file"), cl::location(report), cl::cat(reporting));
  cl::opt<std::string, true> shapeOption("shape",
                                         cl::desc("Sizes for --report, --explain, --simulate, "
                                                  "--memory-plan and --megatron-shard=auto, such "
                                                  "as batch=2,sequence=128"),
                                         cl::value_desc("name=size,…"), cl::location(shape),
                                         cl::cat(reporting));
  cl::opt<bool, true> explainOption(
      "explain",
      cl::desc("Print what each tactic of --megatron-shard splits, communicates and saves, at "
               "--shape or at nominal sizes; without -o, nothing else is written"),
      cl::location(explain), cl::cat(reporting));
  cl::opt<std::string, true> whyOption(
      "why",
      cl::desc(
          "Print why a value is sharded the way it is: its type, and for each split the tactic "
          "and the ops that propagate it from there. Name an ONNX node, value, weight, input "
          "or output; without -o, nothing else is written"),
      cl::value_desc("name"), cl::location(why), cl::cat(reporting));
  cl::opt<std::string, true> memoryPlanOption(
      "memory-plan",
      cl::desc("Memory of a GPU (80GiB): list the smallest tp and pp with which --shape fits, and "
               "the memory of a rank; other items of --megatron-shard (dp, sp, mb) apply to all. "
               "Nothing is compiled"),
      cl::value_desc("size"), cl::location(memoryPlan), cl::cat(reporting));
  cl::opt<bool, true> simulateOption(
      "simulate",
      cl::desc("Simulate a step at --shape on --machine, and print its seconds by cause and the "
               "memory of a rank. With --report=FILE.html: also write a page with splits, groups, "
               "timeline and memory"),
      cl::location(simulate), cl::cat(reporting));
  cl::opt<std::string, true> traceOption(
      "trace", cl::desc("With --simulate: write the timeline as a trace, for ui.perfetto.dev"),
      cl::value_desc("file"), cl::location(trace), cl::cat(reporting));
  cl::opt<int64_t, true> newTokensOption(
      "max-new-tokens",
      cl::desc("With --simulate and --generate: tokens of a whole generation, after the prompt of "
               "--shape"),
      cl::value_desc("number"), cl::location(newTokens), cl::init(0), cl::cat(reporting));
  cl::list<std::string, std::vector<std::string>> groupsOption(
      "print-groups",
      cl::desc("Print groups of ranks: axes such as tp,dp,tp-dp, axes of experts "
               "such as expert:ep,expert:tp-ep, embedding, position-embedding"),
      cl::value_desc("axes"), cl::CommaSeparated, cl::location(printGroups), cl::cat(reporting));
  cl::opt<bool, true> jsonOption(
      "json", cl::desc("Print groups, explanations, simulations and plans as JSON"),
      cl::location(json), cl::cat(reporting));
  cl::opt<bool, true> timingOption("timing",
                                   cl::desc("Print time and memory of each stage of compilation"),
                                   cl::location(timing), cl::cat(reporting));
  cl::opt<DiagnosticFormat, true> diagnosticsOption(
      "diagnostics", cl::desc("Format of errors and notes on standard error:"),
      cl::location(diagnostics), cl::init(DiagnosticFormat::Text),
      cl::values(clEnumValN(DiagnosticFormat::Text, "text", "plain text (default)"),
                 clEnumValN(DiagnosticFormat::Json, "json",
                            "one JSON object in each line: severity, message, node, file, line, "
                            "notes")),
      cl::cat(reporting));
  cl::opt<int, true> parentOption(
      "end-with",
      cl::desc(
          "Exit when the parent process, which has this id, exits (for libraries that run tpcc)"),
      cl::value_desc("process"), cl::location(parent), cl::init(0), cl::Hidden, cl::cat(reporting));

  cl::HideUnrelatedOptions({&files, &partitioning, &reporting, &cl::getGeneralCategory()});
  cl::extrahelp moreHelp(examples);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << versionText() << "\n"; });
  bool ok = cl::ParseCommandLineOptions(argc, argv, overview, &llvm::errs());
  for (auto *option : std::initializer_list<cl::opt<std::string, true> *>{
           &outputOption,         &targetOption,         &architecturesOption, &precisionOption,
           &residualOption,       &overlapOption,        &quantizeOption,      &nameOption,
           &marchOption,          &weightsOption,        &weightsMapOption,    &shardOption,
           &linksOption,          &annotationsOption,    &configurationOption, &referenceOption,
           &certificateOption,    &reportOption,         &shapeOption,         &memoryPlanOption,
           &traceOption,          &lossOption,           &optimizerOption,     &noDecayOption,
           &expertCapacityOption, &expertDispatchOption, &routingOption})
    ok = ok && checkOnce(*option, option->getValue(), option == &shardOption);
  ok = ok && checkOnce(emitOption, emitOption, false);
  for (auto *option : {&machineOption, &goalOption, &memoryOption, &searchOption})
    ok = ok && checkOnce(*option, option->getValue(), false);
  for (auto *option : {&devicesOption, &perNodeOption, &newTokensOption})
    ok = ok && checkOnce(*option, "1", false);
  for (auto *option : {&priceOption, &smoothingOption, &zLossOption})
    ok = ok && checkOnce(*option, "1", false);
  if (ok && optLevel > 3) {
    llvm::WithColor::error(llvm::errs(), "tpcc")
        << "-O" << optLevel << ": there are levels 0 to 3\n";
    ok = false;
  }
  ok = ok && checkOnce(generateOption, generateOption, /*mayBeEmpty=*/true);
  llvm::StringRef tokens = generateOption.getValue();
  if (generateOption.getNumOccurrences() > 0)
    generate = tokens == "all" ? Generate::All : Generate::Last;
  if (ok && !tokens.empty() && tokens != "all" && tokens != "last") {
    llvm::WithColor::error(llvm::errs(), "tpcc")
        << "--generate=" << printable(tokens)
        << ": logits are those of the last token (--generate, or --generate=last) or of all "
           "(--generate=all)\n";
    ok = false;
  }
  parts.encoders.assign(encoderOption.begin(), encoderOption.end());
  if (imageTokenOption.getNumOccurrences() > 0)
    parts.imageToken = imageTokenOption;
  emitGiven = emitOption.getNumOccurrences() > 0;
  shardGiven = shardOption.getNumOccurrences() > 0;
  gpusPerNodeGiven = perNodeOption.getNumOccurrences() > 0;
  std::string emitText = emitOption;
  gradients |= train;
  // The options above are local variables, so they are unregistered here. The reset writes default
  // values, so the parsed values are saved before.
  TpccOptions parsed = *this;
  cl::ResetCommandLineParser();
  *this = parsed;
  return ok && parseEmit(emitText, *this);
}
