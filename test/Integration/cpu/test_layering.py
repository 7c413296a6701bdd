"""Includes between folders, links between libraries: exactly those of docs/dev/folders.md."""

import collections
import re

from harness import TOP

FOLDERS = ("include/tpc", "lib", "tools", "runtime", "test/Simulator")
NESTED = ("Transforms", "Import", "Export", "Analysis", "Verify", "Conversion", "transport")


def folder_of(path):
    """Returns the row of a file or folder, such as Transforms/Model or runtime/transport/mpi."""
    parts = list(path.relative_to(TOP).parts)
    top = parts.pop(0)
    if top == "tools":
        return "tools"
    if top == "test":
        return "/".join([top, *parts[:2]])
    if top == "include":
        parts.pop(0)
    names = parts[:2] if parts[0] in NESTED and len(parts) > 2 else parts[:1]
    return "/".join((["runtime"] if top == "runtime" else []) + names)


def find(name, includer):
    """Returns the file of the repository that `#include "name"` refers to. For a generated file in
    a folder of include/, returns its path there. Returns None for other files.
    """
    roots = [
        includer.parent,
        TOP / "include",
        TOP / "lib",
        TOP / "runtime",
        TOP / "runtime" / "include",
        TOP / "test" / "Simulator",
    ]
    for root in roots:
        if (root / name).is_file():
            return (root / name).resolve()
    generated = TOP / "include" / name
    return (
        generated if name.endswith(".inc") and "/" in name and generated.parent.is_dir() else None
    )


def derive_includes():
    found = collections.defaultdict(set)
    for top in FOLDERS:
        for path in sorted((TOP / top).rglob("*")):
            if (
                path.suffix not in (".h", ".cpp", ".td", ".c")
                or "test" in path.relative_to(TOP / top).parts
            ):
                continue
            folder = folder_of(path)
            found[folder]
            for name in re.findall(r'^\s*#?include "([^"]+)"', path.read_text(), re.M):
                target = find(name, path)
                if target and folder_of(target) != folder:
                    found[folder].add(folder_of(target))
    return found


def derive_links():
    """Returns for each folder the compiler's libraries that its library links."""
    folders, links = {}, {}
    for path in sorted((TOP / "lib").rglob("CMakeLists.txt")):
        if made := re.search(r"tpc_add_library\((\w+)(.*?)\)", path.read_text(), re.S):
            folders[made[1]] = (
                folder_of(path.parent / "x" / "x")
                if path.parent.parent != TOP / "lib"
                else path.parent.name
            )
            links[made[1]] = re.findall(r"\bTPC\w+", made[2])
    return {
        folders[name]: {folders[other] for other in others if other in folders}
        for name, others in links.items()
    }


def read_declared(links=False):
    """Returns for each folder the folders that it includes or, with `links`, those that its library
    also links.
    """
    table = (TOP / "docs" / "dev" / "folders.md").read_text()
    rows = re.findall(r"^\| `([\w/]+)` \| ([^|]*) \|", table, re.M)
    return {
        folder: set(re.findall(r"`([\w/]+)`", text if links else text.split(";")[0]))
        for folder, text in rows
    }


def reach(graph, folder, seen=()):
    """Returns all folders that a folder includes, directly or indirectly."""
    assert folder not in seen, f"a circle: {' -> '.join([*seen, folder])}"
    return (
        set().union(*({other} | reach(graph, other, (*seen, folder)) for other in graph[folder]))
        if graph[folder]
        else set()
    )


def test_includes_are_declared():
    declared, derived = read_declared(), derive_includes()
    wrong = [
        f"{folder} includes {other}, which is not declared"
        for folder in derived
        for other in derived[folder] - declared.get(folder, set())
    ]
    wrong += [f"{folder} is not in the table" for folder in set(derived) - set(declared)]
    wrong += [
        f"{folder} does not include {other}, although that is declared"
        for folder in declared
        for other in declared[folder] - derived.get(folder, set())
    ]
    assert not wrong, "\n".join(wrong)


def test_includes_have_no_cycles():
    declared = read_declared(links=True)
    for folder in declared:
        reach(declared, folder)


