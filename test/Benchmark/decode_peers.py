"""Other engines that generate from GPT-2 124M on CPUs in f32, in their documented configuration.

An engine takes a prompt (`prefill`) and then one token at a time (`step`). Its cache stays in its
own buffers. Token selection is not part of the times.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np


class OnnxRuntime:
    """Session with bound inputs and outputs.

    Each step reads the present caches of the previous step as its past, without a copy.
    """

    name = "ONNX Runtime"

    def __init__(self, model: Path, threads: int):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        self.make = onnxruntime.OrtValue.ortvalue_from_numpy
        self.session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self.shapes = {port.name: port.shape for port in self.session.get_inputs()}
        self.pasts = [name for name in self.shapes if name.startswith("past_key_values.")]
        self.outputs = [port.name for port in self.session.get_outputs()]
        self.present_index = {
            name: self.outputs.index(name.replace("past_key_values", "present"))
            for name in self.pasts
        }
        self.cache, self.length = {}, 0

    def reset(self) -> None:
        self.cache = {
            name: self.make(
                np.zeros((1, self.shapes[name][1], 0, self.shapes[name][3]), np.float32)
            )
            for name in self.pasts
        }
        self.length = 0

    def run(self, ids: np.ndarray) -> None:
        binding = self.session.io_binding()
        end = self.length + ids.shape[1]
        given = {
            "input_ids": ids,
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(self.length, end)[None],
        }
        arrays = {name: self.make(given[name]) for name in given if name in self.shapes}
        for name, value in arrays.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in self.cache.items():
            binding.bind_ortvalue_input(name, value)
        for name in self.outputs:
            binding.bind_output(name, "cpu")
        self.session.run_with_iobinding(binding)
        values = binding.get_outputs()
        self.cache = {name: values[index] for name, index in self.present_index.items()}
        self.length = end

    def prefill(self, ids: np.ndarray) -> None:
        self.reset()
        self.run(ids)

    def step(self, token: int) -> None:
        self.run(np.array([[token]]))


class OpenVino:
    """Converts pairs of cache inputs and outputs to state variables of the model."""

    name = "OpenVINO"

    def __init__(self, model: Path, threads: int):
        import openvino
        from openvino._offline_transformations import apply_make_stateful_transformation

        core = openvino.Core()
        graph = core.read_model(str(model))
        pasts = [
            name
            for port in graph.inputs
            for name in port.names
            if name.startswith("past_key_values.")
        ]
        for port in graph.inputs:
            shape = port.get_partial_shape()
            shape[0] = 1  # initial size of the state variable: one row, no tokens
            port.get_node().set_partial_shape(shape)
        graph.validate_nodes_and_infer_types()
        apply_make_stateful_transformation(
            graph, {name: name.replace("past_key_values", "present") for name in pasts}
        )
        self.names = {name for port in graph.inputs for name in port.names}
        self.request = core.compile_model(
            graph,
            "CPU",
            {
                "INFERENCE_NUM_THREADS": threads,
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": "f32",
                "KV_CACHE_PRECISION": "f32",
            },
        ).create_infer_request()
        self.length = 0

    def run(self, ids: np.ndarray) -> None:
        end = self.length + ids.shape[1]
        given = {
            "input_ids": ids,
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(self.length, end)[None],
        }
        self.request.infer(
            {name: array for name, array in given.items() if name in self.names}, share_outputs=True
        )
        self.length = end

    def prefill(self, ids: np.ndarray) -> None:
        self.request.reset_state()
        self.length = 0
        self.run(ids)

    def step(self, token: int) -> None:
        self.run(np.array([[token]]))


class Torch:
    """transformers' GPT-2 (its own random weights) with its default cache."""

    name = "PyTorch"

    def __init__(self, model: Path, threads: int):
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = GPT2LMHeadModel(GPT2Config()).eval()
        self.cache = None

    def run(self, ids: np.ndarray) -> None:
        with self.torch.inference_mode():
            self.cache = self.model(
                self.torch.from_numpy(ids),
                past_key_values=self.cache,
                use_cache=True,
                logits_to_keep=1,
            ).past_key_values

    def prefill(self, ids: np.ndarray) -> None:
        self.cache = None
        self.run(ids)

    def step(self, token: int) -> None:
        self.run(np.array([[token]]))


def main() -> None:
    """Arguments: NAME MODEL THREADS. Prints a line when ready, and then for each input line {"ids":
    …, "steps": N} the duration of each step.
    """
    name, model, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    try:
        peer = next(peer for peer in (OnnxRuntime, OpenVino, Torch) if peer.name == name)(
            model, threads
        )
    except ImportError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        begin = time.perf_counter()
        peer.prefill(np.array(request["ids"]))
        times = [time.perf_counter()]
        for step in range(request["steps"]):
            peer.step(step)
            times.append(time.perf_counter())
        print(
            json.dumps(
                {"prefill": times[0] - begin, "steps": [b - a for a, b in zip(times, times[1:])]}
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
