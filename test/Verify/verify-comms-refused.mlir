// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-verify-comms

// expected-error @+1 {{needs a staged program}}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, mb = 1>} {
  func.func @main() { return }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @elsewhere()
  tpc.pipeline @main() inputs [] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{calls @elsewhere, which has no body: its communication is unknown}}
      func.call @elsewhere() : () -> ()
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  func.func private @again() {
    // expected-error @+1 {{@again calls itself: its communication would not terminate}}
    call @again() : () -> ()
    return
  }
  tpc.pipeline @main() inputs [] outputs [] {
    tpc.stage 0 { func.call @again() : () -> () }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  // expected-error @+1 {{@jumps branches between blocks}}
  func.func private @jumps() {
    cf.br ^end
  ^end:
    return
  }
  tpc.pipeline @main() inputs [] outputs [] {
    tpc.stage 0 { func.call @jumps() : () -> () }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      // expected-error @+1 {{'scf.for' contains communication, but its trip count on each rank is unknown}}
      scf.for %i = %0 to %1 step %1 {
        %2 = tpc.broadcast %x over ["tp"] root 0 : tensor<4xf32> -> tensor<4xf32>
      }
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  tpc.pipeline @main() inputs [] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{'memref.alloc' may write memory, possibly that of a message in flight}}
      %0 = memref.alloc() : memref<4xf32>
    }
  }
}

// -----

// Replicas with an empty batch run no micro-batch, so no rank may wait for them.
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-note @+1 {{each replica runs this loop once for each micro-batch that is not empty}}
      tpc.micro_batches of #tpc.dim<batch{dp, mb}> {
        // expected-error @+1 {{: not all members of its group over dp reach it: rank (dp 0) and rank (dp 1) may have a different number of micro-batches}}
        %1 = tpc.broadcast %x over ["dp"] root 0 : tensor<4xf32> -> tensor<4xf32>
      }
    }
  }
}

// -----

// Each replica has its own shard of the batch, and the sizes of shards may differ.
!part = tensor<?xf32, #tpc.dist<[batch{dp, mb}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 2>} {
  func.func private @f(%x: !part) {
    // expected-error @+1 {{members of a group over dp do not agree on the size of dimension 0 of the operand: it is <batch{dp, mb}>, which need not be the same on rank (tp 0, dp 0) and rank (tp 0, dp 1)}}
    %0 = tpc.broadcast %x over ["dp"] root 0 : !part -> !part
    return
  }
  tpc.pipeline @main(%x: !part) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @f(%x) : (!part) -> () }
  }
}

// -----

!seven = tensor<?xf32, #tpc.dist<[7{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !seven) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{rank (tp 0, dp 0) has 4, rank (tp 1, dp 0) has 3}}
      %0 = tpc.broadcast %x over ["tp"] root 0 : !seven -> !seven
    }
  }
}

// -----

// Three replicas have 2, 2 and 1 of 5 samples. So the last one runs only one of two micro-batches.
module attributes {tpc.mesh = #tpc.mesh<tp = 1, dp = 3, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-note @+1 {{each replica}}
      tpc.micro_batches of #tpc.dim<5{dp, mb}> {
        // expected-error @+1 {{not all members of its group over dp reach it}}
        %1 = tpc.broadcast %x over ["dp"] root 0 : tensor<4xf32> -> tensor<4xf32>
      }
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 2, pp = 1, mb = 1>} {
  func.func private @layer(%x: !x) -> !x {
    // expected-error @+1 {{not all members of its group over tp and dp reach it: rank (tp 0, dp 0) and rank (tp 1, dp 0) may take different branches}}
    %0 = tpc.broadcast %x over ["dp", "tp"] root 0 : !x -> !x
    return %0 : !x
  }
  tpc.pipeline @main(%x: !x) inputs [{tpc.name = "x"}] outputs [{name = "y", type = !x}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %zero = arith.constant 0 : index
        %one = arith.constant 0 : i64
        %c = tpc.iota dim 0 : tensor<1xi64, #tpc.dist<[2{tp}], local>>
        %mine = tensor.extract %c[%zero] : tensor<1xi64, #tpc.dist<[2{tp}], local>>
        %is = arith.cmpi eq, %mine, %one : i64
        // expected-note @+1 {{the condition depends on the coordinate of tp}}
        %0 = scf.if %is -> !x {
          %1 = func.call @layer(%x) : (!x) -> !x
          scf.yield %1 : !x
        } else {
          scf.yield %x : !x
        }
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// Both branches have the same two collectives, but in different orders.
!x = tensor<4xf32>
!y = tensor<8xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: !x, %y: !y) inputs [{}, {}] outputs [] {
    tpc.stage 0 {
      %zero = arith.constant 0 : index
      %one = arith.constant 0 : i64
      %c = tpc.iota dim 0 : tensor<1xi64, #tpc.dist<[2{tp}], local>>
      %mine = tensor.extract %c[%zero] : tensor<1xi64, #tpc.dist<[2{tp}], local>>
      %is = arith.cmpi eq, %mine, %one : i64
      // expected-note @+1 {{the condition depends on the coordinate of tp}}
      scf.if %is {
        // expected-error @+1 {{may take different branches}}
        %1 = tpc.broadcast %x over ["tp"] root 0 : !x -> !x
        %2 = tpc.broadcast %y over ["tp"] root 0 : !y -> !y
      } else {
        %2 = tpc.broadcast %y over ["tp"] root 0 : !y -> !y
        %1 = tpc.broadcast %x over ["tp"] root 0 : !x -> !x
      }
    }
  }
}
