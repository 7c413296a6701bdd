// RUN: tpc-opt %s --split-input-file --verify-diagnostics

tpc_kernel.func @not_a_size(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  // expected-error@+1 {{not a size: }}
  tpc_kernel.rows (%i) in ["8 +"] {
  }
}

// -----

// expected-error@+1 {{argument 0 is 'memref<8xf32>', but must be a dense memref of signless numbers with 1 dynamic dimensions, one for each size}}
tpc_kernel.func @static(%x: memref<8xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{argument 0 is 'memref<?xui8>'}}
tpc_kernel.func @with_sign(%x: memref<?xui8> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{must end with its tpc_kernel.rows}}
tpc_kernel.func @no_rows() -> (%y: memref<?xf32> of [8]) {
  %n = tpc_kernel.size 8
}

// -----

tpc_kernel.func @before_rows(%x: memref<f32> of []) -> (%y: memref<?xf32> of [8]) {
  // expected-error@+1 {{is before the rows of a kernel, where only sizes and constants are allowed}}
  %0 = memref.load %x[] : memref<f32>
  tpc_kernel.rows () in [] {}
}

// -----

tpc_kernel.func @indices() -> (%y: memref<?xf32> of [8]) {
  // expected-error@+1 {{must have one index for each size, but has 1 indices and 2 sizes}}
  tpc_kernel.rows (%i) in [2, 4] {}
}

// -----

tpc_kernel.func @nothing_stored(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  // expected-error@+1 {{never stores result 0}}
  tpc_kernel.rows (%i) in [8] {}
}

// -----

tpc_kernel.func @flags(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    %0 = memref.load %x[%i] : memref<?xf32>
    // expected-error@+1 {{has fast-math flags: operations of a kernel follow IEEE 754}}
    %1 = arith.addf %0, %0 fastmath<reassoc> : f32
    tpc_kernel.elements () in [] {
      memref.store %1, %y[%i] : memref<?xf32>
    }
  }
}

// -----

tpc_kernel.func @other_ops(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    // expected-error@+1 {{is not allowed in a kernel}}
    %m = memref.alloc() : memref<4xf32>
  }
}

// -----

tpc_kernel.func @store_outside(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    %0 = memref.load %x[%i] : memref<?xf32>
    // expected-error@+1 {{is outside of tpc_kernel.elements, where all stores must be}}
    memref.store %0, %y[%i] : memref<?xf32>
  }
}

// -----

tpc_kernel.func @store_to_operand(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    %0 = memref.load %x[%i] : memref<?xf32>
    tpc_kernel.elements () in [] {
      // expected-error@+1 {{stores to memory that is no result of the kernel}}
      memref.store %0, %x[%i] : memref<?xf32>
    }
  }
}

// -----

tpc_kernel.func @store_to_another_row(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    %0 = memref.load %x[%i] : memref<?xf32>
    tpc_kernel.elements (%j) in [8] {
      // expected-error@+1 {{must store to the current row, or under a condition to a row that no other row stores to}}
      memref.store %0, %y[%j] : memref<?xf32>
    }
  }
}

// -----

tpc_kernel.func @stored_twice(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    %0 = memref.load %x[%i] : memref<?xf32>
    tpc_kernel.elements () in [] {
      memref.store %0, %y[%i] : memref<?xf32>
      // expected-error@+1 {{stores a result a second time}}
      memref.store %0, %y[%i] : memref<?xf32>
    }
  }
}

// -----

// If several threads compute a row, a thread may read an element before another stores it.
tpc_kernel.func @no_barrier(%x: memref<?x?xf32> of [8, 4]) -> (%y: memref<?x?xf32> of [8, 4], %z: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    tpc_kernel.elements (%j) in [4] {
      %0 = memref.load %x[%i, %j] : memref<?x?xf32>
      memref.store %0, %y[%i, %j] : memref<?x?xf32>
    }
    %s = tpc_kernel.fold sum (%j) in [4] adjacent : f32 init 0.0 identity -0.0 {
      // expected-error@+1 {{reads a result that is not stored yet, or without a tpc_kernel.barrier after its store}}
      %0 = memref.load %y[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %0 : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %s, %z[%i] : memref<?xf32>
    }
  }
}

