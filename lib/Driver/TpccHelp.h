//===- TpccHelp.h - Texts of tpcc's help ------------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_TPCCHELP_H
#define TPC_LIB_DRIVER_TPCCHELP_H

namespace tpc {

/// First line of the help.
inline constexpr char overview[] =
    "tpcc: compiles an ONNX transformer, split over ranks, to one executable\n";

/// End of the help: examples, levels, and the syntax of --megatron-shard and --links.
inline constexpr char examples[] = R"(
EXAMPLES:

  Compile for two-way tensor and two-way pipeline parallelism, and run the four ranks as threads:
    tpcc gpt2.onnx --megatron-shard=tp2,pp2 -o gpt2
    ./gpt2 --input input_ids=ids.npy --output logits=logits.npy
  The same executable as four processes:
    mpirun -n 4 ./gpt2 --input input_ids=ids.npy --output logits=logits.npy

  Report the communication and memory of 32 ranks:
    tpcc gpt2.onnx --megatron-shard=tp8,pp4,sp,mb8 --report=r.json --shape batch=8,sequence=128

  Print the program at a level (global, distributed, one rank's, staged):
    tpcc gpt2.onnx --megatron-shard=tp2 --emit=sharded

  Edit the program of a level, compile it, and prove that it still computes the model:
    tpcc gpt2.onnx --megatron-shard=tp2 --emit=staged -o gpt2.mlir
    tpcc gpt2.mlir --reference=gpt2.onnx -o gpt2

  Compile for GPUs; print only the kernels; report the resources of each kernel:
    tpcc gpt2.onnx --megatron-shard=tp2 --target=cuda -o gpt2
    tpcc gpt2.onnx --megatron-shard=tp2 --target=cuda --emit=ptx -o gpt2.ptx
    tpcc gpt2.onnx --megatron-shard=tp2 --target=cuda --gpu-arch=sm_90 --report=r.json --shape batch=1,sequence=128

  Generate tokens: caches stay in memory, split like the heads, and tokens are streamed:
    tpcc gpt2.onnx --megatron-shard=tp2,pp2 --generate -o gpt2
    ./gpt2 --prompt-ids 12,7,99 --max-new-tokens 64

  Find the number of 80 GiB GPUs and the split over them:
    tpcc llama.onnx --memory-plan=80GiB --shape batch=8,sequence=4096

  Choose the grid for eight GPUs, and compile for it:
    tpcc llama.onnx --megatron-shard=auto --devices=8 --machine=h100-sxm --shape batch=8,sequence=4096 -o llama

  Simulate a step of 32 GPUs, and write its timeline and a page about it:
    tpcc llama.onnx --megatron-shard=tp8,pp4,mb8 --simulate --machine=h100-sxm --trace=t.json --report=r.html --shape batch=8,sequence=4096

  Explain what each tactic does, and why one value is split the way it is:
    tpcc gpt2.onnx --megatron-shard=tp2,sp --explain --why=/h.0/mlp/c_fc/Gemm

  Print the groups of ranks that communicate:
    tpcc --print-groups=tp,dp,tp-dp --megatron-shard=tp2,pp2,dp2,order=tp-dp-pp --json

LEVELS (--emit), in order; programs of levels up to staged are valid inputs, like models
  import   the program as in the file
  model    attention, norms and activations raised; the repeated layer is one function
  sharded  a distribution on every value
  spmd     one rank's view: local shapes, explicit collectives
  staged   pipeline stages, transfers, the schedule
  kernels  generated kernels: loops over rows and elements, for any device
  buffers  runtime calls on planned memory, next to the tensor program
  ptx      with --target=cuda: all kernels as one PTX text
  llvm     LLVM IR
  obj      an object file that defines tpc_program_v7
  lib      a shared library for C (tpc/session.h) and Python (tpc.load), which take executables as well
  exe      the executable
  onnx-sharded   the input ONNX file, with shardings and stages as ONNX's multi-device fields

PARTITIONING (--megatron-shard): items separated by commas, each at most once
  tpN     tensor parallelism: heads, ffn width and vocabulary over N ranks
  tpNxM   as tpM, with the other dimension of each matrix split over N: N*M ranks
  ppN     pipeline parallelism: layers over N stages
  dpN     data parallelism: the batch over N replicas
  sp      sequence parallelism: splits over tokens the values that tensor parallelism replicates
  mbN     N micro-batches in flight through the pipeline
  vppN    N chunks of the model on each rank of pp
  order=  axes by stride, the smallest first; default tp-cp-ep-dp-pp
  gpus-per-node=N   N consecutive ranks share a node; tp between nodes causes a warning
  manual  only --annotations determine what tp and dp split; the items define the grid
  allow-reshard   permits communication that no tactic expects
  epN     expert parallelism: experts over N ranks; with etp1, no expert is split over tp
  cpN     context parallelism: for --print-groups only

LINKS (--links): {"intra_node": {"alpha": 5e-6, "beta": 2.2e-12}, "inter_node": {…}, "axes": {"dp": {…}}}
  a message of b bytes takes alpha + beta * b seconds
)";

} // namespace tpc

#endif // TPC_LIB_DRIVER_TPCCHELP_H
