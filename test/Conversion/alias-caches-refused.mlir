// RUN: tpc-opt %s -split-input-file -verify-diagnostics --tpc-alias-caches

!n = tensor<?xi64, #tpc.dist<[b], local>>
!new = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, s, 8], local>>
!k = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8], local>>
!whole = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8]>>
module {
tpc.cache @k0 : !whole
tpc.pipeline @main(%n: !n, %x: !new, %k: !k) inputs [{}, {}, {tpc.cache = @k0}] outputs [{name = "k0", type = !whole, tpc.cache = @k0}] {
  tpc.stage 0 {
    tpc.micro_batches {
      // expected-error @below {{writes cache @k0 in place, but its old value has other uses}}
      %0 = tpc.append %k, %x at %n : !k, !new, !n -> !k
      %1 = tpc.add %0, %k : !k, !k -> !k
      tpc.output 0, %1 : !k
    }
  }
}
}

// -----

!n = tensor<?xi64, #tpc.dist<[b], local>>
!k = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8], local>>
!whole = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8]>>
module {
tpc.cache @k0 : !whole
tpc.pipeline @main(%n: !n, %k: !k) inputs [{}, {tpc.cache = @k0}] outputs [{name = "k0", type = !whole, tpc.cache = @k0}] {
  tpc.stage 0 {
    tpc.micro_batches {
      // expected-error @below {{uses cache @k0, whose old value only tpc.append may use}}
      %0 = tpc.exp %k : !k -> !k
      tpc.output 0, %0 : !k
    }
  }
}
}

// -----

!n = tensor<?xi64, #tpc.dist<[b], local>>
!new = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, s, 8], local>>
!k = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8], local>>
!whole = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8]>>
module {
tpc.cache @k0 : !whole
// expected-error @below {{has an input after a cache or an update, but these must be last}}
tpc.pipeline @main(%n: !n, %k: !k, %x: !new) inputs [{}, {tpc.cache = @k0}, {}] outputs [{name = "k0", type = !whole, tpc.cache = @k0}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = tpc.append %k, %x at %n : !k, !new, !n -> !k
      tpc.output 0, %0 : !k
    }
  }
}
}

// -----

// Head indices must be constants: the heads of a rank's cache must be known at compile time.
!n = tensor<?xi64, #tpc.dist<[b], local>>
!new = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, s, 8], local>>
!k = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>
!held = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8], local>>
!whole = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8]>>
module {
tpc.cache @k0 : !whole
tpc.pipeline @main(%n: !n, %x: !new, %i: tensor<4xi64>, %k: !k) inputs [{}, {}, {}, {tpc.cache = @k0}]
    outputs [{name = "k0", type = !whole, tpc.cache = @k0, tpc.copies = array<i64: 1, 2>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      // expected-error @below {{uses cache @k0, whose old value only tpc.append may use}}
      %0 = tpc.gather %k, %i dim 1 : !k, tensor<4xi64> -> !held
      %1 = tpc.append %0, %x at %n : !held, !new, !n -> !held
      tpc.output 0, %1 : !held
    }
  }
}
}

// -----

// Copies of a head must be adjacent, so that a slice of copies corresponds to a slice of heads.
!n = tensor<?xi64, #tpc.dist<[b], local>>
!new = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, s, 8], local>>
!k = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>
!held = tensor<?x4x?x8xf32, #tpc.dist<[b, 4, c, 8], local>>
!whole = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8]>>
module {
tpc.cache @k0 : !whole
tpc.pipeline @main(%n: !n, %x: !new, %k: !k) inputs [{}, {}, {tpc.cache = @k0}]
    outputs [{name = "k0", type = !whole, tpc.cache = @k0, tpc.copies = array<i64: 1, 2>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = tpc.constant dense<[0, 1, 0, 1]> : tensor<4xi64> : tensor<4xi64>
      // expected-error @below {{uses cache @k0, whose old value only tpc.append may use}}
      %1 = tpc.gather %k, %0 dim 1 : !k, tensor<4xi64> -> !held
      %2 = tpc.append %1, %x at %n : !held, !new, !n -> !held
      tpc.output 0, %2 : !held
    }
  }
}
}