// -----

tpc_kernel.func @other_row(%x: memref<?x?xf32> of [8, 4]) -> (%y: memref<?x?xf32> of [8, 4], %z: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    tpc_kernel.elements (%j) in [4] {
      %0 = memref.load %x[%i, %j] : memref<?x?xf32>
      memref.store %0, %y[%i, %j] : memref<?x?xf32>
    }
    tpc_kernel.barrier
    %s = tpc_kernel.fold sum (%j) in [8] adjacent : f32 init 0.0 identity -0.0 {
      // expected-error@+1 {{reads a result in another row than the current one}}
      %0 = memref.load %y[%j, %i] : memref<?x?xf32>
      tpc_kernel.yield %0 : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %s, %z[%i] : memref<?xf32>
    }
  }
}

// -----

tpc_kernel.func @identity(%x: memref<?xf32> of [8]) -> (%y: memref<f32> of []) {
  tpc_kernel.rows () in [] {
    // expected-error@+1 {{has the identity 1.000000e+00 : f32; that of 'sum' is -0.000000e+00 : f32}}
    %s = tpc_kernel.fold sum (%j) in [8] adjacent : f32 init 0.0 identity 1.0 {
      %0 = memref.load %x[%j] : memref<?xf32>
      tpc_kernel.yield %0 : f32
    }
  }
}

// -----

tpc_kernel.func @init(%x: memref<?xf32> of [8]) -> (%y: memref<f32> of []) {
  tpc_kernel.rows () in [] {
    // expected-error@+1 {{has the initial value 1.000000e+00 : f32; that of 'sum' is 0.000000e+00 : f32}}
    %s = tpc_kernel.fold sum (%j) in [8] adjacent : f32 init 1.0 identity -0.0 {
      %0 = memref.load %x[%j] : memref<?xf32>
      tpc_kernel.yield %0 : f32
    }
  }
}

// -----

tpc_kernel.func @kind(%x: memref<?xf32> of [8]) -> (%y: memref<f32> of []) {
  tpc_kernel.rows () in [] {
    // expected-error@+1 {{'umax' does not support 'f32'}}
    %s = tpc_kernel.fold umax (%j) in [8] : f32 init 0.0 identity 0.0 {
      %0 = memref.load %x[%j] : memref<?xf32>
      tpc_kernel.yield %0 : f32
    }
  }
}

// -----

tpc_kernel.func @word() -> (%y: memref<f32> of []) {
  tpc_kernel.rows () in [] {
    // expected-error@+1 {{'product' is not a kind of fold: sum, max, min, umax, umin or maxnum}}
    %s = tpc_kernel.fold product () in [] : f32 init 0.0 identity 0.0 {
    }
  }
}

// -----

tpc_kernel.func @yields(%x: memref<?xf32> of [8]) -> (%y: memref<f32> of []) {
  tpc_kernel.rows () in [] {
    // expected-error@+1 {{must end with a tpc_kernel.yield of 'f32'}}
    %s = tpc_kernel.fold sum (%j) in [8] : f32 init 0.0 identity -0.0 {
      %0 = arith.constant 0 : i32
      tpc_kernel.yield %0 : i32
    }
  }
}

// -----

// The store must be conditional, because the computed row may be out of bounds.
tpc_kernel.func @moved(%n: memref<?xi64> of [2], %x: memref<?x?xf32> of [2, 8]) -> (%y: memref<?x?xf32> of [2, 9]) {
  tpc_kernel.rows (%b, %i) in [2, 8] {
    %0 = memref.load %x[%b, %i] : memref<?x?xf32>
    %1 = memref.load %n[%b] : memref<?xi64>
    %2 = arith.index_cast %1 : i64 to index
    %3 = arith.addi %2, %i : index
    tpc_kernel.elements () in [] {
      // expected-error@+1 {{must store to the current row, or under a condition to a row that no other row stores to}}
      memref.store %0, %y[%b, %3] : memref<?x?xf32>
    }
  }
}

