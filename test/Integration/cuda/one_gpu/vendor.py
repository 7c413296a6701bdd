"""Peak rates of the device, measured through the vendor's libraries alone.

Measures device-to-device copy bandwidth and cuBLASLt's matmuls in f32 and bf16. It runs as a
separate program and prints JSON: python3 -m one_gpu.vendor FOLDER:FOLDER… [SIZE [MEBIBYTES]].
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

# Type of operands -> its number in cudaDataType, and bytes. Sums are in f32.
TYPES = {"f32": (0, 4), "bf16": (14, 2)}
COMPUTE_32F = 68
WORKSPACE = 32 << 20
BATCHES = 7


class Algorithm(ctypes.Structure):
    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


def load(names: list[str], folders: list[str]):
    tried = [
        f"{folder}/{name}"
        for folder in folders
        for name in names
        if os.path.exists(f"{folder}/{name}")
    ] + names
    for path in tried:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            problem = error
    raise SystemExit(str(problem))


def check(status: int, what: str) -> None:
    if status:
        raise SystemExit(f"{what}: status {status}")


class Device:
    def __init__(self, folders: list[str]):
        self.cuda = load(["libcuda.so.1"], folders)
        self.blas = load(["libcublasLt.so.13", "libcublasLt.so.12"], folders)
        number, context, self.stream = c_int(), c_void_p(), c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", byref(number), 0)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, number)
        self.call("cuDevicePrimaryCtxRetain", byref(context), number)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", byref(self.stream), 1)
        version = c_int()
        self.call("cuDriverGetVersion", byref(version))
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        self.blas.cublasLtGetVersion.restype = c_size_t
        random_values = np.random.default_rng(0).standard_normal(16 << 20, dtype=np.float32)
        high_halves = (random_values.view(np.uint32) >> 16).astype(np.uint16)
        self.random_values = {"f32": random_values, "bf16": high_halves}
        self.facts = {
            "device": name.value.decode(),
            "driver": version.value,
            "free_bytes": free.value,
            "total_bytes": total.value,
            "cublaslt": self.blas.cublasLtGetVersion(),
        }

    def call(self, name: str, *arguments) -> None:
        check(getattr(self.cuda, name)(*arguments), name)

    def allocate(self, size: int, kind: str = "f32") -> c_uint64:
        address, random_values = c_uint64(), self.random_values[kind]
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        # Operands are random, because with zeros GPUs use less power and run at higher clocks.
        for start in range(0, size, random_values.nbytes):
            self.call(
                "cuMemcpyHtoDAsync_v2",
                c_uint64(address.value + start),
                random_values.ctypes.data_as(c_void_p),
                c_size_t(min(size - start, random_values.nbytes)),
                self.stream,
            )
        return address

    def seconds(self, work, times: int) -> float:
        """Returns the seconds per run of `work`: the minimum over several batches of `times` runs,
        after a warm-up.
        """
        begin, end, best = c_void_p(), c_void_p(), float("inf")
        for event in (begin, end):
            self.call("cuEventCreate", byref(event), 0)
        for batch in range(BATCHES + 1):
            self.call("cuEventRecord", begin, self.stream)
            for _ in range(times):
                work()
            self.call("cuEventRecord", end, self.stream)
            self.call("cuEventSynchronize", end)
            elapsed = c_float()
            self.call("cuEventElapsedTime", byref(elapsed), begin, end)
            if batch:
                best = min(best, elapsed.value / 1e3 / times)
        return best

    def bandwidth(self, size: int) -> float:
        one, two = self.allocate(size), self.allocate(size)
        seconds = self.seconds(
            lambda: self.call("cuMemcpyDtoDAsync_v2", two, one, c_size_t(size), self.stream), 10
        )
        for block in (one, two):
            self.call("cuMemFree_v2", block)
        return 2 * size / seconds  # read and written

    def matmul_rate(self, n: int, kind: str = "f32") -> float:
        """Returns the operations per second of the fastest algorithm for n x n matrices."""
        number, size = TYPES[kind]
        blas, handle = self.blas, c_void_p()
        check(blas.cublasLtCreate(byref(handle)), "cublasLtCreate")
        operation, layout, preference = c_void_p(), c_void_p(), c_void_p()
        check(
            blas.cublasLtMatmulDescCreate(byref(operation), COMPUTE_32F, TYPES["f32"][0]),
            "cublasLtMatmulDescCreate",
        )
        check(
            blas.cublasLtMatrixLayoutCreate(
                byref(layout), number, c_uint64(n), c_uint64(n), c_int64(n)
            ),
            "a layout",
        )
        check(blas.cublasLtMatmulPreferenceCreate(byref(preference)), "a preference")
        check(
            blas.cublasLtMatmulPreferenceSetAttribute(
                preference, 1, byref(c_uint64(WORKSPACE)), c_size_t(8)
            ),
            "workspace",
        )
        # Minimum alignments of A, B, C and D: allocations are aligned to 256 bytes.
        for attribute in (5, 6, 7, 8):
            check(
                blas.cublasLtMatmulPreferenceSetAttribute(
                    preference, attribute, byref(c_uint32(256)), c_size_t(4)
                ),
                "alignment",
            )
        a, b, c = (self.allocate(size * n * n, kind) for _ in range(3))
        workspace = self.allocate(WORKSPACE)
        found, count = (Algorithm * 8)(), c_int()
        check(
            blas.cublasLtMatmulAlgoGetHeuristic(
                handle,
                operation,
                layout,
                layout,
                layout,
                layout,
                preference,
                8,
                found,
                byref(count),
            ),
            "cublasLtMatmulAlgoGetHeuristic",
        )
        one, zero, best = c_float(1), c_float(0), float("inf")
        for i in range(count.value):

            def multiply():
                return blas.cublasLtMatmul(
                    handle,
                    operation,
                    byref(one),
                    a,
                    layout,
                    b,
                    layout,
                    byref(zero),
                    c,
                    layout,
                    c,
                    layout,
                    byref(found[i]),
                    workspace,
                    c_size_t(WORKSPACE),
                    self.stream,
                )

            if found[i].state == 0 and multiply() == 0:
                best = min(best, self.seconds(lambda: check(multiply(), "cublasLtMatmul"), 3))
        self.call("cuStreamSynchronize", self.stream)
        return 2 * n**3 / best


def main(arguments: list[str]) -> None:
    device = Device([folder for folder in arguments[0].split(":") if folder])
    size, mebibytes = (int(word) for word in arguments[1:] + ["8192", "1024"][len(arguments) - 1 :])
    # Copies come first, because matmuls heat the device, which lowers clocks.
    result = {**device.facts, "bytes_per_second": device.bandwidth(mebibytes << 20)}
    result["flops_per_second"] = device.matmul_rate(size)
    result["bf16_flops_per_second"] = device.matmul_rate(size, "bf16")
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
