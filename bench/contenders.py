"""Who is timed, and how: everything through CUDA graphs, so that the host counts for nobody."""

import math
import random
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    import fa3_fwd_interface as fa3
except ImportError:
    fa3 = None

GRAPH_MS = 8.0  # about as long is a graph of repeated calls
WARM_MS = 80.0  # until most of its predecessor's clock is gone


def sdpa(backend, q, k, v, causal):
    qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
    grouped = qt.shape[1] != kt.shape[1]

    def run():
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(qt, kt, vt, is_causal=causal, enable_gqa=grouped)

    return run


def peers(q, k, v, causal, names):
    """Functions by name: cudnn and fa2 are torch's backends, fa3 is the wheel fa3-fwd where it is installed."""
    makers = {"cudnn": lambda: sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, causal), "fa2": lambda: sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, causal)}
    if fa3 is not None:
        makers["fa3"] = lambda: lambda: fa3.flash_attn_func(q, k, v, causal=causal)
    return {name: makers[name]() for name in names if name in makers}


def capture(function, repeats):
    """A graph of `repeats` calls."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            function()
    return graph


def milliseconds(graph, replays=1):
    """Of one replay, from the beginning of the first to the end of the last."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / replays


def time_all(functions, flops, rounds=7, warm_ms=WARM_MS, sample_ms=24.0):
    """TFLOP/s by name: medians over rounds; `flops` of all, or by name. In each round the contenders come in a new random order, and each runs for `warm_ms`
    before its sample, so that it is timed at the clocks that its own power draw leaves: for 30 to 100 ms they are its predecessor's (docs/worklog.md).
    Failures: NaN."""
    graphs, repeats, failures = {}, {}, {}
    for name, function in functions.items():
        try:
            once = capture(function, 1)
            milliseconds(once)
            repeats[name] = max(1, round(GRAPH_MS / max(milliseconds(once), 1e-3)))
            graphs[name] = capture(function, repeats[name])
        except Exception as error:  # a peer that does not take the shape
            failures[name] = repr(error)[:160]
    samples = {name: [] for name in graphs}
    order = list(graphs)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            for _ in range(math.ceil(warm_ms / GRAPH_MS)):
                graphs[name].replay()
            samples[name].append(milliseconds(graphs[name], math.ceil(sample_ms / GRAPH_MS)) / repeats[name])
    of = (lambda name: flops[name]) if isinstance(flops, dict) else (lambda name: flops)
    return {name: of(name) / statistics.median(times) / 1e9 for name, times in samples.items()}, failures
