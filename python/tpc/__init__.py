"""Run programs that the tpc compiler has made, and tools around it.

``tpc.load``               opens an executable or a library that tpcc has made, in this process
``python -m tpc.generate`` text from such a program
``python -m tpc.export``   make ONNX files of language models (needs torch and transformers)
``python -m tpc.weights``  write seeded weights beside an ONNX file that has none
``python -m tpc.compare``  compare outputs with ONNX Runtime
"""

from tpc.session import Generation, Port, Session, TpcError, load

__all__ = ["Generation", "Port", "Session", "TpcError", "load"]
