# lit: tools and substitutions of `// RUN:` lines.
#   tools of build/bin and build/test/bin, LLVM's FileCheck, not, split-file, mlir-opt; %python;
#   %source (top of the repository);
#   %corpus (optional real ONNX files: tests that use it say `REQUIRES: corpus`).
import os

import lit.formats

config.name = "tpc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".td"]
config.excludes = ["Unit", "Models", "Inputs", "lit.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.tpc_build_dir, "test", "lit")

path = [
    os.path.join(config.tpc_build_dir, "bin"),
    os.path.join(config.tpc_build_dir, "test", "bin"),
    config.llvm_tools_dir,
    os.environ["PATH"],
]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
config.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "HOME", "TPC_CORPUS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
if config.sanitize:
    config.available_features.add("sanitize")
    # MPI and MLIR do not free all memory before exit.
    config.environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")
if config.assertions == "ON":
    config.available_features.add("assertions")

config.substitutions.append(("%python", config.python))
config.substitutions.append(("%source", config.tpc_source_dir))
corpus = os.environ.get("TPC_CORPUS") or os.path.join(
    config.tpc_source_dir, "..", "shared", "corpus"
)
if os.path.isdir(corpus):
    config.available_features.add("corpus")
    config.substitutions.append(("%corpus", os.path.realpath(corpus)))
