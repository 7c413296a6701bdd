// A step that reads @w, and then updates @w and @v in place.
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 2>} {
  tpc.weight @w in "/w.bin" at 0 : tensor<8xf32>
  tpc.weight @v in "/w.bin" at 32 : tensor<8xf32>
  func.func private @kernel_exp(%x: tensor<8xf32>) -> tensor<8xf32> attributes {tpc.kernel = 1 : i64} {
    %0 = tpc.exp %x : tensor<8xf32> -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @kernel_next(%x: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> attributes {tpc.kernel = 1 : i64} {
    %0 = tpc.sub %x, %d : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  tpc.pipeline @main(%d: tensor<8xf32>) inputs [{tpc.name = "d"}] outputs [{name = "y", type = tensor<8xf32>}, {name = "w", tpc.update = [@w], type = tensor<8xf32>}, {name = "v", tpc.update = [@v], type = tensor<8xf32>}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %w = tpc.parameter @w : tensor<8xf32>
        %v = tpc.parameter @v : tensor<8xf32>
        %y = func.call @kernel_exp(%w) : (tensor<8xf32>) -> tensor<8xf32>
        %w1 = func.call @kernel_next(%w, %d) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        %v1 = func.call @kernel_next(%v, %d) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
        tpc.output 0, %y : tensor<8xf32>
        tpc.output 1, %w1 : tensor<8xf32>
        tpc.output 2, %v1 : tensor<8xf32>
      }
    }
  }
}
