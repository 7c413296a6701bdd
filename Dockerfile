# Image with tpc's wheel and installed tools, without LLVM's packages.
#
#     docker build -t tpc .
#     docker run --rm tpc python -m tpc.generate ./stories --tokenizer /opt/tpc/share/stories \
#         --prompt "Once upon a time"

FROM debian:12 AS build
WORKDIR /src
# Debian's packages are a layer of their own: only a change of this script installs them again.
COPY setup ./
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates \
    && ./setup packages
COPY . .
# The wheel.
RUN python3 -m venv /opt/wheel \
    && /opt/wheel/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# The same tools below a prefix, with the shared libraries that they need.
RUN ./setup build \
    && cmake -D TPC_BUNDLE_LIBRARIES=ON build \
    && cmake --build build --target tpc-product \
    && cmake --install build --component tpc --prefix /opt/tpc

FROM debian:12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends libstdc++6 openmpi-bin python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/tpc /opt/tpc
COPY --from=build /wheels /wheels
COPY test/Models/stories /opt/tpc/share/stories
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir numpy tokenizers /wheels/*.whl \
    && rm -r /wheels
ENV PATH=/opt/venv/bin:/opt/tpc/bin:/usr/bin:/bin
WORKDIR /work
# Compiles and runs the story model with the tools of the prefix, then with those of the wheel.
RUN /opt/tpc/bin/tpcc /opt/tpc/share/stories/stories.onnx --megatron-shard=tp2,pp2 \
        --march=x86-64-v3 --generate -o stories \
    && python -m tpc.generate ./stories --tokenizer /opt/tpc/share/stories \
        --prompt "Once upon a time" \
    && python -c 'import tpc; \
print(tpc.compile("/opt/tpc/share/stories/stories.onnx", generate=True, cache=False).generate("Once"))'
CMD ["tpcc", "--help"]
