"""What random selectors brought to light: each once ended differently here than in Kubernetes, whose outcome stands beside it.

`make conformance` asks Kubernetes about 20,000 new ones each time; these stay, so that no judge is needed to keep them.
"""

from __future__ import annotations

import pytest

from modelplane.plan.cel import BoundDevice, Error, Match, NoMatch, SelectorError, compile_selector

DEVICE = BoundDevice("a.example", {"x": {"int": 1}, "s": {"string": "t"}}, {})
OUTCOMES = {Match: "true", NoMatch: "false", Error: "error"}

FOUND = [
    ("raw bytes are br'', not rb''", "rb'a' == b'a'", "compile error"),
    ("raw bytes are br'', not rb''", r"br'\x' == b'\\x'", "true"),
    ("an empty list takes the type of the first overload", "b'a' < [].max()", "compile error"),
    ("an empty list takes the type of the first overload", "[].exists(v, (v + v) == (v ? v : v))", "compile error"),
    ("what an optional lacks is found out later", "optional.none().orValue(true)", "true"),
    ("what an optional lacks is found out later", "(false ? optional.none() : optional.of(true)).value()", "true"),
    ("not-a-number has no order", "double('NaN') < 1.0", "error"),
    ("not-a-number has no order", "1u >= double('NaN')", "error"),
    ("but lists pass over it", "[1.5, double('NaN')].min() == 1.5", "true"),
    ("constants are converted before any device is met", "bool(dyn('maybe'))", "compile error"),
    ("constants are converted before any device is met", "uint(double('NaN')) == 1u || true", "compile error"),
    ("constants are converted before any device is met", "'a'.find('(') == ''", "compile error"),
    ("existsOne has two variables, exists_one one or two", "[1].existsOne(v, true)", "compile error"),
    ("existsOne has two variables, exists_one one or two", "[1].existsOne(i, v, true)", "true"),
    ("a key twice is the last one", "{'a': device.driver, 'a': 'b'}.a == 'b'", "true"),
    ("an offset beyond the text finds nothing", "'5'.lastIndexOf('5', 1000) == -1", "true"),
    ("an offset beyond the text finds nothing", "'5'.indexOf('5', 1000) == -1", "true"),
    ("an opaque URL", "url('mailto:a@b').getHost() == ''", "true"),
    ("a number too large for a double", "double('1e400') > 1.0", "compile error"),
    ("Go's hexadecimal numbers and underscores", "double('0x1p3') == 8.0 && double('1_0') == 10.0", "true"),
    ("an index into nothing is not looked at", "optional.none()[int(device.driver)].hasValue()", "false"),
    ("what can be no key is in no map", "ip('::1') in {}", "false"),
    ("nothing is in an empty list, whatever it is", "int(device.driver) in []", "false"),
    ("a duration has no minus", "-duration('1s') < duration('1s')", "compile error"),
    ("any has any field, which the value may lack", "has((true ? {} : device.attributes['a.example'].x).y)", "false"),
    ("only some constants can be looked up", "optional.none()[b'a'].hasValue()", "compile error"),
    ("zones lead beyond the last year", "timestamp('9999-12-31T23:59:59Z').getFullYear('+05:30') == 10000", "true"),
    ("times reach from year 1 to year 9999", "timestamp('0001-01-01T00:00:00Z') + duration('1s') < timestamp(0)", "true"),
    ("times reach from year 1 to year 9999", "timestamp('0001-01-01T00:00:00Z') - duration('1s') < timestamp(0)", "error"),
    ("an hour of one digit", "timestamp('2024-01-01T0:00:00Z') == timestamp('2024-01-01T00:00:00Z')", "true"),
    ("a format has to fit", "'%d'.format(['a']) == ''", "compile error"),
    ("a format has to fit", "'a'.format([device.driver]) == 'a'", "compile error"),
    ("a format takes parts of any type", "'%s %d'.format(['a', 1]) == 'a 1'", "true"),
    ("numbers in a format are grouped", "'%.2f'.format([1234567.891]) == '1,234,567.89'", "true"),
    ("numbers in a format are grouped", "'%e'.format([12345.678]) == '1.234568×10⁰⁴'", "true"),
    ("lists are of one type, and a dyn is none", "[dyn(1), 2] == [1, 2]", "compile error"),
    ("lists can be sorted by a key", "[3, 1].sortBy(v, v)[0] == 1", "true"),
    ("first, last and unwrap", "[1, 2].last().value() == 2 && [optional.of(1)].unwrapOpt() == [1]", "true"),
    ("a duration is a number of nanoseconds", "int(duration('1s')) == 1000000000", "true"),
    ("the sum of nothing is of the list's type", "(false ? [1u] : []).sum() == 0u", "true"),
    ("no time at all is the first of January of year 1", "optional.ofNonZeroValue(timestamp(0)).hasValue()", "true"),
    ("an index of another type is an error", "['a'][?device.attributes['a.example'].s].hasValue()", "error"),
    ("a key of bytes is none", "{b'a': 1} == {}", "compile error"),
    ("a choice takes apart what is a library's", "(true ? optional.of(ip('::1')) : optional.none()).value().isLoopback()", "error"),
    ("the smallest number is its own negative", "quantity('80Gi').sub(-9223372036854775808).isInteger()", "true"),
    ("a whole number meets a double as a double", "double(18446744073709551615u) <= 18446744073709551615u", "true"),
    ("a guessed type is checked again", "(dyn([1e3, 1.5]) + optional.unwrap([optional.none()])).isSorted()", "error"),
    ("an optional in an optional is lost", "optional.of(1).optMap(v, optional.of(true)).value().value()", "error"),
    ("and what is none is its own value", "dyn(true).orValue(false)", "true"),
    ("what cannot be compared is not equal", "dyn(semver('1.2.3')) != dyn('x')", "true"),
    ("but within a list it is not unequal", "[dyn(semver('1.2.3'))] == [dyn('x')]", "true"),
    ("a version is no key", "semver('1.2.3') in {semver('1.2.3'): 1}", "error"),
    ("levels cost", "[[1]].flatten(9223372036854775807).size() == 1 || true", "error"),
    ("a scalar has no field", "has(dyn(1).x)", "false"),
    ("numbers of several kinds are several keys", "{dyn(1): 'a', dyn(1u): 'b', dyn(1.0): 'c'}.size() == 3", "true"),
    ("numbers of several kinds are several keys", "{dyn(true): 'a', dyn(1): 'b'}.size() == 2", "true"),
    ("each is found under its own kind first", "{dyn(1): 'a', dyn(1u): 'b'}[1u] == 'b'", "true"),
    ("an integer is found under the other kind", "{1u: 'a'}[dyn(1)] == 'a' && {1: 'a'}[dyn(1u)] == 'a'", "true"),
    ("an integer is found under the other kind", "dyn(-1) in {1u: 'a'} || dyn(9223372036854775808u) in {1: 'a'}", "false"),
    ("a double is found under an integer", "dyn(1.0) in {1u: 'a'} && dyn(1.0) in {1: 'a'}", "true"),
    ("a double is found under an integer", "dyn(1.5) in {1: 'a'} || dyn(1e30) in {1: 'a'} || dyn(-2.0) in {1u: 'a'}", "false"),
    ("but no integer under a double", "{dyn(1.0): 'a'}[dyn(1)] == 'a'", "error"),
    ("a double is a key of a literal", "{1.5: 'a'}[1.5] == 'a' && dyn(1.5) in {1.5: 'a'}", "true"),
    ("maps are compared from the left", "{dyn(1.0): 'a'} == {dyn(1): 'a'}", "true"),
    ("maps are compared from the left", "{dyn(1): 'a'} == {dyn(1.0): 'a'}", "false"),
    ("a key keeps its kind in a loop", "{dyn(1.0): 1, dyn(1u): 2}.all(k, type(k) == double || type(k) == uint)", "true"),
    ("the same number twice is no new map", "{dyn(1): 1, dyn(1u): 2}.transformMap(k, v, v).size() == 2", "error"),
    ("the same number twice is no new map", "[1].transformMapEntry(i, v, {dyn(1): 1, dyn(1u): 2}).size() > 0", "error"),
    ("a flat list of unknown type is flattened to itself", "dyn('A'.split('a')).flatten().size() == 1", "true"),
    ("but a text is not", "dyn('A').flatten().size() == 1", "error"),
    ("what cannot be compared is in order", "[dyn(1), dyn('a')].flatten(1).isSorted()", "true"),
    ("what cannot be compared is in order", "[dyn(1), dyn('a')].flatten(1).max() == 1", "true"),
    ("what has no order is not", "[dyn(1), dyn([1])].flatten(0).isSorted()", "error"),
    ("a sum starts from nothing", "1.0 / [-0.0].sum() > 0.0", "true"),
    ("a sum is no quantity on the right", "quantity('1') == quantity('1').add(0)", "error"),
    ("a sum is no quantity on the right", "quantity('1').sub(0) == quantity('1').add(0)", "error"),
    ("a sum is no quantity on the right", "quantity('1') in [quantity('1').add(0)]", "false"),
    ("but it is one on the left", "quantity('1').add(0) == quantity('1')", "true"),
    ("a name with a dot before it names no macro", ".cel.bind(x, 1, x > 0)", "compile error"),
    ("a variable with a dot before it has no name", "[1].all(.x, true)", "true"),
    ("a variable with a dot before it has no name", "[1].all(.x, .x > 0)", "compile error"),
    ("and those macros ask for it themselves", "cel.bind(.x, 1, true)", "compile error"),
    ("a filter keeps what its variable gives", "[optional.of(optional.of(1))].filter(v, true)[0].value().value() == 1", "error"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "text", "wanted"), FOUND, ids=[case[1] for case in FOUND])
def test_a_selector_ends_as_in_kubernetes(reason: str, text: str, wanted: str) -> None:
    try:
        selector = compile_selector(text)
    except SelectorError:
        assert wanted == "compile error", reason
    else:
        assert OUTCOMES[type(selector.evaluate(DEVICE))] == wanted, reason
