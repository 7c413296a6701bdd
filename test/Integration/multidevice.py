"""Writes ONNX's multi-device fields (IR version 11) with the onnx package alone."""

from __future__ import annotations

import onnx


def configure(model: onnx.ModelProto, name: str, devices: int) -> None:
    model.ir_version = max(model.ir_version, 11)
    model.configuration.add(name=name, num_devices=devices)


def nodes_with(model: onnx.ModelProto, tensor: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if tensor in node.input]


def of_node(node: onnx.NodeProto, configuration: str) -> onnx.NodeDeviceConfigurationProto:
    """Returns the node's entry in a configuration; adds one if there is none."""
    for part in node.device_configurations:
        if part.configuration_id == configuration:
            return part
    return node.device_configurations.add(configuration_id=configuration)


def shard(
    model: onnx.ModelProto, configuration: str, tensor: str, devices: list, dims: dict
) -> None:
    """Splits a tensor in all nodes that use it.

    devices: for each shard, a device or a list of devices with copies. dims: axis -> number of
    shards, or a list of (size, number of shards), major to minor, if the dimension is a product.
    """
    users = nodes_with(model, tensor)
    assert users, tensor
    for node in users:
        spec = of_node(node, configuration).sharding_spec.add(tensor_name=tensor)
        for index, device in enumerate(devices):
            if isinstance(device, int):
                spec.device.append(device)
            else:
                spec.device.append(-1 - index)
                spec.index_to_device_group_map.add(key=-1 - index, value=device)
        for axis, parts in dims.items():
            dim = spec.sharded_dim.add(axis=axis)
            if isinstance(parts, int):
                dim.simple_sharding.add(num_shards=parts)
            else:
                for size, shards in parts:
                    dim.simple_sharding.add(dim_value=size, num_shards=shards)


def stage(model: onnx.ModelProto, configuration: str, stage_of) -> None:
    """Sets the pipeline stages of nodes. `stage_of`: node -> stage, or None for no entry."""
    for node in model.graph.node:
        number = stage_of(node)
        if number is not None:
            of_node(node, configuration).pipeline_stage = number
