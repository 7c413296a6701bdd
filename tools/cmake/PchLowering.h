// Headers that the lowering to CPUs and GPUs needs, precompiled once (see TPCBuild.cmake).
#ifndef TPC_TOOLS_CMAKE_PCHLOWERING_H
#define TPC_TOOLS_CMAKE_PCHLOWERING_H

#include "Pch.h"

#include "tpc/Buffer/Buffer.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#endif // TPC_TOOLS_CMAKE_PCHLOWERING_H
