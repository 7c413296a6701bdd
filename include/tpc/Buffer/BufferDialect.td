//===- BufferDialect.td - The tpc_buffer dialect ----------------*- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFERDIALECT
#define TPC_BUFFER_BUFFERDIALECT

include "mlir/IR/OpBase.td"

def Buffer_Dialect : Dialect {
  let name = "tpc_buffer";
  let cppNamespace = "::mlir::tpc::buffer";
  let summary = "Program of a rank for one step: runtime calls on planned memory";
  let description = [{
    The level after `tpc-plan-buffers`. Tensors of the staged program become buffers (type
    `!tpc_buffer.buffer`): the address of a known number of elements. A buffer is in a frame of the
    runtime's stack or in the caller's memory, or it is a parameter, a constant or an input of the
    model. Each op that does not define a buffer is one runtime call (`tpc/runtime.h`): the
    function at the end of its summary. Ops run in program order: an op begins when all ops before
    it have completed.

        tpc_buffer.entry @parameter_0 stage 0 packed @w : tensor<8x3xf32, …>
        tpc_buffer.func @layer_on_buffers of @layer(%x = value 0 : "8*n" x f32)
            to (%y : "8*n" x f32) {
          %frame = tpc_buffer.push "64*floordiv(11*n + 15, 16)"
          %w = tpc_buffer.parameter @parameter_0
          %0 = tpc_buffer.slot %frame at 0 : "3*n" x f32
          tpc_buffer.product %x m n k 8 by %w to %0 n 3
          ...
          tpc_buffer.all_reduce %1 to %2 over ["tp"] sum count "8*n"
          tpc_buffer.launch @kernel_add(%2, %x) to (%y) rows n grain 1025
          tpc_buffer.pop %frame
        }

    Sizes, offsets and counts are expressions (`#tpc.expr`) over the program's symbols, this rank's
    coordinates on the grid's axes (`rank.tp`) and the micro-batch index (`rank.mb`). The same IR is
    valid for all ranks and sizes. The dialect is independent of devices.

    The tensor program stays in the module. `tpc-verify-buffers` walks both programs and checks that
    each buffer, whenever it is read, contains the value that the tensor program defines.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

#endif
