// RUN: tpc-opt %s --tpc-alias-caches --tpc-outline-kernels | FileCheck %s --check-prefix=OUTLINE
// RUN: tpc-opt %s --tpc-alias-caches --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-verify-buffers > %t
// RUN: FileCheck %s --check-prefix=KERNEL < %t
// RUN: FileCheck %s --check-prefix=PLAN < %t

// A kernel that computes new keys appends them to the cache.
!n = tensor<?xi64, #tpc.dist<[b], local>>
!cos = tensor<?x?x2xf32, #tpc.dist<[b, s, 2], local>>
!byHeads = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, s, 8], local>>
!byTokens = tensor<?x?x2x8xf32, #tpc.dist<[b, s, 2, 8], local>>
!k = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>

// Rows are the new tokens. The cache is not an operand, because the kernel does not read it.
// OUTLINE-LABEL: func.func private @by_heads
// OUTLINE-NEXT: %[[R:.*]] = call @kernel_transpose_rotary_transpose_append(
// OUTLINE-NEXT: return %[[R]]
// PLAN-LABEL: tpc_buffer.func @by_heads_on_buffers
// PLAN-SAME: (%[[N:.*]] = value 0 : {{.*}}, %[[X:.*]] = value 1 : {{.*}}, %[[COS:.*]] = value 2 : {{.*}}, %[[SIN:.*]] = value 3 : {{.*}}, %[[K:.*]] = value 4 becomes 0 : {{.*}}) {
// PLAN-NEXT: tpc_buffer.launch @kernel_transpose_rotary_transpose_append(%[[X]], %[[COS]], %[[SIN]], %[[N]]) to (%[[K]]) rows "_2*b*s" grain
// PLAN-NEXT: }
func.func private @by_heads(%n: !n, %x: !byHeads, %cos: !cos, %sin: !cos, %k: !k) -> !k {
  %0 = tpc.transpose %x [0, 2, 1, 3] : !byHeads -> !byTokens
  %1 = tpc.rotary %0, %cos, %sin : !byTokens, !cos, !cos -> !byTokens
  %2 = tpc.transpose %1 [0, 2, 1, 3] : !byTokens -> !byHeads
  %3 = tpc.append %k, %2 at %n : !k, !byHeads, !n -> !k
  return %3 : !k
}

// The kernel contains the transpose, so no op reads the value by strides.
// OUTLINE-LABEL: func.func private @by_tokens
// OUTLINE-NOT: tpc.aliased
// OUTLINE: call @kernel_{{.*}}append
// PLAN-LABEL: tpc_buffer.func @by_tokens_on_buffers
// PLAN-NOT: tpc_buffer.slot
// PLAN: tpc_buffer.launch @kernel_rotary_transpose_append(
// PLAN-NOT: tpc_buffer.append
func.func private @by_tokens(%n: !n, %x: !byTokens, %cos: !cos, %sin: !cos, %k: !k) -> !k {
  %1 = tpc.rotary %x, %cos, %sin : !byTokens, !cos, !cos -> !byTokens
  %2 = tpc.transpose %1 [0, 2, 1, 3] : !byTokens -> !byHeads
  %3 = tpc.append %k, %2 at %n : !k, !byHeads, !n -> !k
  return %3 : !k
}

// The length and the capacity check are invariant within a row.
// KERNEL-LABEL: tpc_kernel.func @kernel_rotary_transpose_append(
// KERNEL-SAME: %[[KX:[^:]*]]: memref<?x?x?x?xf32> of [b, s, _2, _8], %[[KCOS:[^:]*]]: {{.*}}, %[[KSIN:[^:]*]]: {{.*}}, %[[KN:[^:]*]]: memref<?xi64> of [b]) -> (%[[CACHE:.*]]: memref<?x?x?x?xf32> of [b, _2, c, _8])
// KERNEL: %[[CAPACITY:.*]] = tpc_kernel.size c
// KERNEL: tpc_kernel.rows (%[[B:.*]], %[[H:.*]], %[[S:.*]]) in [b, _2, s] {
// KERNEL-NEXT: %[[L:.*]] = memref.load %[[KN]][%[[B]]]
// KERNEL-NEXT: %[[LI:.*]] = arith.index_cast %[[L]]
// KERNEL-NEXT: %[[AT:.*]] = arith.addi %[[LI]], %[[S]]
// KERNEL-NEXT: %[[ROOM:.*]] = arith.cmpi ult, %[[AT]], %[[CAPACITY]]
// KERNEL-NEXT: tpc_kernel.elements (%[[J:.*]]) in [_8] {
// KERNEL: scf.if %[[ROOM]] {
// KERNEL-NEXT: memref.store %{{.*}}, %[[CACHE]][%[[B]], %[[H]], %[[AT]], %[[J]]]
// KERNEL-NEXT: }
// KERNEL-NEXT: }
// KERNEL-NEXT: }

