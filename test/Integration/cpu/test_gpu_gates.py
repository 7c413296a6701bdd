"""Checks of GPU kernels in tools/gpu_kernels.py. Each check finds a violation."""

import re
import sys

import pytest

from harness import BUILD, TOP, find_cuda_tool, run

sys.path.append(str(TOP / "tools"))
import gpu_kernels  # noqa: E402

PROGRAM = [
    sys.executable,
    TOP / "tools" / "gpu_kernels.py",
    "--check",
    "--tpcc",
    BUILD / "bin" / "tpcc",
]


def skip_without(*tools):
    for name in tools:
        if not find_cuda_tool(name):
            pytest.skip(f"{name}: there is none")


def test_a_sample():
    """Kernels of two models, with evenly and unevenly split rows."""
    skip_without("ptxas")
    run([*PROGRAM, "--models", "gpt2-odd-opset20,phi3-past", "--grids", "tp2"]).check()


@pytest.mark.long
def test_all_kernels():
    skip_without("ptxas")
    run(PROGRAM, timeout=3600).check()


def test_only_ptx_without_a_toolkit():
    result = run(
        [*PROGRAM, "--models", "gpt2-mlp", "--grids", "tp1"], env={"CUDA_HOME": "/nonexistent"}
    ).check()
    assert "no ptxas found: nothing was assembled" in result.stdout, result


HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
SPILLS = (
    """.visible .entry KERNEL(.param .u64 p)
.maxnreg 24
{
  .reg .b64 %rd<3>; .reg .f32 %f<65>;
  ld.param.u64 %rd1, [p];
"""
    + "".join(f"  ld.volatile.global.f32 %f{i}, [%rd1+{4 * i}];\n" for i in range(64))
    + "".join(f"  st.volatile.global.f32 [%rd1+{4 * i}], %f{63 - i};\n" for i in range(64))
    + "  ret;\n}\n"
)
NARROW = """.visible .entry KERNEL(.param .u64 p)
{
  .reg .b64 %rd<3>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [p];
  ld.global.f32 %f1, [%rd1];
  st.global.f32 [%rd1+4], %f1;
  ret;
}
"""
SHARED = ".shared .align 4 .b8 KERNEL_variable0[2048];\n" + NARROW.replace(
    "  ret;", "  st.shared.f32 [KERNEL_variable0], %f1;\n  ret;"
)


DIVISIONS = """.visible .entry KERNEL(.param .u64 p)
{
  .reg .pred %p<3>; .reg .b32 %r<3>; .reg .b64 %rd<4>;
  mov.b64 %rd1, 7;
$L__BB_1:
  OUTER
$L__BB_2:
  INNER
  add.s64 %rd1, %rd1, 1;
  setp.lt.u64 %p1, %rd1, 9;
  @%p1 bra $L__BB_2;
  setp.lt.u64 %p2, %rd1, 10;
  @%p2 bra $L__BB_1;
  ret;
}
"""


def test_64_bit_divisions_in_inner_loops_are_found():
    long, short = "div.u64 %rd2, %rd1, %rd3;", "rem.u32 %r1, %r2, 3;"

    def find(outer, inner):
        return gpu_kernels.find_long_divisions(
            DIVISIONS.replace("OUTER", outer).replace("INNER", inner)
        )

    assert find(long, short) == [] and find(short, long) == [long]
    kernel = gpu_kernels.Kernel(
        "kernel_bad", DIVISIONS.replace("INNER", long), "elements", {}, 4, 4, ["a model"]
    )
    assert list(gpu_kernels.find_faults(kernel)) == [
        f"kernel_bad (a model): 64-bit division in an inner loop: {long}"
    ]


@pytest.mark.parametrize(
    "text,words",
    [
        (SPILLS, "bytes of spills"),
        (NARROW, "loads of 4 bytes, but rows allow 16"),
        (NARROW, "stores of 4 bytes, but rows allow 16"),
        (SHARED, "2048 shared bytes; the maximum of elements is 0"),
        (NARROW, "registers; the maximum of elements is 2"),
        (NARROW.replace("ld.global.f32 %f1", "ld.global.f99 %f1"), "ptxas rejects it"),
    ],
    ids=["spills", "loads", "stores", "shared", "registers", "refused"],
)
def test_violations_are_found(tmp_path, text, words):
    skip_without("ptxas", *(["nvdisasm"] if "rows allow" in words else []))
    ceiling = {"registers": 2 if "is 2" in words else 64, "shared_bytes": 0}
    bad = gpu_kernels.Kernel("kernel_bad", HEAD + text, "elements", ceiling, 16, 16, ["a model"])
    good = gpu_kernels.Kernel(
        "kernel_good",
        HEAD + NARROW,
        "elements",
        {"registers": 64, "shared_bytes": 0},
        4,
        4,
        ["a model"],
    )
    wrong = gpu_kernels.assemble(
        [good, bad], "sm_90", find_cuda_tool("ptxas"), find_cuda_tool("nvdisasm"), tmp_path
    )
    wrong += [line for kernel in (good, bad) for line in gpu_kernels.find_faults(kernel)]
    assert any(words in line for line in wrong), wrong
    assert all(line.startswith("kernel_bad (a model): sm_90: ") for line in wrong), wrong


