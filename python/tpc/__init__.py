"""Compile ONNX transformers, split over ranks, and run the programs.

``tpc.compile``            compiles a model and opens its program in this process
``tpc.load``               opens an executable or a library that tpcc has made, in this process
``python -m tpc.generate`` text from such a program
``python -m tpc.export``   make ONNX files of language models (needs torch and transformers)
``python -m tpc.weights``  write seeded weights beside an ONNX file that has none
``python -m tpc.compare``  compare outputs with ONNX Runtime
"""

from tpc.compiler import CompiledSession, CompileError, Message, compile
from tpc.session import Generation, Port, Session, TpcError, load

__all__ = ["CompileError", "CompiledSession", "Generation", "Message", "Port", "Session", "TpcError", "compile", "load"]
