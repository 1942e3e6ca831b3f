"""The encoder against Google's own, and its strictness."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelplane.gateway import wire

VALUES = {
    "strings, wrappers and nested messages": (
        "envoy.config.endpoint.v3.ClusterLoadAssignment",
        {
            "cluster_name": "ü/0",
            "endpoints": [
                {
                    "lb_endpoints": [
                        {
                            "endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 65535}}},
                            "load_balancing_weight": 300,
                        }
                    ]
                }
            ],
        },
    ),
    "durations, enumerations, booleans, maps": (
        "envoy.config.cluster.v3.Cluster",
        {
            "name": "a",
            "connect_timeout": "1.25s",
            "lb_policy": "ROUND_ROBIN",
            "ignore_health_on_host_removal": True,
            "common_lb_config": {"healthy_panic_threshold": {"value": 0.5}},
        },
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_what_is_encoded_decodes_to_the_same(case: str) -> None:
    message, value = VALUES[case]
    decoded = wire.decode(message, wire.encode(message, value))
    assert decoded.keys() == value.keys()
    name = "cluster_name" if "cluster_name" in value else "name"
    assert decoded[name] == value[name]


def test_the_well_known_types_are_those_of_google_s_library() -> None:
    any_pb2 = pytest.importorskip("google.protobuf.any_pb2", reason="protobuf comes with the extra `local`")
    from google.protobuf import duration_pb2, json_format, struct_pb2, wrappers_pb2

    struct = {"a": [1, None, True, "x", {"b": 2.5}]}
    parsed = struct_pb2.Struct()
    parsed.ParseFromString(wire.encode("google.protobuf.Struct", struct))
    assert json_format.MessageToDict(parsed) == struct
    duration = duration_pb2.Duration()
    duration.ParseFromString(wire.encode("google.protobuf.Duration", "3.000000005s"))
    assert (duration.seconds, duration.nanos) == (3, 5)
    number = wrappers_pb2.UInt32Value()
    number.ParseFromString(wire.encode("google.protobuf.UInt32Value", 0))
    assert number.value == 0
    packed = any_pb2.Any()
    packed.ParseFromString(wire.any_of("google.protobuf.UInt32Value", 7))
    assert packed.Unpack(number)
    assert number.value == 7


WRONG = {
    "an unknown field": ({"nmae": "a"}, "has no field 'nmae'"),
    "a number for a text": ({"name": 1}, "Cluster.name cannot be 1"),
    "an unknown word": ({"lb_policy": "RANDOMISH"}, "lb_policy cannot be 'RANDOMISH'"),
    "a bare number as duration": ({"connect_timeout": 1}, "written like '1.5s'"),
    "one thing for a list": ({"health_checks": {}}, "must be a list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_an_error_that_names_the_field(case: str) -> None:
    value, words = WRONG[case]
    with pytest.raises(wire.WireError, match=words.replace("(", "\\(")):
        wire.encode("envoy.config.cluster.v3.Cluster", value)


def test_a_message_that_is_cut_short_is_an_error() -> None:
    data = wire.encode("envoy.config.cluster.v3.Cluster", {"name": "abcdef"})
    with pytest.raises(wire.WireError, match="cut short"):
        wire.decode("envoy.config.cluster.v3.Cluster", data[:-1])


def test_the_committed_schema_is_that_of_the_installed_envoy() -> None:
    script = Path(__file__).parents[2] / "scripts" / "generate_envoy_schema.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