// Unchanged: no kernel computes the appended value, so tpc.append copies it, by strides.
// OUTLINE-LABEL: func.func private @copied
// OUTLINE-NEXT: tpc.transpose {{.*}} {tpc.aliased}
// OUTLINE-NEXT: tpc.append
func.func private @copied(%n: !n, %x: !byTokens, %k: !k) -> !k {
  %2 = tpc.transpose %x [0, 2, 1, 3] : !byTokens -> !byHeads
  %3 = tpc.append %k, %2 at %n : !k, !byHeads, !n -> !k
  return %3 : !k
}

// Unchanged: a reshape, which is no work, is between kernel and append. The kernel's rows are not
// those of the appended value.
// OUTLINE-LABEL: func.func private @of_another_form
// OUTLINE-NEXT: call @kernel_layer_norm
// OUTLINE-NEXT: tpc.reshape
// OUTLINE-NEXT: tpc.append
!flat = tensor<?x?x16xf32, #tpc.dist<[b, s, 16], local>>
!w = tensor<16xf32>
!one = tensor<?x1x?x16xf32, #tpc.dist<[b, 1, s, 16], local>>
!k1 = tensor<?x1x?x16xf32, #tpc.dist<[b, 1, c, 16], local>>
func.func private @of_another_form(%n: !n, %x: !flat, %w: !w, %k: !k1) -> !k1 {
  %0 = tpc.layer_norm %x, %w epsilon 1.0e-5 : !flat, !w -> !flat
  %1 = tpc.reshape %0 : !flat -> !one
  %2 = tpc.append %k, %1 at %n : !k1, !one, !n -> !k1
  return %2 : !k1
}

// The appended value has other users, so it is stored twice. Later ops on the cache are not part of
// the kernel.
// OUTLINE-LABEL: func.func private @used
// OUTLINE-NEXT: %[[U:.*]]:2 = call @kernel_add_append(
// OUTLINE-NEXT: %[[E:.*]] = call @kernel_exp(%[[U]]#1)
// OUTLINE-NEXT: return %[[U]]#0, %[[E]], %[[U]]#1
// PLAN-LABEL: tpc_buffer.func @used_on_buffers
// PLAN: tpc_buffer.launch @kernel_add_append(%{{[^,]*}}, %[[UN:[^,]*]]) to (%{{.*}}, %[[UK:.*]]) rows
// PLAN: tpc_buffer.launch @kernel_exp(%[[UK]])
func.func private @used(%n: !n, %x: !byHeads, %k: !k) -> (!byHeads, !k, !k) {
  %0 = tpc.add %x, %x : !byHeads, !byHeads -> !byHeads
  %1 = tpc.append %k, %0 at %n : !k, !byHeads, !n -> !k
  %2 = tpc.exp %1 : !k -> !k
  return %0, %2, %1 : !byHeads, !k, !k
}

// A row of the kernel is all tokens of a head, because the softmax is over tokens. Each token is
// written to its own position. Earlier cache contents are not written.
// PLAN-LABEL: tpc_buffer.func @over_tokens_on_buffers
// PLAN: tpc_buffer.launch @kernel_softmax_append({{.*}}) to ({{.*}}) rows "_2*b" grain "floordiv(8192, max(1, _8*s)) + 1"
// KERNEL-LABEL: tpc_kernel.func @kernel_softmax_append(
// KERNEL: tpc_kernel.rows (%[[B:.*]], %[[H:.*]]) in [b, _2] {
// KERNEL: tpc_kernel.elements (%[[S:.*]], %[[J:.*]]) in [s, _8] {
// KERNEL: %[[AT:.*]] = arith.addi %{{.*}}, %[[S]] : index
// KERNEL: scf.if
// KERNEL-NEXT: memref.store %{{.*}}, %{{.*}}[%[[B]], %[[H]], %[[AT]], %[[J]]]
func.func private @over_tokens(%n: !n, %x: !byHeads, %k: !k) -> !k {
  %0 = tpc.softmax %x dim 2 : !byHeads -> !byHeads
  %1 = tpc.append %k, %0 at %n : !k, !byHeads, !n -> !k
  return %1 : !k
}

