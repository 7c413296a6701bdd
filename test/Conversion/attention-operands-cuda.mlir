// RUN: tpc-opt %s --tpc-alias-caches --tpc-outline-kernels | FileCheck %s
// RUN: tpc-opt %s --tpc-alias-caches --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-verify-buffers \
// RUN:   | FileCheck %s --check-prefix=PLAN

// GPUs: one kernel computes queries and keys, and appends keys and values.

!n = tensor<?xi64, #tpc.dist<[b], local>>
!cos = tensor<?x?x2xf32, #tpc.dist<[b, s, 2], local>>
!q = tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8], local>>
!byTokens = tensor<?x?x2x8xf32, #tpc.dist<[b, s, 2, 8], local>>
!byHeads = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, s, 8], local>>
!cache = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>
!cached = tensor<?x?x2x8xf32, #tpc.dist<[b, c, 2, 8], local>>
!scale = tensor<8xf32>
!whole = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8]>>
!wholeQ = tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>
module attributes {tpc.target = "cuda"} {
tpc.cache @k0 : !whole
tpc.cache @v0 : !whole
tpc.cache @k1 : !whole
tpc.cache @v1 : !whole
tpc.weight @scale in "/w.bin" at 0 : !scale

// The kernel's rows are sequences, because queries have more heads than keys.
// CHECK-LABEL: func.func private @rotary(
// CHECK-NEXT: %[[R:.*]]:3 = call @kernel_append_transpose_append_rotary(
// CHECK: %[[A:.*]] = tpc.attention causal %[[R]]#{{[0-2]}},
// CHECK: return %[[A]], %[[R]]#{{[0-2]}}, %[[R]]#{{[0-2]}} :
// PLAN-LABEL: tpc_buffer.func @rotary_on_buffers
// PLAN-SAME: %[[K:[^ ]*]] = value 4 becomes 1
// PLAN-SAME: %[[V:[^ ]*]] = value 6 becomes 2
// PLAN: tpc_buffer.launch @kernel_append_transpose_append_rotary({{.*}}) to (%[[K]], %[[V]], %{{[^,]*}}) rows b grain
// PLAN-NEXT: tpc_buffer.attention
// PLAN-NEXT: tpc_buffer.pop
func.func private @rotary(%n: !n, %cos: !cos, %sin: !cos, %x: !byTokens, %k: !cache, %y: !byTokens, %v: !cache, %q: !q)
    -> (!q, !cache, !cache) {
  %0 = tpc.rotary %x, %cos, %sin : !byTokens, !cos, !cos -> !byTokens
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !byTokens -> !byHeads
  %2 = tpc.append %k, %1 at %n : !cache, !byHeads, !n -> !cache
  %3 = tpc.transpose %y [0, 2, 1, 3] : !byTokens -> !byHeads
  %4 = tpc.append %v, %3 at %n : !cache, !byHeads, !n -> !cache
  %5 = tpc.transpose %2 [0, 2, 1, 3] : !cache -> !cached
  %6 = tpc.transpose %4 [0, 2, 1, 3] : !cache -> !cached
  %7 = tpc.rotary %q, %cos, %sin : !q, !cos, !cos -> !q
  %8 = tpc.attention causal %7, %5, %6 lengths %n scale 0.5 : !q, !cached, !cached lengths !n -> !q
  return %8, %2, %4 : !q, !cache, !cache
}

// Keys and values have the same rows, so norms of keys are computed row by row. Unchanged: norms of
// queries, which have other rows.
// CHECK-LABEL: func.func private @norms(
// CHECK-DAG: %[[N:.*]]:2 = call @kernel_{{.*}}append(
// CHECK-DAG: %[[Q:.*]] = call @kernel_rms_norm{{[_0-9]*}}(
// CHECK: tpc.attention causal %[[Q]],
// CHECK: return %{{.*}}, %[[N]]#0, %[[N]]#1 :
// PLAN-LABEL: tpc_buffer.func @norms_on_buffers
// PLAN-DAG: tpc_buffer.launch @kernel_{{.*}}append({{.*}}) to (%{{[^,]*}}, %{{[^,]*}}) rows "_2*b*s" grain
// PLAN-DAG: tpc_buffer.launch @kernel_rms_norm{{[_0-9]*}}({{.*}}) to (%{{[^,]*}}) rows "_4*b*s" grain
func.func private @norms(%n: !n, %w: !scale, %x: !byTokens, %k: !cache, %y: !byTokens, %v: !cache, %q: !q)
    -> (!q, !cache, !cache) {
  %0 = tpc.transpose %x [0, 2, 1, 3] : !byTokens -> !byHeads
  %1 = tpc.rms_norm %0, %w epsilon 1.0e-5 : !byHeads, !scale -> !byHeads
  %2 = tpc.append %k, %1 at %n : !cache, !byHeads, !n -> !cache
  %3 = tpc.transpose %y [0, 2, 1, 3] : !byTokens -> !byHeads
  %4 = tpc.append %v, %3 at %n : !cache, !byHeads, !n -> !cache
  %5 = tpc.transpose %2 [0, 2, 1, 3] : !cache -> !cached
  %6 = tpc.transpose %4 [0, 2, 1, 3] : !cache -> !cached
  %7 = tpc.rms_norm %q, %w epsilon 1.0e-5 : !q, !scale -> !q
  %8 = tpc.attention causal %7, %5, %6 lengths %n scale 0.5 : !q, !cached, !cached lengths !n -> !q
  return %8, %2, %4 : !q, !cache, !cache
}

// Unchanged: values depend on the keys in the cache.
// CHECK-LABEL: func.func private @dependent(
// CHECK: %[[D:.*]] = call @kernel_transpose_append{{[_0-9]*}}(
// CHECK: call @kernel_{{.*}}append{{[_0-9]*}}({{.*}}%[[D]]
func.func private @dependent(%n: !n, %x: !byTokens, %k: !cache, %v: !cache, %q: !q) -> !q {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !byTokens -> !byHeads
  %2 = tpc.append %k, %1 at %n : !cache, !byHeads, !n -> !cache
  %s = tpc.slice %2 dim 2 from 0 : !cache -> !byHeads
  %3 = tpc.add %s, %s : !byHeads, !byHeads -> !byHeads
  %4 = tpc.append %v, %3 at %n : !cache, !byHeads, !n -> !cache
  %5 = tpc.transpose %2 [0, 2, 1, 3] : !cache -> !cached
  %6 = tpc.transpose %4 [0, 2, 1, 3] : !cache -> !cached
  %8 = tpc.attention causal %q, %5, %6 lengths %n scale 0.5 : !q, !cached, !cached lengths !n -> !q
  return %8 : !q
}

// Unchanged: a value without a transpose is appended by the runtime.
// CHECK-LABEL: func.func private @as_it_is(
// CHECK-NEXT: tpc.append
// CHECK-NEXT: return
func.func private @as_it_is(%n: !n, %x: !byHeads, %k: !cache) -> !cache {
  %0 = tpc.append %k, %x at %n : !cache, !byHeads, !n -> !cache
  return %0 : !cache
}

tpc.pipeline @main(%n: !n, %cos: !cos, %sin: !cos, %x: !byTokens, %y: !byTokens, %q: !q, %k0: !cache, %v0: !cache,
                   %k1: !cache, %v1: !cache)
    inputs [{}, {}, {}, {}, {}, {}, {tpc.cache = @k0}, {tpc.cache = @v0}, {tpc.cache = @k1}, {tpc.cache = @v1}]
    outputs [{name = "a", type = !wholeQ}, {name = "b", type = !wholeQ}, {name = "k0", type = !whole, tpc.cache = @k0},
             {name = "v0", type = !whole, tpc.cache = @v0}, {name = "k1", type = !whole, tpc.cache = @k1},
             {name = "v1", type = !whole, tpc.cache = @v1}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %w = tpc.parameter @scale : !scale
      %0:3 = func.call @rotary(%n, %cos, %sin, %x, %k0, %y, %v0, %q)
          : (!n, !cos, !cos, !byTokens, !cache, !byTokens, !cache, !q) -> (!q, !cache, !cache)
      %1:3 = func.call @norms(%n, %w, %x, %k1, %y, %v1, %q)
          : (!n, !scale, !byTokens, !cache, !byTokens, !cache, !q) -> (!q, !cache, !cache)
      tpc.output 0, %0#0 : !q
      tpc.output 1, %1#0 : !q
      tpc.output 2, %0#1 : !cache
      tpc.output 3, %0#2 : !cache
      tpc.output 4, %1#1 : !cache
      tpc.output 5, %1#2 : !cache
    }
  }
}
}
