"""Python tools around the tpc compiler.

``python -m tpc.export``   make ONNX files of language models (needs torch and transformers)
``python -m tpc.weights``  write seeded weights beside an ONNX file that has none
``python -m tpc.compare``  compare outputs with ONNX Runtime
"""
