// Two matmuls and a bias with a squared loss, and the gradients of their weights: the form that
// tpc-add-optimizer takes. The target of all four outputs is 0.1 * label; negative labels are
// ignored.
!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!row_ids = tensor<?xi64, #tpc.dist<[b*s]>>
!column_ids = tensor<?x1xi64, #tpc.dist<[b*s, 1]>>
!column = tensor<?x1xf32, #tpc.dist<[b*s, 1]>>
!column_bool = tensor<?x1xi1, #tpc.dist<[b*s, 1]>>
!x4 = tensor<?x4xf32, #tpc.dist<[b*s, 4]>>
!x8 = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!x12 = tensor<?x12xf32, #tpc.dist<[b*s, 12]>>
!t4 = tensor<4x?xf32, #tpc.dist<[4, b*s]>>
!t8 = tensor<8x?xf32, #tpc.dist<[8, b*s]>>
!t12 = tensor<12x?xf32, #tpc.dist<[12, b*s]>>
module @training {
  tpc.weight @table in "linear.bin" at 0 : tensor<16x8xf32>
  tpc.weight @up in "linear.bin" at 512 : tensor<8x12xf32>
  tpc.weight @down in "linear.bin" at 896 : tensor<12x4xf32>
  tpc.weight @shift in "linear.bin" at 1088 : tensor<4xf32>
  func.func @main(%input_ids: !ids {tpc.name = "input_ids"}, %labels: !ids {tpc.name = "labels"})
      -> (tensor<f32> {tpc.name = "loss"}, tensor<8x12xf32> {tpc.name = "grad.up"},
          tensor<12x4xf32> {tpc.name = "grad.down"}, tensor<4xf32> {tpc.name = "grad.shift"}) {
    %table = tpc.parameter @table : tensor<16x8xf32>
    %up = tpc.parameter @up : tensor<8x12xf32>
    %down = tpc.parameter @down : tensor<12x4xf32>
    %shift = tpc.parameter @shift : tensor<4xf32>
    %rows = tpc.reshape %input_ids : !ids -> !row_ids
    %x = tpc.embedding %table, %rows : tensor<16x8xf32>, !row_ids -> !x8
    %h = tpc.matmul %x, %up : !x8, tensor<8x12xf32> -> !x12
    %y0 = tpc.matmul %h, %down : !x12, tensor<12x4xf32> -> !x4
    %y = tpc.add %y0, %shift : !x4, tensor<4xf32> -> !x4
    %column = tpc.reshape %labels : !ids -> !column_ids
    %number = tpc.cast %column : !column_ids -> !column
    %tenth = tpc.constant dense<0.1> : tensor<f32> : tensor<f32>
    %target = tpc.mul %number, %tenth : !column, tensor<f32> -> !column
    %zero = tpc.constant dense<0> : tensor<i64> : tensor<i64>
    %is_valid = tpc.cmp ge %column, %zero : !column_ids, tensor<i64> -> !column_bool
    %valid = tpc.cast %is_valid : !column_bool -> !column
    %count = tpc.reduce sum %valid [0, 1] : !column -> tensor<f32>
    %difference = tpc.sub %y, %target : !x4, !column -> !x4
    %masked = tpc.mul %difference, %valid : !x4, !column -> !x4
    %square = tpc.mul %masked, %masked : !x4, !x4 -> !x4
    %sum = tpc.reduce sum %square [0, 1] : !x4 -> tensor<f32>
    %loss = tpc.div %sum, %count : tensor<f32>, tensor<f32> -> tensor<f32>
    %two = tpc.constant dense<2.0> : tensor<f32> : tensor<f32>
    %scale = tpc.div %two, %count : tensor<f32>, tensor<f32> -> tensor<f32>
    %dy = tpc.mul %masked, %scale : !x4, tensor<f32> -> !x4
    %dshift = tpc.reduce sum %dy [0] : !x4 -> tensor<4xf32>
    %ht = tpc.transpose %h [1, 0] : !x12 -> !t12
    %ddown = tpc.matmul %ht, %dy : !t12, !x4 -> tensor<12x4xf32>
    %down_t = tpc.transpose %down [1, 0] : tensor<12x4xf32> -> tensor<4x12xf32>
    %dh = tpc.matmul %dy, %down_t : !x4, tensor<4x12xf32> -> !x12
    %xt = tpc.transpose %x [1, 0] : !x8 -> !t8
    %dup = tpc.matmul %xt, %dh : !t8, !x12 -> tensor<8x12xf32>
    return %loss, %dup, %ddown, %dshift
        : tensor<f32>, tensor<8x12xf32>, tensor<12x4xf32>, tensor<4xf32>
  }
}
