#!/usr/bin/env python3
"""What Nsight Compute counts of one forward launch, Tandem's beside FlashAttention-3's (wheel fa3-fwd) and cuDNN's.

    python3 bench/nsight.py                                  head dim 128, causal, 16,384 tokens, 16 heads
    python3 bench/nsight.py --head-dim 192 --heads 10 --json

Needs ncu and a GPU whose counters it may read. Clocks are left alone, so times are those of this moment; cycles, instructions and bytes compare. FLOPs are
counted as in bench.py. Inputs are random normal numbers.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# (row of the table, ncu's name for it, divisor)
ROWS = (("time, ms", "gpu__time_duration.sum", 1e6), ("cycles, M", "sm__cycles_elapsed.max", 1e6),
        ("tensor core active, %", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 1), ("instructions, M", "sm__inst_executed.sum", 1e6),
        ("FMA pipe, M", "sm__inst_executed_pipe_fma.sum", 1e6), ("ALU pipe, M", "sm__inst_executed_pipe_alu.sum", 1e6),
        ("XU pipe, M", "sm__inst_executed_pipe_xu.sum", 1e6), ("uniform pipe, M", "sm__inst_executed_pipe_uniform.sum", 1e6),
        ("tensor pipe, M", "sm__inst_executed_pipe_tensor_op_gmma.sum", 1e6), ("DRAM read, MB", "dram__bytes_read.sum", 1e6),
        ("L2 hits, %", "lts__t_sector_hit_rate.pct", 1))
UNITS = {"second": 1e9, "msecond": 1e6, "usecond": 1e3, "nsecond": 1, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1, "Gbyte": 1e9, "Mbyte": 1e6, "Kbyte": 1e3, "byte": 1}


def worker(arguments) -> None:
    """Runs each contender once between the marks that ncu looks for, after one run that loads what is loaded at the first call."""
    import torch

    sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]
    import contenders
    import tandem_c

    torch.manual_seed(0)
    q, k = (torch.randn(arguments.batch, arguments.seqlen, arguments.heads, arguments.head_dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    v = torch.randn(arguments.batch, arguments.seqlen, arguments.heads, arguments.head_dim_v, device="cuda", dtype=torch.bfloat16)
    tandem = tandem_c.Tandem()
    functions = {"tandem": tandem.forward(q, k, v, not arguments.full, spec=arguments.spec)[0], **contenders.peers(q, k, v, not arguments.full, ("fa3", "cudnn"))}
    for function in functions.values():
        function()
        torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for function in functions.values():
        function()
        torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    print("contenders:", " ".join(functions))


def kernels(text: str) -> list:
    """[(kernel, {metric: value in its base unit})] of ncu's raw page."""
    rows = list(csv.reader(io.StringIO(text[text.index('"ID"'):])))
    header, units = rows[0], rows[1]
    found = []
    for row in rows[2:]:
        metrics = {}
        for name, unit, value in zip(header, units, row):
            try:
                metrics[name] = float(value.replace(",", "")) * UNITS.get(unit, 1)
            except ValueError:
                continue
        found.append((row[header.index("Kernel Name")], metrics))
    return found


def contender_of(kernel: str) -> str | None:
    marks = {"tandem": "tandem_forward", "cudnn": "cudnn", "fa3": "flash"}
    return next((name for name, mark in marks.items() if mark in kernel), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--head-dim-v", type=int)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--seqlen", type=int, default=16384)
    parser.add_argument("--full", action="store_true", help="without the causal mask")
    parser.add_argument("--spec", help='fields of the schedule to change: "block_n=96"')
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.head_dim_v = arguments.head_dim_v or arguments.head_dim
    if arguments.worker:
        worker(arguments)
        return 0

    own = [item for item in sys.argv[1:] if item != "--json"]
    command = ["ncu", "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw", "--metrics", ",".join(metric for _, metric, _ in ROWS),
               sys.executable, "-W", "ignore", __file__, "--worker", *own]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TANDEM_GRAPH_LAUNCH": "0"})
    if done.returncode != 0 or '"ID"' not in done.stdout:
        print((done.stdout[-1500:] + done.stderr[-1500:]).strip(), file=sys.stderr)
        return 1
    counted = {}
    for kernel, metrics in kernels(done.stdout):
        name = contender_of(kernel)
        if name is not None and metrics.get("gpu__time_duration.sum", 0) > counted.get(name, {}).get("gpu__time_duration.sum", 0):
            counted[name] = metrics  # the longest, where a contender launches several
    flops = 2 * arguments.batch * arguments.heads * arguments.seqlen**2 * (arguments.head_dim + arguments.head_dim_v) * (1.0 if arguments.full else 0.5)
    table = {}
    for name, metrics in counted.items():
        table[name] = {}
        for row, metric, divisor in ROWS:
            if metric in metrics:
                table[name][row] = metrics[metric] / divisor
        milliseconds = table[name].get("time, ms")
        if milliseconds:
            table[name]["TFLOP/s"] = flops / milliseconds / 1e9
            table[name]["GHz"] = table[name].get("cycles, M", 0) / milliseconds
    if arguments.json:
        print(json.dumps({"problem": {key: value for key, value in vars(arguments).items() if key not in ("json", "worker")}, "kernels": table}))
        return 0
    print(f"{'':24s}" + "".join(f"{name:>12s}" for name in table))
    for row in [*(row for row, _, _ in ROWS), "GHz", "TFLOP/s"]:
        print(f"{row:24s}" + "".join(f"{table[name].get(row, float('nan')):12.3f}" for name in table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
