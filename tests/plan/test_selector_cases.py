"""The published selector cases C1 to C39. Where they differ from real Kubernetes (compile errors, libraries), Kubernetes wins."""

from __future__ import annotations

from typing import Any

import pytest

from modelplane.plan.cel import BoundDevice, SelectorError, compile_selector

A = 'device.attributes["gpu.nvidia.com"]'
C = 'device.capacity["gpu.nvidia.com"]'


def device(driver: str = "gpu.nvidia.com", capacity: dict[str, str] | None = None, **attributes: Any) -> BoundDevice:
    kinds = {str: "string", bool: "bool", int: "int"}
    typed = {
        name: value if isinstance(value, dict) else {kinds[type(value)]: value} for name, value in attributes.items()
    }
    return BoundDevice(driver, typed, {name: {"value": amount} for name, amount in (capacity or {}).items()})


G = device(
    capacity={"memory": "141Gi"},
    architecture="Hopper",
    cudaComputeCapability={"version": "9.5.3"},
    **{"resource.kubernetes.io/pcieRoot": "pci0"},
)
N = device("nic.nvidia.com", linkType="infiniband")

MATCHES = [
    ("C1", 'device.driver == "gpu.nvidia.com"', G, True, "the driver"),
    ("C1 other", 'device.driver == "nic.nvidia.com"', G, False, "another driver"),
    ("C2", f'{C}.memory.compareTo(quantity("141Gi")) >= 0', G, True, "at least as much"),
    ("C2 more", f'{C}.memory.compareTo(quantity("200Gi")) >= 0', G, False, "not as much"),
    ("C3", f'{C}.memory.isGreaterThan(quantity("80Gi")) && {C}.memory.isLessThan(quantity("200Gi"))', G, True, "between"),
    ("C4", f"sign({C}.memory) == 1 && {C}.memory.isInteger() && {C}.memory.asInteger() == 141 * 1073741824",
     G, True, "as a number"),
    ("C5", f'{C}.memory.add(quantity("1Gi")) == quantity("142Gi")', G, True, "arithmetic"),
    ("C6", f'{A}.cudaComputeCapability.isGreaterThan(semver("9.0.0"))', G, True, "a newer version"),
    ("C6 newer", f'{A}.cudaComputeCapability.isGreaterThan(semver("9.9.0"))', G, False, "not so new"),
    ("C7", f'{A}.cudaComputeCapability.major() == 9 && {A}.cudaComputeCapability.minor() == 5 && '
     f'{A}.cudaComputeCapability.patch() == 3 && {A}.cudaComputeCapability == semver("9.5.3")', G, True, "parts of a version"),
    ("C8", f'{A}.architecture == "Hopper"', G, True, "a string attribute"),
    ("C9", 'device.attributes["nic.nvidia.com"].linkType == "infiniband"', N, True, "of a nic"),
    ("C10", f"{A}.x", device(x=True), True, "a bool attribute alone"),
    ("C10 false", f"{A}.x", device(x=False), False, "which is false"),
    ("C11", f"{A}.x >= 8", device(x=8), True, "a number"),
    ("C11 less", f"{A}.x >= 8", device(x=4), False, "a smaller number"),
    ("C12", 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0"', G, True, "another domain"),
    ("C13", f'{A}.cudaComputeCapability.isGreaterThan(semver("8.0.0"))', device(cudaComputeCapability={"version": "9.0"}), False,
     "a version of two parts cannot be read"),
    ("C14", f'{C}.memory.compareTo(quantity("1Gi")) >= 0', device(capacity={"memory": "10Mo"}), False, "no quantity"),
    ("C15", f'{A}.nope == "x"', G, False, "an attribute that is missing"),
    ("C16", f"{A}.x", device(x=8), False, "an int is no bool"),
    ("C17", '"other.com" in device.attributes', G, False, "a domain that is missing"),
    ("C17 there", '"gpu.nvidia.com" in device.attributes', G, True, "a domain that is there"),
    ("C18", 'device.attributes["other.com"].x == "y"', G, False, "an unknown domain is an empty map"),
    ("C19", f'"gpu.nvidia.com" in device.attributes && {A}.architecture == "Hopper"', G, True, "guarded"),
    ("C20", f'{A}.cudaComputeCapability.isGreaterThan(semver("9.0.0")) && {C}.memory.compareTo(quantity("141Gi")) >= 0', G, True,
     "both"),
    ("C21", f'{A}.color == "black" && {A}.size == "large"', device(color="black", size="large"), True, "both"),
    ("C21 other", f'{A}.color == "black" && {A}.size == "large"', device(color="white", size="small"), False, "neither"),
    ("C22", 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "gpu"',
     device("gpu.example.com", type="gpu"), True, "driver and type"),
    ("C22 nic", 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "gpu"',
     N, False, "false decides"),
    ("C23", f'{A}.type == "gpu" && {C}.memory == quantity("64Gi")', device(type="gpu", capacity={"memory": "64Gi"}), True, "equal"),
    ("C23 less", f'{A}.type == "gpu" && {C}.memory == quantity("64Gi")',
     device(type="gpu", capacity={"memory": "32Gi"}), False, "not"),
    ("C25", f'{A}.nope == "x" || true', G, True, "|| absorbs an error"),
    ("C25 turned", f'true || {A}.nope == "x"', G, True, "on either side"),
    ("C26", f'!({A}.nope == "x")', G, False, "an error negated is an error"),
    ("C27", f"has({A}.nope)", G, False, "absence"),
    ("C27 not", f"!has({A}.nope)", G, True, "absence negated"),
    ("C28", 'has(device.attributes["other.com"].x)', G, False, "absence in an unknown domain"),
    ("C28 not", '!has(device.attributes["other.com"].x)', G, True, "and negated"),
    ("C29 driver", 'device.driver == "GPU.NVIDIA.COM"', G, False, "case matters in drivers"),
    ("C29 value", f'{A}.architecture == "hopper"', G, False, "in values"),
    ("C29 name", f'{A}.Architecture == "Hopper"', G, False, "and in names"),
    ("C31", f'{A}.cudaComputeCapability.compareTo(quantity("1")) == 0', G, False, "a version with a quantity"),
    ("C32", f'{A}.x == "8"', device(x=8), False, "a number is no text"),
    ("C32 float", f"{A}.x > 7.5", device(x=8), True, "numbers of two types compare, as in Kubernetes"),
    ("C33", 'device.attributes["a.com"]["b/c"] == "v"', device(**{"a.com/b/c": "v"}), True, "split at the first slash"),
    ("C36 capacity", 'device.driver == "gpu.nvidia.com"', device(capacity={"memory": "1Gi", "other": "x"}), False,
     "one entry that cannot be read spoils the device"),
    ("C36 version", 'device.driver == "gpu.nvidia.com"', device(v={"version": "1.0"}), False, "whichever it is"),
    ("C38", f'{A}.architecture in ["Hopper", "Blackwell"] && {A}.architecture.startsWith("Ho") && '
     f'{A}.architecture.contains("pp") && {A}.architecture.matches("^H.*r$")', G, True, "string functions"),
    ("C39", f'{A}.architecture.lowerAscii() == "hopper"', G, True, "Kubernetes has lowerAscii"),
]  # fmt: skip

REFUSED = [
    ("C16", '"Hopper"', "a string is no bool"),
    ("C24", "((true)", "unbalanced parentheses"),
    ("C30", f'{C}.memory >= quantity("1Gi")', "quantities have no operators"),
    ("C31", f'{C}.memory.compareTo("1Gi") == 0', "nor compare with text"),
    ("C34", "device.count == 8", "the count is not exposed"),
    ("C35 function", 'device.driver.startWith("gpu")', "a misspelt function"),
    ("C35 variable", 'devic.driver == "x"', "a misspelt variable"),
    ("C37", "", "nothing"),
    ("C37 blank", "   ", "nothing but space"),
    ("member sign", f"{C}.memory.sign() == 1", "sign has the global form alone"),
    ("too long", " " * 10_240 + "true", "more than 10 KiB"),
]


@pytest.mark.parametrize(("name", "text", "subject", "expected", "reason"), MATCHES, ids=[case[0] for case in MATCHES])
def test_a_device_matches_or_does_not(name: str, text: str, subject: BoundDevice, expected: bool, reason: str) -> None:
    assert compile_selector(text).matches(subject) is expected, reason


@pytest.mark.parametrize(("name", "text", "reason"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_selector_that_kubernetes_refuses_is_refused(name: str, text: str, reason: str) -> None:
    with pytest.raises(SelectorError):
        compile_selector(text)


def test_a_version_wins_over_other_values_of_an_attribute() -> None:
    both = BoundDevice("d", {"x": {"string": "a", "version": "1.2.3"}}, {})
    assert compile_selector('device.attributes["d"].x == semver("1.2.3")').matches(both)


def test_selectors_are_compiled_once() -> None:
    assert compile_selector("true") is compile_selector("true")
    assert compile_selector("true") is not compile_selector("true", list_attributes=True)
