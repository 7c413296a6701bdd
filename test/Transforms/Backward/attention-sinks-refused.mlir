// RUN: tpc-opt %s --verify-diagnostics --tpc-derive-backward

!q = tensor<2x3x2x4xf32>

module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x4xf32>
  tpc.weight @s in "w.bin" at 64 : tensor<2xf32>
  func.func @main(%x: !q) -> tensor<6x8xf32> {
    %w = tpc.parameter @w : tensor<4x4xf32>
    %s = tpc.parameter @s : tensor<2xf32>
    %q = tpc.matmul %x, %w : !q, tensor<4x4xf32> -> !q
    // expected-error @unknown {{'node' (tpc.attention) has no gradient with sinks}}
    %y = tpc.attention causal %q, %x, %x sinks %s scale 1.0 : !q, !q, !q sinks tensor<2xf32> -> !q loc("node")
    %z = tpc.reshape %y : !q -> tensor<6x8xf32>
    return %z : tensor<6x8xf32>
  }
}