def test_widths_of_accesses():
    """Split sizes, loops over two dimensions, mixed types, and predicated elements."""
    function = """    tpc_kernel.func @kernel(%x: memref<?x?xf32> of [n, _24.tp],
        %g: memref<?xf16> of [_24.tp]) -> (%y: memref<?x?xi1> of [n, _24.tp]) {
      tpc_kernel.rows (%i) in [n] {
        %s = tpc_kernel.fold sum (%j) in [_24.tp] adjacent : f32 init 0.0 identity -0.0 {
          %v = memref.load %x[%i, %j] : memref<?x?xf32>
          tpc_kernel.yield %v : f32
        }
        tpc_kernel.elements (%j) in [_24.tp] {
          %c = arith.cmpi slt, %j, %i : index
          %w = scf.if %c -> (f16) {
            %a = memref.load %g[%j] : memref<?xf16>
            scf.yield %a : f16
          } else {
            scf.yield %zero : f16
          }
          memref.store %b, %y[%i, %j] : memref<?x?xi1>
        }
      }
    }
"""

    def widths(grid, text=function, shape="row"):
        return gpu_kernels.find_widths(text, gpu_kernels.Grid.parse(grid), shape)

    # Rows of 24, 12, 8, 6 and of a size that depends on the rank.
    assert (
        widths("tp1") == (16, 8)
        and widths("tp2") == (16, 4)
        and widths("tp3") == (16, 8)
        and widths("tp4") == (8, 2)
    )
    assert widths("tp5") == (16, 8)
    # Sizes that are products.
    assert widths("tp1", function.replace("_24.tp]", '"_2.tp*_6"]')) == (16, 4)
    # Rows at a distance: of 24 + 2 or 24 + 4 elements.
    for more, lanes in ((2, 2), (4, 4)):
        apart = function.replace(
            "[n, _24.tp],\n", f'[n, _24.tp] rows 1 stride "_24.tp + _{more}",\n'
        )
        assert widths("tp1", apart) == (4 * lanes, 8), more
    unconditional = (
        function.replace("slt, %j, %i", "slt, %i, %i")
        .replace("xf32", "xf16")
        .replace(" : f32", " : f16")
    )
    assert widths("tp1", unconditional) == (16, 8)
    # A branch is next to another one that loads element by element.
    adjacent = """    tpc_kernel.func @kernel(%x: memref<?xf32> of [_8],
        %y: memref<?xf32> of [_8]) -> (%z: memref<?xf32> of [_8]) {
      tpc_kernel.elements (%j) in [_8] {
        %v = scf.if %c -> (f32) {
          %a = memref.load %x[%j] : memref<?xf32>
          scf.yield %a : f32
        } else {
          %k = arith.addi %j, %n : index
          %a = memref.load %y[%INDEX] : memref<?xf32>
          scf.yield %a : f32
        }
        memref.store %v, %z[%j] : memref<?xf32>
      }
    }
"""
    assert widths("tp1", adjacent.replace("INDEX", "k")) == (0, 16) and widths(
        "tp1", adjacent.replace("INDEX", "j")
    ) == (16, 16)


def matrix_vector_texts(folder):
    """PTX of the runtime's matrix-vector kernels for sm_90, by type and layout."""
    path = folder / "text.cpp"
    run([BUILD / "bin" / "tpc-library-kernels", path]).check()
    texts = {}
    for text in re.findall(r'R"ptx\((.*?)\)ptx"', path.read_text(), re.S):
        # As tpc/dependent_launch.h does.
        for comment, enabled in [
            ("// griddepcontrol.", "griddepcontrol."),
            (".version 7.0", ".version 7.8"),
            (".target sm_80", ".target sm_90"),
        ]:
            text = text.replace(comment, enabled)
        if found := re.search(r"\.entry tpc_gemv_(\w+)_\d\(", text):
            texts[found[1]] = text
    return texts


@pytest.mark.parametrize(
    "name",
    ["bf16_kn_fused", "bf16_nk"]
    + [
        pytest.param(name, marks=pytest.mark.long)
        for name in ["f32_kn", "f32_nk", "f32_kn_fused", "f16_kn", "f16_nk", "f16_kn_fused"]
        + ["bf16_kn"]
    ],
)
def test_weights_are_loaded_before_the_wait(tmp_path, name):
    """ptxas leaves the first eight loads of 16 bytes before griddepcontrol.wait, and spills no
    register.
    """
    skip_without("ptxas", "nvdisasm")
    ptx, cubin = tmp_path / "kernels.ptx", tmp_path / "kernels.cubin"
    ptx.write_text(matrix_vector_texts(tmp_path)[name])
    run([find_cuda_tool("ptxas"), "-arch=sm_90", ptx, "-o", cubin]).check()
    code = run([find_cuda_tool("nvdisasm"), "-c", cubin]).check().stdout
    kernels = re.split(r"^\.text\.(?=tpc_gemv_\w+:)", code, flags=re.M)[1:]
    assert len(kernels) == 4
    for kernel in kernels:
        early, late = kernel.split("ACQBULK", 1)
        assert len(re.findall(r"LDG\.E\.128", early)) == 8, kernel.partition(":")[0]
        assert "STG" not in early and "ATOM" not in early and "RED" not in early
        assert not re.search(r"\b(LDL|STL)\b", kernel)
        assert "PREEXIT" in early and "STG" in late
