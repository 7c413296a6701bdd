// Lengths of 64 bits are narrowed to 32 bits, and rows without a length are 0.
module {
  func.func @main(%x: tensor<?x8xf32, #tpc.dist<[rows, 8]>> {tpc.name = "x"}, %n: tensor<?x1xi64, #tpc.dist<[rows, 1]>> {tpc.name = "n"}) -> (tensor<?x8xf32, #tpc.dist<[rows, 8]>> {tpc.name = "y"}, tensor<?x1xi64, #tpc.dist<[rows, 1]>> {tpc.name = "m"}) {
    %short = tpc.cast %n : tensor<?x1xi64, #tpc.dist<[rows, 1]>> -> tensor<?x1xi32, #tpc.dist<[rows, 1]>>
    %long = tpc.cast %short : tensor<?x1xi32, #tpc.dist<[rows, 1]>> -> tensor<?x1xi64, #tpc.dist<[rows, 1]>>
    %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
    %none = tpc.constant dense<0> : tensor<i64> : tensor<i64>
    %is = tpc.cmp eq %long, %none : tensor<?x1xi64, #tpc.dist<[rows, 1]>>, tensor<i64> -> tensor<?x1xi1, #tpc.dist<[rows, 1]>>
    %y = tpc.select %is, %zero, %x : tensor<?x1xi1, #tpc.dist<[rows, 1]>>, tensor<f32>, tensor<?x8xf32, #tpc.dist<[rows, 8]>> -> tensor<?x8xf32, #tpc.dist<[rows, 8]>>
    return %y, %long : tensor<?x8xf32, #tpc.dist<[rows, 8]>>, tensor<?x1xi64, #tpc.dist<[rows, 1]>>
  }
}
