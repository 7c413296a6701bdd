// The first program is the model in Inputs/verify-model.mlir with its bias added after the
// reduction. The proof and the randomized check accept it. For other programs, the error names the
// first op that differs.
// RUN: tpc-opt %s -split-input-file -verify-diagnostics=only-expected --tpc-verify-equivalence=reference=%S/Inputs/verify-model.mlir

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    // expected-error @+1 {{(tpc.gelu) does not compute what the model computes: this is tpc.gelu, whose 'approximate' is 1 : i32, the model's is 0 : i32}}
    %1 = tpc.gelu tanh %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    // expected-error @+1 {{(tpc.relu) does not compute what the model computes: this is tpc.relu : tensor<?x5xf32}}
    %1 = tpc.relu %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %5 = tpc.add %b2, %b2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    // expected-error @+1 {{is added once too often}}
    %4 = tpc.add %5, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 20 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    // expected-error @+1 {{this is weight @w1 view [0, array<i64: 4, 5>, array<i64: 5, 1>] in ["w", 20, tensor<4x5xf32>] : tensor<4x5xf32>, the model has weight @w1 view [0, array<i64: 4, 5>, array<i64: 5, 1>] in ["w", 0, tensor<4x5xf32>]}}
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <2 * batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2 * batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        // expected-error @+1 {{splits a dimension of output 0 over 'dp' in another way than the loop splits}}
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        // expected-error @+1 {{delivers a micro-batch's part of output 0, but the loop around it has one iteration}}
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      // expected-error @+1 {{has one iteration, but a loop before it iterates over the parts of #tpc.dim<}}
      tpc.micro_batches {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        // expected-error @+1 {{waits for a value that stage 0 never sends}}
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        // expected-error @+2 {{sends a value that stage 1 never receives}}
        tpc.send %0 to 1 : !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        // expected-note @+1 {{delivered here before}}
        tpc.output 0, %1 : !mb
        // expected-error @+1 {{delivers output 0 again}}
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  // expected-error @+1 {{does not deliver output 0}}
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    // expected-error @+2 {{is outside of tpc.micro_batches}}
    tpc.stage 1 {
      %z = tpc.recv from 0 : tensor<4xi64>
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
// expected-error @+1 {{the program has 2 inputs, but the model 1}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x, %z: !x) inputs [{tpc.name = "x"}, {tpc.name = "z"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
// expected-error @+1 {{input 0 of the program has the 'tpc.name' "z", but the model's has the 'tpc.name' "x"}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "z"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        // expected-note @+1 {{sent here}}
        tpc.send %x to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        // expected-error @+1 {{receives 'tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>' as the next value from stage 0, which sends}}
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        tpc.output 0, %1 : !mb
      }
    }
  }
}

// -----

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !mb {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    return %4 : !mb
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !mb
        // expected-error @+1 {{delivers 'tensor<?x5xf32, #tpc.dist<[batch, 5]>>' as output 0, which is 'tensor<?x4xf32, #tpc.dist<[batch, 4]>>'}}
        tpc.output 0, %0 : !h
      }
    }
  }
}

// -----

// The samples of a micro-batch may be split further. An empty micro-batch has no shards.
!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!out = tensor<?x4xf32, #tpc.dist<[batch{dp, mb, tp}, 4], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  tpc.weight @b1 in "w" at 80 : tensor<5xf32>
  tpc.weight @w2 in "w" at 100 : tensor<5x4xf32>
  tpc.weight @b2 in "w" at 180 : tensor<4xf32>
  func.func private @stage_0(%x: !x) -> !h {
    %w1 = tpc.parameter @w1 : !w1
    %b1 = tpc.parameter @b1 : !b1
    %part = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    %0 = tpc.matmul %part, %w1 bias %b1 : !mb, !w1 bias !b1 -> !h
    return %0 : !h
  }
  func.func private @stage_1(%0: !h) -> !out {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.reduce_scatter %2 over ["tp"] dim 0 : !sum -> !out
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !out -> !out
    return %4 : !out
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !out
        tpc.output 0, %1 : !out
      }
    }
  }
}
