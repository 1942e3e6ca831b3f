"""`modelplane match` answers as Kubernetes does, about a file, a class, a cluster or the whole fleet."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modelplane.cli import main
from modelplane.plan.scene import Scene
from tests.kube.fake_api import FakeApi
from tests.plan.test_vectors import DATA, VECTORS, require_equal
from tests.rehearse.words import device, inference_class, inference_cluster

HOPPER = 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'


def match(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["match", *arguments], input=stdin)


def on_file(*arguments: str, stdin: str | None = None) -> Result:
    return match("--devices", str(DATA / "devices.json"), *arguments, stdin=stdin)


async def on_fleet(api: FakeApi, tmp_path: Path, *arguments: str) -> Result:
    config = tmp_path / "kubeconfig"
    config.write_text(api.kubeconfig_text())
    return await asyncio.to_thread(match, "--kubeconfig", str(config), *arguments)


def test_a_batch_answers_every_vector_as_kubernetes_does() -> None:
    result = on_file("--batch", str(DATA / "selectors.jsonl"), "--output", "json")
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(VECTORS) == 439
    for vector, answer in zip(VECTORS, answers, strict=True):
        assert answer.keys() in ({"compileError"}, {"results"})
        got = {"compile_error": answer["compileError"]} if "compileError" in answer else answer
        require_equal(vector["expression"], vector["base"], got)


def test_a_batch_comes_from_standard_input_too_and_blank_lines_are_nothing() -> None:
    result = on_file("--batch", "-", "-o", "json", stdin='{"expression": "true"}\n\n{"expression": "1"}\n')
    first, second = map(json.loads, result.stdout.splitlines())
    assert first["results"]["bare"] is True
    assert second == {"compileError": "must evaluate to bool or the unknown type, not int"}


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"expression": 1}', "7"])
def test_a_line_of_a_batch_that_is_none_is_answered_in_its_place_and_stops_nothing(line: str) -> None:
    asked = '{"expression": "true"}\n' + line + '\n{"expression": "1"}\n{"expression": "false"}\n'
    result = on_file("--batch", "-", "-o", "json", stdin=asked)
    first, bad, broken, last = map(json.loads, result.stdout.splitlines())
    assert (first["results"]["bare"], last["results"]["bare"]) == (True, False)
    assert bad.keys() == {"error"}
    assert bad["error"].startswith("-:2: ")
    assert broken == {"compileError": "must evaluate to bool or the unknown type, not int"}, "an answer, and no fault"
    assert (result.exit_code, "answered with an error: -:2\n" in result.stderr) == (1, True)


def test_a_line_that_is_no_unicode_or_nested_without_end_is_no_question(tmp_path: Path) -> None:
    """A log that was taken for a batch is answered in lines all the same."""
    path = tmp_path / "batch"
    path.write_bytes(b'{"expression": "\xff"}\n' + b"[" * 100_000 + b'\n{"expression": "true"}\n')
    result = on_file("--batch", str(path), "-o", "json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["error" in one for one in answers] == [True, True, False]
    assert result.exit_code == 1
    path.write_bytes(b"x\n" * 12)
    assert f"{path}:10 and 2 more" in on_file("--batch", str(path), "-o", "json").stderr


def test_text_that_is_no_unicode_is_an_answer_and_no_crash() -> None:
    result = on_file("--batch", "-", "-o", "json", stdin='{"expression": "device.driver == \\"\\ud800\\""}\n')
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["results"]["bare"] is False


def test_the_table_says_which_match_which_do_not_and_which_cannot_be_judged() -> None:
    result = on_file(HOPPER)
    assert result.exit_code == 0
    lines = dict(line.split(None, 1) for line in result.stdout.splitlines()[:-1])
    assert lines["h100"] == "matches"
    assert lines["l4"] == "does not match"
    assert lines["bare"].startswith("error: no such key: architecture")
    assert result.stdout.splitlines()[-1] == "1 match, 1 do not, 4 cannot be judged"


@pytest.mark.parametrize("output", ["table", "json"])
def test_an_expression_that_does_not_compile_is_refused_with_its_position(output: str) -> None:
    result = on_file("device.driver == gpu.nvidia.com", "-o", output)
    assert result.exit_code == 1
    assert "<input>:1:18: undeclared reference to 'gpu'" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give one EXPRESSION"),
        (["true", "--batch", "-"], "give one EXPRESSION"),
        (["true", "--class", "a", "--cluster", "b"], "give one"),
        (["--batch", "-"], "add --output json"),
        (["true", "--devices", "-", "--snapshot", "-"], "--devices and --snapshot are two places"),
        (["--batch", "-", "--devices", "-", "-o", "json"], "standard input, which can be read once"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str], said: str) -> None:
    result = match(*arguments, stdin="{}")
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it cannot be read as JSON"),
        ("[]", "devices are an object"),
        ('{"a": {"driver": "d"}, "a": {"driver": "e"}}', 'an object has "a" twice'),
        ('{"a": {}}', "device a is no object with a driver"),
        ('{"a": 5}', '$["a"]: device a is no object with a driver; give it one'),
        ('{"a": {"driver": "d", "capacity": 4}}', "of device a are objects"),
        ('{"a": {"driver": "d", "attributes": {"x": 4}}}', '$["a"].attributes["x"]: 4 is no object'),
    ],
)
def test_a_file_of_devices_that_is_none_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(text)
    result = match("true", "--devices", str(path))
    assert result.exit_code == 1
    assert f"{path}: " in result.stderr
    assert said in result.stderr


IMPOSSIBLE: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"x": {"string": 5}}, {}, '$["a"].attributes["x"]: 5 is no text', "a driver publishes typed values"),
    ({"x": {"strng": "a"}}, {}, "has strng; set exactly one of string, version", "a mistyped type matched nothing"),
    ({"x": {}}, {}, "has nothing; set exactly one of", "no value"),
    ({"x": {"int": 1, "bool": True}}, {}, "has int, bool; set exactly one of", "two values"),
    ({"x": {"int": True}}, {}, "true is no whole number", "in JSON a bool is no number"),
    ({"x": {"int": 1.5}}, {}, "1.5 is no whole number", "CEL would see a double"),
    ({"x": {"int": 2**63}}, {}, "9223372036854775808 does not fit 64 bits", "an int64"),
    ({"x": {"bool": "yes"}}, {}, '"yes" is neither true nor false', "text is not false"),
    ({"x": {"string": "é" * 33}}, {}, "66 bytes of text; at most 64 can be published", "bytes count, as in Kubernetes"),
    ({"x": {"version": 1}}, {}, "1 is no text", "a version is text"),
    ({"x": {"strings": []}}, {}, "[] is no list with at least one value", "a list has values"),
    ({"x": {"ints": [1, "a"]}}, {}, '"a" is no whole number', "of one type"),
    ({"1x": {"int": 1}}, {}, "the name '1x' must be", "no CEL name"),
    ({"UP/x": {"int": 1}}, {}, "the domain 'UP' must be a DNS subdomain", "domains are lower case"),
    ({}, {"m": "80Gb"}, '$["a"].capacity["m"]: "80Gb" is no quantity such as 80Gi', "Gb is no suffix"),
    ({}, {"m": {"value": "x"}}, '"x" is no quantity', "the long form too"),
    ({}, {"m": True}, "true is no quantity", "no number"),
    ({}, {"m": ["x" * 99]}, " ... is no quantity", "long values are cut"),
    ({f"a{n}": {"int": n} for n in range(33)}, {}, "33 attributes and capacities; a device has at most 32", "a bound"),
]


@pytest.mark.parametrize(("attributes", "capacity", "said", "reason"), IMPOSSIBLE, ids=[case[3] for case in IMPOSSIBLE])
def test_a_device_that_no_driver_could_publish_is_refused_with_its_path(
    tmp_path: Path, attributes: dict[str, Any], capacity: dict[str, Any], said: str, reason: str
) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({"a": {"driver": "d", "attributes": attributes, "capacity": capacity}}))
    result = match("true", "--devices", str(path))
    assert (result.exit_code, result.stdout) == (1, ""), reason
    assert f"{path}: " in result.stderr
    assert said in result.stderr, reason


@pytest.mark.parametrize("name", ["", " ", "x\nGPU matches", "\x1b[2J"])
def test_a_device_is_not_called_what_would_forge_an_answer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps({name: {"driver": "d"}}))
    result = match("true", "--devices", str(path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "a device needs a name of printable characters" in result.stderr


@pytest.mark.parametrize("expression", ["true && (", "device.drivr", "true ? 1 : 'a'"])
def test_every_fault_of_an_expression_is_told_as_kubernetes_tells_it(expression: str) -> None:
    result = match(expression, "--devices", "-", "-o", "json", stdin="{}")
    assert json.loads(result.stdout)["compileError"].startswith("compilation failed: ERROR: <input>:1:")


def test_an_outcome_that_is_no_truth_value_is_an_error_of_its_device() -> None:
    device = {"d": {"driver": "d", "attributes": {"x": {"int": 1}}}}
    result = match('device.attributes["d"].x', "--devices", "-", "-o", "json", stdin=json.dumps(device))
    assert json.loads(result.stdout) == {
        "results": {"d": "error: CEL result of type int could not be converted to bool"}
    }


def test_every_fault_of_a_file_of_devices_is_told_up_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    bad = {"driver": "Not a driver", "atributes": {}, "capacity": {"m": "x"}}
    path.write_text(json.dumps({"a": bad, "b": bad, "c": bad, "d": bad}))
    told = match("true", "--devices", str(path)).stderr.splitlines()
    assert "unknown field atributes; a device has driver, attributes and capacity" in told[0]
    assert "the driver 'Not a driver' must be a DNS subdomain" in told[1]
    assert [line for line in told if str(path) not in line] == []
    assert told[-1] == f"{path}: and 2 more"


def test_devices_of_every_type_are_taken_and_a_version_that_is_none_is_one_devices_error() -> None:
    attributes = {
        "s": {"string": ""},
        "d.com/b": {"bool": False},
        "i": {"int": -(2**63)},
        "v": {"version": "1.0.0"},
        "l": {"bools": [True]},
    }
    lists = {"driver": "d.com", "attributes": attributes, "capacity": {"m": {"value": 3}, "n": 1.5}, "nodeName": "n"}
    full = {**lists, "attributes": {name: value for name, value in attributes.items() if name != "l"}}
    old = {"driver": "d.com", "attributes": {"v": {"version": "9.0"}}, "capacity": None}
    result = match(
        'device.capacity["d.com"].m.isGreaterThan(quantity("2"))',
        *("--devices", "-", "-o", "json"),
        stdin=json.dumps({"full": full, "old": old, "lists": lists}),
    )
    results = json.loads(result.stdout)["results"]
    assert results["full"] is True
    assert results["old"].startswith("error: attribute v: parse semantic version")
    assert results["lists"] == "error: attribute l: unsupported attribute value", "lists are behind a feature gate"


def test_a_snapshot_answers_like_the_fleet_that_it_was_taken_of(tmp_path: Path) -> None:
    objects = [
        inference_cluster("west", devices=[device("gpu", "Ampere")]),
        inference_cluster("east"),
        inference_class("ada", device("gpu", "Ada")),
    ]
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps(Scene(objects, "2026-11-29T12:00:00Z").document()))

    def asked(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
        result = match(HOPPER, "-o", "json", *arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)["results"]
        return found

    assert asked("--snapshot", str(path)) == {"east/default/gpu": True, "west/default/gpu": False}
    assert asked("--snapshot", "-", stdin=path.read_text()) == asked("--snapshot", str(path))
    assert asked("--snapshot", str(path), "--cluster", "east") == {"east/default/gpu": True}
    assert asked("--snapshot", str(path), "--class", "ada") == {"ada/gpu": False}
    for place, said in (("--cluster", "InferenceCluster x; there are: east, west"), ("--class", "InferenceClass x")):
        result = match(HOPPER, "--snapshot", str(path), place, "x")
        assert (result.exit_code, f"{path}: there is no {said}" in result.stderr) == (1, True)


async def test_the_whole_fleet_a_cluster_and_a_class_are_asked_by_name(tmp_path: Path) -> None:
    async with FakeApi() as api:
        await api.put(inference_cluster("west", pools={"default": 2}, devices=[device("gpu", "Ampere")]))
        await api.put(inference_cluster("east", pools={"default": 2, "big": 1}))
        await api.put(inference_class("ada", device("gpu", "Ada"), device("spare")))

        async def asked(*arguments: str) -> dict[str, Any]:
            result = await on_fleet(api, tmp_path, HOPPER, "-o", "json", *arguments)
            assert result.exit_code == 0, result.output
            found: dict[str, Any] = json.loads(result.stdout)["results"]
            return found

        assert await asked() == {"east/default/gpu": True, "east/big/gpu": True, "west/default/gpu": False}
        assert await asked("--cluster", "west") == {"west/default/gpu": False}
        assert await asked("--class", "ada") == {"ada/gpu": False, "ada/spare": True}
        missing = await on_fleet(api, tmp_path, HOPPER, "--cluster", "north")
        assert missing.exit_code == 1
        assert "there is no InferenceCluster north; there are: east, west" in missing.stderr
        missing = await on_fleet(api, tmp_path, HOPPER, "--class", "hopper")
        assert (missing.exit_code, "there is no InferenceClass hopper; there are: ada" in missing.stderr) == (1, True)


async def test_a_fleet_without_devices_is_said(tmp_path: Path) -> None:
    async with FakeApi() as api:
        result = await on_fleet(api, tmp_path, "true")
    assert result.exit_code == 0
    assert "no devices on any cluster" in result.stderr


def test_a_file_without_devices_is_said_by_name(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text("{}")
    result = match("true", "--devices", str(path))
    assert (result.exit_code, result.stderr) == (0, f"no devices in {path}\n")
