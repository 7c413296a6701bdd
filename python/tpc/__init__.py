"""Compile ONNX transformers, split over ranks, and run the programs.

``tpc.compile``            compiles a model and opens its program in this process
``tpc.load``               opens an executable or a library of tpcc in this process
``python -m tpc.generate`` generates text with such a program
``python -m tpc.export``   makes ONNX files of language models (needs torch and transformers)
``python -m tpc.weights``  writes seeded weights next to an ONNX file that has none
``python -m tpc.compare``  compares outputs with ONNX Runtime
``python -m tpc.checkpoint`` exports the weights of a checkpoint of training
``python -m tpc.trace``    compares a simulated with a measured trace
"""

from tpc.compiler import CompiledSession, CompileError, Message, compile
from tpc.generation import Generation
from tpc.library import TpcError
from tpc.session import Port, Session, load

__all__ = [
    "CompileError",
    "CompiledSession",
    "Generation",
    "Message",
    "Port",
    "Session",
    "TpcError",
    "compile",
    "load",
]
