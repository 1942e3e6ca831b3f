"""The mock engine answers, counts, fails and leaves as the real thing would."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from modelplane.local.engines.settings import ANNOTATIONS, PREFIX, Behaviour, read_annotations

from .engine_process import engine

CHAT = {"model": "mock", "messages": [{"role": "user", "content": "Where am I?"}]}


async def test_a_chat_completion_names_the_pod_and_counts_tokens() -> None:
    async with engine("--pod-name", "mock-demo-0") as e:
        status, body = await e.post("/v1/chat/completions", CHAT)
    assert status == 200
    assert body["choices"][0]["message"]["content"].startswith("mock-demo-0:")
    assert body["choices"][0]["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["prompt_tokens"] == 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_a_stream_carries_the_same_text_and_ends_with_done() -> None:
    async with engine("--pod-name", "p") as e:
        _, whole = await e.post("/v1/chat/completions", CHAT)
        lines = await e.events(
            "/v1/chat/completions", CHAT | {"stream": True, "stream_options": {"include_usage": True}}
        )
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"] == whole["usage"]


async def test_anthropic_messages_stream_their_own_events() -> None:
    body = {"model": "m", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
    async with engine() as e:
        status, whole = await e.post("/v1/messages", body)
        lines = await e.events("/v1/messages", body | {"stream": True})
        missing, error = await e.post("/v1/messages", {"messages": body["messages"]})
        _, counted = await e.post("/v1/messages/count_tokens", {"messages": body["messages"]})
    assert (status, whole["stop_reason"], whole["usage"]["output_tokens"]) == (200, "max_tokens", 3)
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert kinds == [
        "message_start", "content_block_start", *["content_block_delta"] * 3, "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert (missing, error["error"]["type"]) == (400, "invalid_request_error")
    assert counted == {"input_tokens": 1}


async def test_while_the_model_loads_health_is_503_and_then_200() -> None:
    async with engine(load_seconds="0.3") as e:
        first, _ = await e.get("/health")
        models, _ = await e.get("/v1/models")
        deadline = time.monotonic() + 5
        while (await e.get("/health"))[0] != 200:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        later, body = await e.get("/v1/models")
    assert (first, models, later) == (503, 503, 200)
    assert [m["id"] for m in json.loads(body)["data"]] == ["mock"]


NAMES = [
    ("an explicit name is strict, as in vLLM", ["--served-model-name", "a/b"], "other", 404),
    ("an explicit name answers to itself", ["--served-model-name", "a/b"], "a/b", 200),
    ("without a name every model is taken, since nobody said which is loaded", [], "other", 200),
]


@pytest.mark.parametrize(("reason", "arguments", "asked", "want"), NAMES, ids=[n[0] for n in NAMES])
async def test_model_names(reason: str, arguments: list[str], asked: str, want: int) -> None:
    async with engine(*arguments) as e:
        status, _ = await e.post("/v1/completions", {"model": asked, "prompt": "x"})
    assert status == want, reason


async def test_an_empty_list_of_models_can_be_served() -> None:
    async with engine(served_models="") as e:
        _, body = await e.get("/v1/models")
    assert json.loads(body)["data"] == []


async def test_failures_are_spread_evenly_over_the_calls() -> None:
    async with engine(fail_status="503", fail_rate="0.5") as e:
        got = [(await e.post("/v1/completions", {"prompt": "x"}))[0] for _ in range(6)]
        health, _ = await e.get("/health")
    assert got == [200, 503, 200, 503, 200, 503]
    assert health == 200


async def test_a_stream_can_be_cut_in_the_middle() -> None:
    async with engine(drop_stream_after_tokens="2") as e:
        with pytest.raises(aiohttp.ClientError):
            await e.events("/v1/chat/completions", CHAT | {"stream": True})
        assert (await e.post("/v1/chat/completions", CHAT))[0] == 200


async def test_a_crash_after_requests_ends_the_process_with_its_code() -> None:
    async with engine(crash_after_requests="2", exit_code="7") as e:
        assert (await e.post("/v1/completions", {"prompt": "x"}))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await e.post("/v1/completions", {"prompt": "x"})
        assert await e.exited() == 7


async def test_a_hanging_engine_answers_its_health_and_nothing_else() -> None:
    async with engine(hang="inference") as e:
        assert (await e.get("/health"))[0] == 200
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(e.post("/v1/completions", {"prompt": "x"}), 0.2)


async def test_after_sigterm_running_requests_finish_and_new_ones_are_answered_while_it_drains() -> None:
    async with engine(tokens_per_second="20", drain_seconds="0.3") as e:
        running = asyncio.create_task(e.post("/v1/chat/completions", CHAT))
        await _until_running(e, 1)
        os.kill(e.process.pid, signal.SIGTERM)
        async with e.session.get("/health") as response:
            status, closing = response.status, response.headers.get("connection")
        assert (await running)[0] == 200
        assert await e.exited() == 0
    assert status == 200
    assert closing in (None, "close")


async def test_metrics_use_vllm_names_and_count_waiting_requests() -> None:
    async with engine(max_concurrent="1", tokens_per_second="40") as e:
        calls = [asyncio.create_task(e.post("/v1/completions", {"prompt": "x y z"})) for _ in range(2)]
        await _until_running(e, 1)
        text = await _until_metric(e, 'vllm:num_requests_waiting{model_name="mock",engine="0"} 1')
        assert 'vllm:num_requests_running{model_name="mock",engine="0"} 1' in text
        assert [(await call)[0] for call in calls] == [200, 200]
        text = await _until_metric(e, 'vllm:num_requests_running{model_name="mock",engine="0"} 0')
    assert 'vllm:prompt_tokens_total{model_name="mock",engine="0"} 6' in text
    assert 'vllm:kv_cache_usage_perc{model_name="mock",engine="0"} 0.0' in text


BAD = [
    ("no HTTP at all", b"hello\r\n\r\n"),
    ("a header without colon", b"GET /health HTTP/1.1\r\nnonsense\r\n\r\n"),
    ("a negative length", b"POST /v1/completions HTTP/1.1\r\ncontent-length: -5\r\n\r\n"),
]


@pytest.mark.parametrize(("reason", "data"), BAD, ids=[b[0] for b in BAD])
async def test_malformed_requests_get_400_and_the_connection_is_closed(reason: str, data: bytes) -> None:
    async with engine() as e:
        assert (await _raw(e.address, data)).startswith(b"HTTP/1.1 400 "), reason
        assert (await e.get("/health"))[0] == 200


async def test_a_chunked_body_and_a_pipelined_request_are_both_answered() -> None:
    data = (
        b"POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        b'6\r\n{"prom\r\n9\r\npt": "x"}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nconnection: close\r\n\r\n'
    )
    async with engine() as e:
        answer = await _raw(e.address, data)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.linux
@pytest.mark.skipif(sys.platform != "linux", reason="resident size is read from /proc")
async def test_the_engine_stays_small() -> None:
    async with engine() as e:
        await e.post("/v1/chat/completions", CHAT)
        assert _resident(e.process.pid) < 24_000, (
            "alone, with site-packages; forked from the zygote most of it is shared"
        )


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


async def _until_running(e, count: int) -> None:  # type: ignore[no-untyped-def]
    await _until_metric(e, f'vllm:num_requests_running{{model_name="mock",engine="0"}} {count}')


async def _until_metric(e, line: str) -> str:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 5
    while True:
        text = (await e.get("/metrics"))[1].decode()
        if line in text:
            return text
        assert time.monotonic() < deadline, text
        await asyncio.sleep(0.01)


async def _raw(address: str, data: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), family=socket.AF_INET)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


def test_the_documented_annotations_are_those_that_are_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulated-clusters.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(f"| `{PREFIX}")]
    assert rows == [f"| `{PREFIX}{name}` | {meaning} |" for name, (_, _, meaning) in ANNOTATIONS.items()]


def test_an_annotation_that_cannot_be_followed_is_reported_and_keeps_its_default() -> None:
    behaviour, complaints = read_annotations({PREFIX + "load-seconds": "soon", PREFIX + "speed": "1", "other/x": "y"})
    assert behaviour == Behaviour()
    assert complaints[0].startswith(f"annotation {PREFIX}load-seconds='soon' is ignored: ")
    assert complaints[1].startswith(f"annotation {PREFIX}speed is unknown; known are {PREFIX}load-seconds, ")