// -----

// Each row is moved by its own length, so two rows may be stored at the same position.
tpc_kernel.func @moved_apart(%n: memref<?xi64> of [8], %x: memref<?x?xf32> of [2, 8]) -> (%y: memref<?x?xf32> of [2, 9]) {
  %most = tpc_kernel.size 9
  tpc_kernel.rows (%b, %i) in [2, 8] {
    %0 = memref.load %x[%b, %i] : memref<?x?xf32>
    %1 = memref.load %n[%i] : memref<?xi64>
    %2 = arith.index_cast %1 : i64 to index
    %3 = arith.addi %2, %i : index
    %4 = arith.cmpi ult, %3, %most : index
    tpc_kernel.elements () in [] {
      scf.if %4 {
        // expected-error@+1 {{must store to the current row, or under a condition to a row that no other row stores to}}
        memref.store %0, %y[%b, %3] : memref<?x?xf32>
      }
    }
  }
}

// -----

// All rows of a sequence are stored at the same position.
tpc_kernel.func @moved_together(%n: memref<?xi64> of [2], %x: memref<?x?xf32> of [2, 8]) -> (%y: memref<?x?xf32> of [2, 9]) {
  %most = tpc_kernel.size 9
  tpc_kernel.rows (%b, %i) in [2, 8] {
    %0 = memref.load %x[%b, %i] : memref<?x?xf32>
    %1 = memref.load %n[%b] : memref<?xi64>
    %2 = arith.index_cast %1 : i64 to index
    %4 = arith.cmpi ult, %2, %most : index
    tpc_kernel.elements () in [] {
      scf.if %4 {
        // expected-error@+1 {{must store to the current row, or under a condition to a row that no other row stores to}}
        memref.store %0, %y[%b, %2] : memref<?x?xf32>
      }
    }
  }
}

// -----

// Elements excluded by a condition were never computed.
tpc_kernel.func @read_in_part(%n: memref<?xi64> of [2], %x: memref<?x?xf32> of [2, 8]) -> (%y: memref<?x?xf32> of [2, 9], %z: memref<?x?xf32> of [2, 8]) {
  %most = tpc_kernel.size 9
  tpc_kernel.rows (%b, %i) in [2, 8] {
    %0 = memref.load %x[%b, %i] : memref<?x?xf32>
    %1 = memref.load %n[%b] : memref<?xi64>
    %2 = arith.index_cast %1 : i64 to index
    %3 = arith.addi %i, %2 : index
    %4 = arith.cmpi ult, %3, %most : index
    tpc_kernel.elements () in [] {
      scf.if %4 {
        memref.store %0, %y[%b, %3] : memref<?x?xf32>
      }
    }
    tpc_kernel.barrier
    // expected-error@+1 {{reads a result that the row stores only under a condition}}
    %5 = memref.load %y[%b, %i] : memref<?x?xf32>
    tpc_kernel.elements () in [] {
      memref.store %5, %z[%b, %i] : memref<?x?xf32>
    }
  }
}

// -----

// In one branch the offset depends on the row.
tpc_kernel.func @moved_by_branch(%n: memref<?xi64> of [2], %x: memref<?x?xf32> of [2, 8]) -> (%y: memref<?x?xf32> of [2, 9]) {
  %most = tpc_kernel.size 9
  tpc_kernel.rows (%b, %i) in [2, 8] {
    %0 = memref.load %x[%b, %i] : memref<?x?xf32>
    %1 = memref.load %n[%b] : memref<?xi64>
    %2 = arith.index_cast %1 : i64 to index
    %3 = arith.cmpi slt, %2, %most : index
    %4 = scf.if %3 -> (index) {
      scf.yield %2 : index
    } else {
      scf.yield %i : index
    }
    %5 = arith.addi %4, %i : index
    %6 = arith.cmpi ult, %5, %most : index
    tpc_kernel.elements () in [] {
      scf.if %6 {
        // expected-error@+1 {{must store to the current row, or under a condition to a row that no other row stores to}}
        memref.store %0, %y[%b, %5] : memref<?x?xf32>
      }
    }
  }
}

