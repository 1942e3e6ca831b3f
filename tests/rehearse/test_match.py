"""`modelplane match` answers as Kubernetes does, about a file, a class, a cluster or the whole fleet."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modelplane.cli import main
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
def test_a_line_of_a_batch_that_is_none_is_named(line: str) -> None:
    result = on_file("--batch", "-", "-o", "json", stdin='{"expression": "true"}\n' + line)
    assert result.exit_code == 1
    assert "-:2: " in result.stderr


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
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str], said: str) -> None:
    result = match(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "it is no JSON"),
        ("[]", "devices are an object"),
        ('{"a": {}}', "device a is no object with a driver"),
        ('{"a": {"driver": "d", "capacity": 4}}', "of device a are objects"),
        ('{"a": {"driver": "d", "attributes": {"x": 4}}}', "attribute x of device a"),
    ],
)
def test_a_file_of_devices_that_is_none_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(text)
    result = match("true", "--devices", str(path))
    assert result.exit_code == 1
    assert f"{path}: " in result.stderr
    assert said in result.stderr


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
