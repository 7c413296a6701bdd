// Events of a schedule: each once, in an order without deadlocks.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-verify-comms

// Two ranks with two chunks each, and two micro-batches.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// An event is missing.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        tpc.send %x to 1 : !x
      }
      // expected-error @+1 {{stage 0: the schedule has no event SF2.1}}
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// An event occurs twice.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      // expected-error @+1 {{stage 0: the schedule's event SF0.0 occurs twice}}
      tpc.micro_batches of <2{mb}> {
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// A chunk computes before it receives.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, F0.1, SF0.1, F2.0, RF2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        tpc.send %x to 1 : !x
      }
      // expected-error @+1 {{stage 0: the schedule's event F2.0 comes before RF2.0, which must be earlier}}
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// An event of a third micro-batch: there are two.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, F0.2, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      // expected-error @+1 {{stage 0: the schedule's event F0.2 is of a micro-batch that does not exist: there are 2}}
      tpc.micro_batches of <2{mb}> {
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// An event receives for chunk 0, which has no ops that receive.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[RF0.0, F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      // expected-error @+1 {{stage 0: the schedule's event RF0.0 has no ops: the chunk has none of this phase}}
      tpc.micro_batches of <2{mb}> {
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// Micro-batch 1 is sent first.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, F0.1, SF0.1, SF0.0, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        // expected-error @+1 {{rank (pp 0) and rank (pp 1) have different messages next: of micro-batch 1 in chunk 0 of the channel, and of micro-batch 0 in chunk 0}}
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        // expected-note @+1 {{is the other side}}
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// The message of chunk 2 is received as that of chunk 0.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF3.0, SF1.0, F3.0, RF1.1, F1.1, SF1.1, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        // expected-error @+1 {{have different messages next: of micro-batch 1 in chunk 0 of the channel, and of micro-batch 0 in chunk 1}}
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        // expected-note @+1 {{is the other side}}
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// Both ranks send, and neither receives.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, SF1.0, RF1.1, F1.1, RF3.0, SF1.1, F3.0, RF3.1, F3.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        // expected-error @+2 {{ranks wait for each other in a cycle}}
        // expected-note @+1 {{rank (pp 0) waits at}}
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        // expected-note @+1 {{rank (pp 1) waits at}}
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}

// -----

// A chunk has the number of another one.
!x = tensor<4xf32>
module attributes {tpc.mesh = #tpc.mesh<pp = 2, mb = 2, vpp = 2>} {
  tpc.pipeline @main(%x: !x) inputs [{}] outputs [{name = "y", type = !x}] schedule <"interleaved",
      [[F0.0, SF0.0, F0.1, SF0.1, RF2.0, F2.0, SF2.0, RF2.1, F2.1, SF2.1], [RF1.0, F1.0, RF1.1, SF1.0, F1.1, RF4.0, SF1.1, F4.0, RF4.1, F4.1]]> {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        tpc.send %x to 1 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 1 : !x
        tpc.send %0 to 1 : !x
      }
    }
    // expected-error @+1 {{the schedule has events of chunk 4 for stage 1, whose chunk 1 is chunk 3 of the model}}
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.send %0 to 0 : !x
      }
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !x
        tpc.output 0, %0 : !x
      }
    }
  }
}
