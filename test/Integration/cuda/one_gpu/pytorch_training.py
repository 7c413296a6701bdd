"""Training steps of benchmark shapes in PyTorch: AdamW in f32, matmuls in bf16 by autocast.

python3 -m one_gpu.pytorch_training MODEL      (JSON; a line of JSON for each result)
"""

from __future__ import annotations

import json
import sys

import torch
from torch.nn import functional as F

from one_gpu.pytorch import Gpt, Llama, median_seconds

REPEAT = 10
WAYS = {"eager": None, "compiled": {}}


def main() -> None:
    geometry = json.loads(sys.argv[1])
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = {"gpt": Gpt, "llama": Llama}[geometry["kind"]](geometry)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        shape = (geometry["batch"], geometry["sequence"] + 1)
        ids = torch.randint(0, geometry["vocab"], shape)
        for way, options in WAYS.items():
            row = {"way": way}
            try:
                function = (
                    model if options is None else torch.compile(model, dynamic=False, **options)
                )

                def step():
                    optimizer.zero_grad()
                    with torch.autocast("cuda", torch.bfloat16):
                        logits = function(ids[:, :-1])
                        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                    loss.backward()
                    optimizer.step()
                    loss.item()  # waits for the device

                row["seconds"] = median_seconds(step, REPEAT)
            except Exception as error:  # of one way; the other may work
                row["problem"] = f"{type(error).__name__}: {error}"[:300]
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
