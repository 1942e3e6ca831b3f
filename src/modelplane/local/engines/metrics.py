"""The mock engine's counters, exposed under vLLM's names so that pickers and dashboards read them unchanged."""

from __future__ import annotations

from collections import Counter
from typing import Final

BLOCK: Final = 16
_BOUNDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)


class Histogram:
    """A Prometheus histogram with fixed bounds."""

    __slots__ = ("_buckets", "_count", "_sum")

    def __init__(self) -> None:
        self._buckets = [0] * len(_BOUNDS)
        self._sum = 0.0
        self._count = 0

    def observe(self, value: float) -> None:
        self._sum += value
        self._count += 1
        for index, bound in enumerate(_BOUNDS):
            if value <= bound:
                self._buckets[index] += 1

    def lines(self, name: str, labels: str) -> list[str]:
        buckets = zip(_BOUNDS, self._buckets, strict=True)
        text = [f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in buckets]
        text.append(f'{name}_bucket{{{labels},le="+Inf"}} {self._count}')
        text.append(f"{name}_sum{{{labels}}} {self._sum:.6f}")
        text.append(f"{name}_count{{{labels}}} {self._count}")
        return text


class Metrics:
    """Counters of one engine."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting = 0
        self.kv_tokens = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished: Counter[str] = Counter({"stop": 0, "length": 0, "abort": 0})
        self.first_token = Histogram()
        self.latency = Histogram()

    def render(self, model: str, kv_capacity: int) -> bytes:
        name = model.replace("\\", "\\\\").replace('"', '\\"')
        labels = f'model_name="{name}",engine="0"'
        usage = min(1.0, self.kv_tokens / kv_capacity) if kv_capacity else 0.0
        text: list[str] = []

        def gauge(metric: str, value: float) -> None:
            text.extend((f"# TYPE vllm:{metric} gauge", f"vllm:{metric}{{{labels}}} {value}"))

        def counter(metric: str, value: int) -> None:
            text.extend((f"# TYPE vllm:{metric} counter", f"vllm:{metric}{{{labels}}} {value}"))

        gauge("num_requests_running", self.running)
        gauge("num_requests_waiting", self.waiting)
        gauge("kv_cache_usage_perc", round(usage, 6))
        gauge("gpu_cache_usage_perc", round(usage, 6))
        counter("prompt_tokens_total", self.prompt_tokens)
        counter("generation_tokens_total", self.generation_tokens)
        text.append("# TYPE vllm:request_success_total counter")
        for reason, count in self.finished.items():
            text.append(f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count}')
        text.append("# TYPE vllm:cache_config_info gauge")
        blocks = kv_capacity // BLOCK
        text.append(f'vllm:cache_config_info{{{labels},block_size="{BLOCK}",num_gpu_blocks="{blocks}"}} 1')
        for metric, histogram in (
            ("vllm:time_to_first_token_seconds", self.first_token),
            ("vllm:e2e_request_latency_seconds", self.latency),
        ):
            text.append(f"# TYPE {metric} histogram")
            text.extend(histogram.lines(metric, labels))
        return ("\n".join(text) + "\n").encode()