def test_libraries_link_what_their_folders_include():
    declared, links = read_declared(links=True), derive_links()
    assert len(links) >= 12
    for folder, others in links.items():
        if folder != "Driver":  # links all
            assert others <= reach(declared, folder), folder


# Names that only the folders of one target may use, and the files that register the target.
TARGETS = {
    "Cpu": dict(
        folders=(
            "include/tpc/Conversion/Cpu",
            "lib/Conversion/Cpu",
            "runtime/cpu",
            "tools/tpc-probe",
        ),
        headers=r'"(?:tpc/Conversion/Cpu/|Cpu/|cpu/)',
        names=r"\bcpuDevices\b|\bcpuTarget\b|\bisCpu\w*",
        registered=(
            "lib/Driver/Register.cpp",
            "lib/Driver/RegisterPasses.cpp",
            "lib/Driver/PassPipelines.cpp",
            "runtime/core/DeviceSelection.cpp",
            "runtime/core/Device.h",
        ),
    ),
    "Cuda": dict(
        folders=(
            "include/tpc/Conversion/Cuda",
            "lib/Conversion/Cuda",
            "runtime/cuda",
            "tools/tpc-library-kernels",
            "test/Simulator/Cuda",
            "test/Simulator/CublasLt",
            "test/Simulator/Nccl",
        ),
        headers=r'"(?:tpc/Conversion/Cuda/|Cuda/|cuda/|cuda\.h|nccl\.h|cublas|cudnn)'
        r"|<(?:cuda|nccl|cublas|cudnn)",
        names=r"\bcudaDevices\b|\bcudaTarget\b|\bisCuda\w*|\bNVVM\b",
        registered=(
            "lib/Driver/Register.cpp",
            "lib/Driver/RegisterPasses.cpp",
            "lib/Driver/PassPipelines.cpp",
            "runtime/core/DeviceSelection.cpp",
            "runtime/core/Device.h",
        ),
    ),
}


def test_targets_are_named_only_in_their_folders():
    strangers, num_files = [], collections.Counter()
    for top in FOLDERS:
        for path in sorted((TOP / top).rglob("*")):
            name = str(path.relative_to(TOP))
            if (
                path.suffix not in (".h", ".cpp", ".td", ".c")
                or name.startswith("runtime/conformance/")
                or "test" in path.parts
            ):
                continue
            text = path.read_text()
            for target, what in TARGETS.items():
                if name.startswith(tuple(folder + "/" for folder in what["folders"])):
                    num_files[target] += 1
                elif found := re.findall(
                    rf'^\s*#?include {what["headers"]}.*|^(?!\s*//).*(?:{what["names"]}).*',
                    text,
                    re.M,
                ):
                    if name not in what["registered"]:
                        strangers += [f"{name}: {line.strip()}" for line in found]
            # Code must not compare a target's name: TargetTraits.h has the target's properties.
            strangers += [
                f"{name}: {line}"
                for line in re.findall(r'.*\bname\s*[!=]=\s*"(?:cpu|cuda)".*', text)
            ]
    assert num_files["Cpu"] > 10
    assert not strangers, "\n".join(strangers)


def test_sizes_are_parsed_only_by_readers():
    """Attributes store parsed sizes: only their parsers and readers of ONNX files handle text."""
    found = {
        str(path.relative_to(TOP))
        for folder in ("include", "lib", "tools")
        for path in (TOP / folder).rglob("*")
        if path.suffix in (".cpp", ".h", ".td")
        and "Support" not in path.parts
        and "SymExpr::parse(" in path.read_text()
    }
    assert found == {
        "lib/Dialect/SymExprAttr.cpp",
        "lib/Import/ONNX/DeclaredSizes.cpp",
        "lib/Import/ONNX/MultiDevice.cpp",
    }


def test_the_symbol_of_programs_has_the_version_of_the_abi():
    """An executable and a runtime library of different versions must not link."""
    header = (TOP / "runtime" / "include" / "tpc" / "runtime.h").read_text()
    version = re.search(r"#define TPC_ABI_VERSION (\d+)", header)[1]
    assert re.findall(r"tpc_program_v(\d+)", header) == [version]
