// The randomized check alone: both programs run at small sizes. The dialect's verifier is disabled,
// because it rejects most of these programs.
// RUN: tpc-opt %s --mlir-very-unsafe-disable-verifier-on-parsing --verify-each=0 -split-input-file -verify-diagnostics=only-expected "--tpc-verify-equivalence=reference=%S/Inputs/verify-model.mlir symbolic=false"

!x = tensor<?x4xf32, #tpc.dist<[batch, 4], local>>
!mb = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], local>>
!h = tensor<?x?xf32, #tpc.dist<[batch{dp, mb}, 5{tp}], local>>
!sum = tensor<?x4xf32, #tpc.dist<[batch{dp, mb}, 4], sum{tp}, local>>
!w1 = tensor<4x?xf32, #tpc.dist<[4, 5{tp}], local>>
!b1 = tensor<?xf32, #tpc.dist<[5{tp}], local>>
!w2 = tensor<?x4xf32, #tpc.dist<[5{tp}, 4], local>>
!y = tensor<?x4xf32, #tpc.dist<[batch, 4]>>
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
        // expected-error @+1 {{run at small sizes, element [0, 0] of output 0 is not what the model computes}}
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
        // expected-error @+1 {{of output 0 is not delivered by any rank}}
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !mb
    %3 = tpc.cast %2 : !mb -> !mb
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
        // expected-error @+1 {{the rank at dp=0, mb=0, pp=1, tp=1 has another element [0, 0] of output 0 than a rank before it}}
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
        // expected-error @+1 {{the rank at dp=0, mb=0, pp=1, tp=0 waits for a message that no rank sent}}
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
  // expected-error @+1 {{is never received}}
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !y}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
        tpc.send %0 to 0 : !h
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
        // expected-error @+1 {{the rank at dp=0, mb=0, pp=1, tp=0 gets another shape than its type 'tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>' declares}}
        %0 = tpc.recv from 0 : !one
        tpc.output 0, %0 : !one
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
        // expected-error @+1 {{there is no output 3 of this shape}}
        tpc.output 3, %1 : !mb
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
    // expected-error @+1 {{the rank at dp=0, mb=0, pp=1, tp=0 would wait for the rank at dp=0, mb=0, pp=0, tp=0, which does not take part}}
    %3 = tpc.all_reduce %2 over ["pp"] : !sum -> !mb
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
    // expected-error @+1 {{it takes a value that is not computed before}}
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
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
  func.func private @stage_1(%0: !h) -> !one {
    %w2 = tpc.parameter @w2 : !w2
    %b2 = tpc.parameter @b2 : tensor<4xf32>
    %1 = tpc.gelu none %0 : !h -> !h
    %2 = tpc.matmul %1, %w2 : !h, !w2 -> !sum
    %3 = tpc.all_reduce %2 over ["tp"] : !sum -> !mb
    %4 = tpc.add %b2, %3 : tensor<4xf32>, !mb -> !mb
    %5 = tpc.slice %4 dim 1 from 0 : !mb -> !one
    return %5 : !one
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?x1xf32, #tpc.dist<[batch, 1]>>}] {
    tpc.stage 0 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = func.call @stage_0(%x) : (!x) -> !h
        tpc.send %0 to 1 : !h
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <batch{dp, mb}> {
        %0 = tpc.recv from 0 : !h
        %1 = func.call @stage_1(%0) : (!h) -> !one
        // expected-error @+1 {{output 0 has another shape than the model's}}
        tpc.output 0, %1 : !one
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
// expected-error @+1 {{the program has 0 outputs, the model 1}}
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
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [] {
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    %0 = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    // expected-error @+1 {{the rank at dp=0, tp=0 lacks element}}
    %1 = tpc.local_slice %0 over ["tp"] dim 1 : !mb -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  func.func @main(%x: !x) {
    %w = tpc.parameter @w1 : !w1
    // expected-error @+1 {{add values of different shapes}}
    %0 = tpc.all_reduce %w over ["tp"] : !w1 -> !w1
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{its root 5 is outside of a group of 2}}
    %0 = tpc.broadcast %x over ["tp"] root 5 : !x -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    %0 = tpc.local_slice %x over ["dp", "mb"] dim 0 : !x -> !mb
    // expected-error @+1 {{no rank has the elements that the rank at dp=0, tp=0 needs}}
    %1 = tpc.all_gather %0 over ["tp"] dim 0 : !mb -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{@nothing cannot be called}}
    "func.call"(%x) {callee = @nothing} : (!x) -> ()
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{(arith.negf) cannot be run at small sizes: the verifier has no size constraints for this op}}
    %0 = arith.negf %x : !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @w1 in "w" at 0 : tensor<4x5xf32>
  func.func @main(%x: !x) {
    %w = tpc.parameter @w1 : !w1
    // expected-error @+1 {{the shapes of the operands do not match on a rank}}
    %0 = tpc.add %x, %w : !x, !w1 -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @w1 in "w" at 0 : tensor<2x3xf32>
  func.func @main(%x: !x) {
    %w = tpc.parameter @w1 : tensor<2x3xf32>
    // expected-error @+1 {{the matmul operands on a rank do not match}}
    %0 = tpc.matmul %w, %w : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{there is no weight @w1}}
    %w = tpc.parameter @w1 : tensor<2x3xf32>
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @b in "w" at 0 : tensor<2xf32>
  func.func @main(%x: !x) {
    %w = tpc.parameter @b : tensor<2xf32>
    // expected-error @+1 {{elements, but its scale or bias has another number}}
    %0 = tpc.rms_norm %x, %w epsilon 1.0e-5 : !x, tensor<2xf32> -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{elements for another shape}}
    %0 = tpc.reshape %x : !x -> tensor<?xf32, #tpc.dist<[batch], local>>
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{these sizes are not possible}}
    %0 = tpc.slice %x dim 1 from 3 : !x -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{the shapes of the operands do not match on a rank}}
    %0 = tpc.concat %x, %x dim 1 : !x, !x -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  func.func @main(%x: !x) {
    // expected-error @+1 {{the result's shape on a rank is not that of the reduced operand}}
    %0 = tpc.reduce sum %x [1] : !x -> !x
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @w1 in "w" at 0 : tensor<2x3xf32>
  func.func @main(%x: !x) {
    %w = tpc.parameter @w1 : tensor<2x3xf32>
    %i = tpc.iota dim 0 : tensor<3xi64>
    // expected-error @+1 {{the ids on a rank do not match the result}}
    %0 = tpc.embedding %w, %i : tensor<2x3xf32>, tensor<3xi64> -> tensor<2x3xf32>
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @w1 in "w" at 0 : tensor<2x3xf32>
  func.func @main(%x: !x) {
    %w = tpc.parameter @w1 : tensor<2x3xf32>
    %i = tpc.iota dim 0 : tensor<3xi64>
    // expected-error @+1 {{the shapes of the operands do not match on a rank}}
    %0 = tpc.gather %w, %i dim 0 : tensor<2x3xf32>, tensor<3xi64> -> tensor<2x3xf32>
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @w1 in "w" at 0 : tensor<2x3xf32>
  func.func @main(%x: !x) {
    %w = tpc.parameter @w1 : tensor<2x3xf32>
    %i = tpc.iota dim 0 : tensor<3x1xi64>
    // expected-error @+1 {{the shapes of the operands do not match on a rank}}
    %0 = tpc.gather_nd %w, %i : tensor<2x3xf32>, tensor<3x1xi64> -> tensor<2x3xf32>
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @q in "w" at 0 : tensor<1x3x2x2xf32>
  tpc.weight @k in "w" at 0 : tensor<1x3x3x2xf32>
  func.func @main(%x: !x) {
    %q = tpc.parameter @q : tensor<1x3x2x2xf32>
    %k = tpc.parameter @k : tensor<1x3x3x2xf32>
    // expected-error @+1 {{the shapes of the operands do not match on a rank}}
    %0 = tpc.attention %q, %k, %k scale 1.0 : tensor<1x3x2x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32> -> tensor<1x3x2x2xf32>
    return
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
!one = tensor<?x1xf32, #tpc.dist<[batch{dp, mb}, 1], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1>} {
  tpc.weight @q in "w" at 0 : tensor<1x3x2x2xf32>
  tpc.weight @k in "w" at 0 : tensor<1x2x1xf32>
  func.func @main(%x: !x) {
    %q = tpc.parameter @q : tensor<1x3x2x2xf32>
    %k = tpc.parameter @k : tensor<1x2x1xf32>
    // expected-error @+1 {{the shapes of the tables do not match the operand on a rank}}
    %0 = tpc.rotary %q, %k, %k : tensor<1x3x2x2xf32>, tensor<1x2x1xf32>, tensor<1x2x1xf32> -> tensor<1x3x2x2xf32>
    return
  }
}

// -----

// expected-error @+1 {{there is no function @main to run}}
module {
}

// -----

// Types that contradict the values: a rank's elements are not those of its type.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func @main() {
    %x = tpc.constant dense<1.0> : tensor<2x4xf32> : tensor<2x4xf32>
    // expected-error @+1 {{it reads outside of the slice that a rank has}}
    %0 = tpc.expand %x : tensor<2x4xf32> -> tensor<3x4xf32>
    return
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func @main() {
    %x = tpc.constant dense<1.0> : tensor<2x4xf32> : tensor<2x4xf32>
    // expected-error @+1 {{the only rank computes another shape than its type 'tensor<3x4xf32>' declares}}
    %0 = tpc.softmax %x dim 1 : tensor<2x4xf32> -> tensor<3x4xf32>
    return
  }
}

// -----

!wide = tensor<3x4xf32>
!part = tensor<?x4xf32, #tpc.dist<[3{tp}, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @f(%x: !wide) {
    // expected-error @+1 {{the rank at tp=0 has another shape than its type declares}}
    %0 = tpc.local_slice %x over ["tp"] dim 0 : !wide -> !part
    return
  }
  func.func @main() {
    %x = tpc.constant dense<1.0> : tensor<2x4xf32> : tensor<2x4xf32>
    func.call @f(%x) : (tensor<2x4xf32>) -> ()
    return
  }
}

// -----

!whole = tensor<3x4xf32>
!part = tensor<?x4xf32, #tpc.dist<[3{tp}, 4], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1>} {
  func.func private @f(%x: !part) {
    // expected-error @+1 {{the rank at tp=0 has another shape than its type declares}}
    %0 = tpc.all_gather %x over ["tp"] dim 0 : !part -> !whole
    return
  }
  func.func @main() {
    %x = tpc.constant dense<1.0> : tensor<3x4xf32> : !whole
    func.call @f(%x) : (!whole) -> ()
    return
  }
}
