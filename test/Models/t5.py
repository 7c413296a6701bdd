"""Makes t5/: the decoders, without and with a past, of the T5 of encoders.py by optimum.

pip install torch transformers==4.57.6 optimum==2.1 optimum-onnx
python test/Models/t5.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import encoders

FOLDER = Path(__file__).resolve().parent / "t5"


def main() -> int:
    from optimum.exporters.onnx import onnx_export_from_model

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        onnx_export_from_model(
            encoders.build("t5"),
            Path(folder),
            opset=18,
            task="text2text-generation-with-past",
            no_post_process=True,
            do_validation=False,
        )
        for name in ("decoder_model.onnx", "decoder_with_past_model.onnx"):
            shutil.copy(Path(folder) / name, FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
