// Errors that op verifiers also report: tpc-verify-comms does not rely on them.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics --verify-each=0 --mlir-very-unsafe-disable-verifier-on-parsing --tpc-verify-comms

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{names no axis, so no rank takes part}}
      %0 = tpc.broadcast %x over [] root 0 : !x -> !x
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{'mb' is not an axis of ranks: micro-batches run one after another and cannot communicate}}
      %0 = tpc.broadcast %x over ["mb"] root 0 : !x -> !x
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{names axis 'tp' twice}}
      %0 = tpc.broadcast %x over ["tp", "tp"] root 0 : !x -> !x
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{receives another type than it sends: 'tensor<4xf32>' and 'tensor<4xf16>'}}
      %0 = tpc.broadcast %x over ["tp"] root 0 : tensor<4xf32> -> tensor<4xf16>
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{there is no dimension 1}}
      %0 = tpc.all_gather %x over ["tp"] dim 1 : !x -> !x
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{dimension 0 of the operand is not split over all axes of the group}}
      %0 = tpc.all_gather %x over ["tp"] dim 0 : !x -> !x
    }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{members of a group send 'tensor<4xf32>' and expect 'tensor<5xf32>', which is not the same in dimension 0}}
      %0 = tpc.broadcast %x over ["tp"] root 0 : tensor<4xf32> -> tensor<5xf32>
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{reduces a value that is not unreduced over 'tp'}}
      %0 = tpc.all_reduce %x over ["tp"] : !x -> !x
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{root 2 is not one of the group's 2 members}}
      %0 = tpc.broadcast %x over ["tp"] root 2 : !x -> !x
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    // expected-error @+1 {{a pipeline must contain only its stages, in order}}
    tpc.stage 1 {
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 2>} {
  // expected-error @+1 {{has 1 stages for 2 coordinates of pp}}
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      // expected-error @+1 {{stage 1 must be another stage of the pipeline}}
      tpc.send %x to 1 : !x
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 {
      tpc.micro_batches {
        // expected-error @+1 {{micro-batch loops must not be nested}}
        tpc.micro_batches {
        }
      }
    }
  }
}

// -----

!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 2, mb = 2>} {
  func.func private @f(%x: !x) {
    // expected-error @+1 {{a transfer must be in a stage}}
    tpc.send %x to 1 : !x
    return
  }
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [] {
    tpc.stage 0 { func.call @f(%x) : (!x) -> () }
    tpc.stage 1 { %0 = tpc.recv from 0 : !x }
  }
}

// -----

module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>} {
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<4xf32>}] {
    tpc.stage 0 {
      // expected-error @+1 {{there is no output 1}}
      tpc.output 1, %x : tensor<4xf32>
    }
  }
}