// -----

// expected-error@+1 {{argument 1 is a result and must not have a row stride}}
tpc_kernel.func @result(%x: memref<?x?xf32> of [4, 8]) -> (%y: memref<?x?xf32> of [4, 8] rows 1 stride 24) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{argument 0 has 2 dimensions, but 'rows' is 3}}
tpc_kernel.func @dimensions(%x: memref<?x?xf32> of [4, 8] rows 3 stride 24) -> (%y: memref<?x?xf32> of [4, 8]) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{result 0 is over operand 0, which has another type, other sizes or a row stride}}
tpc_kernel.func @over_other_size(%x: memref<?xf32> of [4]) -> (%y: memref<?xf32> of [8] over %x) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{has two results over operand 0}}
tpc_kernel.func @over_twice(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8] over %x, %z: memref<?xf32> of [8] over %x) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{result 0 is over operand 1, which does not exist}}
tpc_kernel.func @over_result(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8] over %y) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{'%z' is no operand of the kernel}}
tpc_kernel.func @over_unknown(%x: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8] over %z) {
  tpc_kernel.rows () in [] {}
}

// -----

// expected-error@+1 {{result 0 is over operand 2, which does not exist}}
"tpc_kernel.func"() <{num_results = 1 : i64, over = array<i64: 2>, sizes = [[], []], sym_name = "over_nothing"}> ({
^bb0(%x: memref<f32>, %y: memref<f32>):
}) : () -> ()

// -----

tpc_kernel.func @over_other_element(%x: memref<?x?xf32> of [8, 4]) -> (%y: memref<?x?xf32> of [8, 4] over %x) {
  %0 = arith.constant 0 : index
  tpc_kernel.rows (%i) in [8] {
    tpc_kernel.elements (%j) in [4] {
      // expected-error@+1 {{reads memory that result 0 may have, but not the same element before its store}}
      %v = memref.load %x[%i, %0] : memref<?x?xf32>
      memref.store %v, %y[%i, %j] : memref<?x?xf32>
    }
  }
}

// -----

tpc_kernel.func @over_after_store(%x: memref<?xf32> of [8], %z: memref<?xf32> of [8]) -> (%y: memref<?xf32> of [8] over %x, %s: memref<?xf32> of [8]) {
  tpc_kernel.rows (%i) in [8] {
    tpc_kernel.elements () in [] {
      %v = memref.load %z[%i] : memref<?xf32>
      memref.store %v, %y[%i] : memref<?xf32>
      // expected-error@+1 {{reads memory that result 0 may have, but not the same element before its store}}
      %w = memref.load %x[%i] : memref<?xf32>
      memref.store %w, %s[%i] : memref<?xf32>
    }
  }
}

// -----

tpc_kernel.func @over_fold(%x: memref<?x?xf32> of [8, 4]) -> (%y: memref<?x?xf32> of [8, 4] over %x) {
  tpc_kernel.rows (%i) in [8] {
    %s = tpc_kernel.fold sum (%k) in [4] adjacent : f32 init 0.000000e+00 identity -0.000000e+00 {
      // expected-error@+1 {{reads memory that result 0 may have, but not the same element before its store}}
      %v = memref.load %x[%i, %k] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements (%j) in [4] {
      memref.store %s, %y[%i, %j] : memref<?x?xf32>
    }
  }
}

// -----

tpc_kernel.func @over_under_condition(%x: memref<?xf32> of [8], %c: memref<i1> of []) -> (%y: memref<?xf32> of [8] over %x) {
  // expected-error@+1 {{must store each element of result 0 in the iteration of its index}}
  tpc_kernel.rows (%i) in [8] {
    tpc_kernel.elements () in [] {
      %b = memref.load %c[] : memref<i1>
      scf.if %b {
        %v = memref.load %x[%i] : memref<?xf32>
        memref.store %v, %y[%i] : memref<?xf32>
      }
    }
  }
}