// If no kernel contains the append, it is a runtime call. The call needs the appended value and the
// lengths in memory, even if a kernel could recompute them.
// PLAN-LABEL: tpc_buffer.func @generated_on_buffers
// PLAN: tpc_buffer.launch @kernel_iota{{[_0-9]*}}() to (%[[NEW:.*]]) rows
// PLAN: tpc_buffer.append %[[NEW]] at %
func.func private @generated(%n: !n, %k: !k) -> !k {
  %0 = tpc.iota dim 3 : !byHeads
  %1 = tpc.append %k, %0 at %n : !k, !byHeads, !n -> !k
  return %1 : !k
}
// PLAN-LABEL: tpc_buffer.func @generated_lengths_on_buffers
// PLAN: tpc_buffer.launch @kernel_iota{{[_0-9]*}}() to (%[[LENGTHS:.*]]) rows b
// PLAN: tpc_buffer.append %{{.*}} at %[[LENGTHS]] to
func.func private @generated_lengths(%x: !byHeads, %k: !k) -> !k {
  %m = tpc.iota dim 0 : !n
  %0 = tpc.softmax %x dim 1 : !byHeads -> !byHeads
  %1 = tpc.append %k, %0 at %m : !k, !byHeads, !n -> !k
  return %1 : !k
}

// Unchanged: another user still reads the old value.
// OUTLINE-LABEL: func.func private @old_value
// OUTLINE: tpc.append
func.func private @old_value(%n: !n, %x: !byHeads, %k: !k) -> (!k, !k) {
  %0 = tpc.add %x, %x : !byHeads, !byHeads -> !byHeads
  %1 = tpc.append %k, %0 at %n : !k, !byHeads, !n -> !k
  %2 = tpc.exp %k : !k -> !k
  return %1, %2 : !k, !k
}

!wholeIds = tensor<?xi64, #tpc.dist<[b]>>
!whole = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8]>>
!wholeNew = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, s, 8]>>
tpc.cache @k0 : !whole
tpc.cache @k1 : !whole
tpc.cache @k2 : !whole
tpc.cache @k3 : !whole
tpc.cache @k4 : !whole
tpc.cache @k5 : !whole
tpc.pipeline @main(%n: !n, %h: !byHeads, %t: !byTokens, %cos: !cos, %sin: !cos, %k0: !k, %k1: !k, %k2: !k, %k3: !k, %k4: !k, %k5: !k)
    inputs [{}, {}, {}, {}, {}, {tpc.cache = @k0}, {tpc.cache = @k1}, {tpc.cache = @k2}, {tpc.cache = @k3}, {tpc.cache = @k4}, {tpc.cache = @k5}]
    outputs [{name = "x", type = !wholeNew}, {name = "e", type = !whole}, {name = "k0", type = !whole, tpc.cache = @k0},
             {name = "k1", type = !whole, tpc.cache = @k1}, {name = "k2", type = !whole, tpc.cache = @k2},
             {name = "k3", type = !whole, tpc.cache = @k3},
             {name = "k4", type = !whole, tpc.cache = @k4}, {name = "k5", type = !whole, tpc.cache = @k5}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @by_heads(%n, %h, %cos, %sin, %k0) : (!n, !byHeads, !cos, !cos, !k) -> !k
      %1 = func.call @by_tokens(%n, %t, %cos, %sin, %k1) : (!n, !byTokens, !cos, !cos, !k) -> !k
      %2:3 = func.call @used(%n, %h, %k2) : (!n, !byHeads, !k) -> (!byHeads, !k, !k)
      tpc.output 0, %2#0 : !byHeads
      tpc.output 1, %2#1 : !k
      tpc.output 2, %0 : !k
      tpc.output 3, %1 : !k
      tpc.output 4, %2#2 : !k
      %3 = func.call @over_tokens(%n, %h, %k3) : (!n, !byHeads, !k) -> !k
      tpc.output 5, %3 : !k
      %4 = func.call @generated(%n, %k4) : (!n, !k) -> !k
      tpc.output 6, %4 : !k
      %5 = func.call @generated_lengths(%h, %k5) : (!byHeads, !k) -> !k
      tpc.output 7, %5 : !k
    }
  }
}