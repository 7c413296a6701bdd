// RUN: tpc-opt %s -split-input-file -verify-diagnostics --tpc-cache-sources

#n = #tpc.dist<[batch]>
#x = #tpc.dist<[batch, sequence, 2, 4]>
#s = #tpc.dist<[batch, "source + 1", 2, 4]>

module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  func.func @main(%x: tensor<?x?x2x4xf32, #x> {tpc.name = "x"}, %k: tensor<?x?x2x4xf32, #s> {tpc.name = "k"},
                  %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"})
      -> (tensor<?x?x2x4xf32, #x> {tpc.name = "y"}) {
    // expected-error@+1 {{attends to a source of source + 1 tokens: the number must be a symbol or a constant}}
    %y = tpc.attention %x, %k, %k scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #s>, tensor<?x?x2x4xf32, #s> -> tensor<?x?x2x4xf32, #x>
    return %y : tensor<?x?x2x4xf32, #x>
  }
}

// -----

#n = #tpc.dist<[batch]>
#x = #tpc.dist<[batch, sequence, 2, 4]>
#s = #tpc.dist<[batch, source, 2, 4]>
#m = #tpc.dist<[batch, source]>

module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  func.func @main(%x: tensor<?x?x2x4xf32, #x> {tpc.name = "x"}, %k: tensor<?x?x2x4xf32, #s> {tpc.name = "k"}, %m: tensor<?x?xi1, #m> {tpc.name = "m"},
                  %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"})
      -> (tensor<?x?x2x4xf32, #x> {tpc.name = "y"}) {
    // expected-error@+1 {{hides tokens of the source by a mask, a bias or causality}}
    %y = tpc.attention %x, %k, %k key_mask %m scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #s>, tensor<?x?x2x4xf32, #s> key_mask tensor<?x?xi1, #m> -> tensor<?x?x2x4xf32, #x>
    return %y : tensor<?x?x2x4xf32, #x>
  }
}

// -----

#n = #tpc.dist<[batch]>
#x = #tpc.dist<[batch, sequence, 2, 4]>
#s = #tpc.dist<[batch, source, 2, 4]>
#t = #tpc.dist<[batch, other, 2, 4]>

module attributes {tpc.step = #tpc.step<tokens = sequence, capacity = capacity, lengths = "lengths", counts = "counts">} {
  func.func @main(%x: tensor<?x?x2x4xf32, #x> {tpc.name = "x"}, %k: tensor<?x?x2x4xf32, #s> {tpc.name = "k"}, %o: tensor<?x?x2x4xf32, #t> {tpc.name = "o"},
                  %n: tensor<?xi64, #n> {tpc.name = "lengths"}, %c: tensor<?xi64, #n> {tpc.name = "counts"})
      -> (tensor<?x?x2x4xf32, #x> {tpc.name = "y"}) {
    %y = tpc.attention %x, %k, %k scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #s>, tensor<?x?x2x4xf32, #s> -> tensor<?x?x2x4xf32, #x>
    // expected-error@+1 {{attends to a source of other tokens, other attention ops to one of source}}
    %z = tpc.attention %y, %o, %o scale 1.0 : tensor<?x?x2x4xf32, #x>, tensor<?x?x2x4xf32, #t>, tensor<?x?x2x4xf32, #t> -> tensor<?x?x2x4xf32, #x>
    return %z : tensor<?x?x2x4xf32, #x>
  }
}
