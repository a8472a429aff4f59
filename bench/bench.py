#!/usr/bin/env python3
"""Times Tandem beside cuDNN, FlashAttention-2 (torch) and FlashAttention-3 (wheel fa3-fwd) on one GPU, in one process.

    python3 bench/bench.py                       the 36-point forward grid, BF16; writes a record to bench/records/
    python3 bench/bench.py --grid dims,gqa,shapes    other head dims; grouped heads; few and many heads
    python3 bench/bench.py --grid masks          ragged batches, windows, softcap, sinks against our own dense rate, on visible FLOPs
    python3 bench/bench.py --seqlens 512,2048 --head-dims 128

The grid is that of the FlashAttention-3 paper: 16,384 tokens in all, hidden size 2,048. FLOPs: 2 batch heads seqlen^2 (head_dim + head_dim_v),
halved for causal. Inputs are random normal numbers. A record is of one run on one card: cards differ, so only ratios inside it count.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]
import contenders  # noqa: E402
import tandem_c  # noqa: E402
from gpu_card import card  # noqa: E402
from sources_digest import sources_digest  # noqa: E402

SEQLENS = (512, 1024, 2048, 4096, 8192, 16384)


def grid_points(arguments):
    """(label, batch, seqlen, heads, heads_kv, head_dim, head_dim_v, causal, dtype) in order."""
    seqlens = arguments.seqlens or SEQLENS
    grids = arguments.grid.split(",")
    points = []

    def add(label, batch, seqlen, heads, heads_kv, head_dim, head_dim_v=None, causals=(False, True), dtype="bf16"):
        for causal in causals:
            points.append((label, batch, seqlen, heads, heads_kv, head_dim, head_dim_v or head_dim, causal, dtype))

    if "forward" in grids:
        for head_dim in arguments.head_dims or (64, 128, 256):
            for causal in (False, True):
                for seqlen in seqlens:
                    heads = 2048 // head_dim
                    add("forward", max(1, 16384 // seqlen), seqlen, heads, heads, head_dim, causals=(causal,), dtype=arguments.dtype)
    if "dims" in grids:
        # An even number of heads, as models have them; and once an odd one, with which every other token's row begins inside a 32-byte sector.
        for head_dim, head_dim_v, heads in ((64, 64, 32), (72, 72, 28), (80, 80, 26), (88, 88, 24), (88, 88, 23), (96, 96, 22), (112, 112, 18), (120, 120, 18), (128, 128, 16),
                                            (160, 160, 12), (192, 128, 10), (192, 192, 10)):
            for seqlen in (2048, 16384):
                add("dims", 16384 // seqlen, seqlen, heads, heads, head_dim, head_dim_v)
    if "fp16" in grids:
        for head_dim in (64, 128, 256):
            add("fp16", 4, 4096, 2048 // head_dim, 2048 // head_dim, head_dim, dtype="fp16")
            add("fp16", 4, 4096, 2048 // head_dim, 2048 // head_dim, head_dim, dtype="bf16")
    if "gqa" in grids:
        for seqlen in (2048, 8192):
            for heads_kv in (32, 8, 1):
                add("gqa", 16384 // seqlen, seqlen, 32, heads_kv, 128)
    if "shapes" in grids:
        for batch, heads in ((1, 8), (1, 16), (2, 16), (4, 16), (16, 16), (64, 32)):
            add("shapes", batch, 2048, heads, heads, 128)
    return points


def gemm_ceiling(n=8192):
    x, y = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return contenders.time_all({"gemm": lambda: x @ y}, 2 * n**3)[0]["gemm"]


def clocks():
    """SM clock (MHz), power (W) and temperature now, where nvidia-smi is there."""
    try:
        line = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                              check=True).stdout.splitlines()[0]
        return dict(zip(("sm_mhz", "watt", "celsius"), (float(x) for x in line.split(","))))
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return {}


def host_costs():
    """The host's table, from the CLI: `run` once prepared, and the first call with an empty and a warm cache."""
    cli = ROOT / "build/bin/tandem"
    if not cli.exists():
        return None
    done = subprocess.run([str(cli), "bench", "--backend", "hopper", "--host", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip()[-300:]}


def groups(points):
    """Points that are compared with each other, not only with their peers, are timed together: head counts of K and V, dtypes, and head dims that share a
    tile."""
    together = {}
    for point in points:
        label, _, seqlen, _, _, head_dim, head_dim_v, causal, _ = point
        key = (label, seqlen, head_dim, causal) if label in ("gqa", "fp16") else (*point,)
        if label == "dims" and head_dim <= 128:
            key = (label, seqlen, (head_dim + 15) // 16, causal)
        together.setdefault(key, []).append(point)
    return together.values()


def measure(tandem, points, names, rounds):
    """Rows of the record, one for each point."""
    functions, flops, plans = {}, {}, []
    for i, (_, batch, seqlen, heads, heads_kv, head_dim, head_dim_v, causal, dtype) in enumerate(points):
        kind = torch.bfloat16 if dtype == "bf16" else torch.float16
        q = torch.randn(batch, seqlen, heads, head_dim, device="cuda", dtype=kind)
        k = torch.randn(batch, seqlen, heads_kv, head_dim, device="cuda", dtype=kind)
        v = torch.randn(batch, seqlen, heads_kv, head_dim_v, device="cuda", dtype=kind)
        run, _, _, plan = tandem.forward(q, k, v, causal)
        plans.append(json.loads(plan))
        for name, function in {"tandem": run, **contenders.peers(q, k, v, causal, names)}.items():
            functions[i, name] = function
            flops[i, name] = 2 * batch * heads * seqlen * seqlen * (head_dim + head_dim_v) * (0.5 if causal else 1.0)
    tflops, failures = contenders.time_all(functions, flops, rounds)
    rows = []
    for i, (label, batch, seqlen, heads, heads_kv, head_dim, head_dim_v, causal, dtype) in enumerate(points):
        tiles, slots = plans[i]["tiles"], plans[i]["grid"]
        rows.append({"pass": "forward", "grid": label, "dtype": dtype, "head_dim": head_dim, "head_dim_v": head_dim_v, "causal": causal, "seqlen": seqlen,
                     "batch": batch, "heads": heads, "heads_kv": heads_kv, "tflops": {name: value for (j, name), value in tflops.items() if j == i},
                     "failures": {name: text for (j, name), text in failures.items() if j == i}, "kernel": plans[i]["kernel"],
                     "tail_share": 1 - tiles / (math.ceil(tiles / slots) * slots), "clocks": clocks()})
    return rows


def masks(tandem, rounds):
    """Ragged batches and masks beside our own dense kernels, all interleaved. FLOPs are those of visible pairs."""
    device = "cuda"

    def tensors(batch, seqlen, heads, heads_kv, dim=128):
        return [torch.randn(batch, seqlen, count, dim, device=device, dtype=torch.bfloat16) for count in (heads, heads_kv, heads_kv)]

    def pairs_flops(pairs, heads, dim=128):
        return 4 * dim * heads * pairs

    generator = torch.Generator().manual_seed(24)
    lengths = [round(32 * 128 ** float(x)) for x in torch.rand(24, generator=generator)]  # log-uniform from 32 to 4,096
    total = sum(lengths)
    cu_seqlens = torch.tensor([0] + lengths).cumsum(0).to(torch.int32).to(device)
    triangle = lambda n: n * (n + 1) // 2
    window = 1024
    windowed = sum(min(i + 1, window + 1) for i in range(16384))
    sinks = torch.randn(32, device=device)
    ragged = {"cu_seqlens_q": cu_seqlens, "cu_seqlens_k": cu_seqlens, "num_sequences": len(lengths), "max_seqlen_q": max(lengths), "max_seqlen_k": max(lengths)}
    q, k, v = tensors(1, total, 32, 8)
    dense, long, medium = tensors(8, 2048, 32, 8), tensors(1, 16384, 16, 16), tensors(4, 4096, 16, 16)
    dense16 = tensors(8, 2048, 16, 16)
    cases = {
        "dense 2048 32/8": (tandem.forward(*dense, True), pairs_flops(8 * triangle(2048), 32)),
        "ragged 24": (tandem.forward(q, k, v, True, **ragged), pairs_flops(sum(map(triangle, lengths)), 32)),
        "ragged, invariant": (tandem.forward(q, k, v, True, batch_invariant=1, **ragged), pairs_flops(sum(map(triangle, lengths)), 32)),
        "dense 2048 16/16": (tandem.forward(*dense16, True), pairs_flops(8 * triangle(2048), 16)),
        "window 1024 of 16384": (tandem.forward(*long, True, window=(window, -1)), pairs_flops(windowed, 16)),
        "dense 4096": (tandem.forward(*medium, True), pairs_flops(4 * triangle(4096), 16)),
        "softcap 4096": (tandem.forward(*medium, True, softcap=30.0), pairs_flops(4 * triangle(4096), 16)),
        "softcap, large scores": (tandem.forward(medium[0] * 8, *medium[1:], True, softcap=30.0), pairs_flops(4 * triangle(4096), 16)),  # each warp's pass its third
        "sinks 4096": (tandem.forward(*medium, True, sinks=sinks), pairs_flops(4 * triangle(4096), 16)),
        "invariant 512": (tandem.forward(*tensors(32, 512, 16, 16), True, batch_invariant=1), pairs_flops(32 * triangle(512), 16)),
        "dense 512": (tandem.forward(*tensors(32, 512, 16, 16), True), pairs_flops(32 * triangle(512), 16)),
    }
    against = {"ragged 24": "dense 2048 32/8", "ragged, invariant": "ragged 24", "ragged 24, fa3": "dense 2048 32/8", "window 1024 of 16384": "dense 2048 16/16",
               "softcap 4096": "dense 4096", "softcap, large scores": "dense 4096", "sinks 4096": "dense 4096", "invariant 512": "dense 512"}
    for dim, heads in ((80, 26), (96, 22)):  # whose tiles of 192 rows leave few registers to a mask
        short, whole = tensors(8, 2048, heads, heads, dim), tensors(1, 16384, heads, heads, dim)
        cases |= {f"dense 2048, d {dim}": (tandem.forward(*short, True), pairs_flops(8 * triangle(2048), heads, dim)),
                  f"window 1024 of 16384, d {dim}": (tandem.forward(*whole, True, window=(window, -1)), pairs_flops(windowed, heads, dim)),
                  f"softcap 2048, d {dim}": (tandem.forward(*short, True, softcap=30.0), pairs_flops(8 * triangle(2048), heads, dim))}
        against |= {f"window 1024 of 16384, d {dim}": f"dense 2048, d {dim}", f"softcap 2048, d {dim}": f"dense 2048, d {dim}"}
    if contenders.fa3 is not None:
        call = lambda: contenders.fa3.flash_attn_varlen_func(q[0], k[0], v[0], cu_seqlens, cu_seqlens, max(lengths), max(lengths), causal=True)
        cases["ragged 24, fa3"] = ((call, None, None, "{}"), pairs_flops(sum(map(triangle, lengths)), 32))
    tflops, failures = contenders.time_all({name: case[0][0] for name, case in cases.items()}, {name: case[1] for name, case in cases.items()}, rounds)
    rows = []
    for name, value in tflops.items():
        other = against.get(name)
        rows.append({"name": name, "tflops": value, "against": other, "ratio": value / tflops[other] if other in tflops else None,
                     "kernel": json.loads(cases[name][0][3]).get("kernel", "")})
        print(f"masks  {name:28s} {value:6.1f}" + (f"  {rows[-1]['ratio']:.3f} of {other}" if rows[-1]["ratio"] else ""), flush=True)
    return {"lengths": lengths, "rows": rows, "failures": failures}


def ratio(row):
    """Tandem against the best of cuDNN and FA3; NaN where neither ran."""
    best = max((row["tflops"].get(name, 0.0) for name in ("cudnn", "fa3")), default=0.0)
    return row["tflops"].get("tandem", math.nan) / best if best else math.nan


def geometric_mean(values):
    values = [value for value in values if value > 0]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def show(row):
    cells = "  ".join(f"{name} {value:6.1f}" for name, value in row["tflops"].items())
    shape = f"{row['grid']:8s} {row['dtype']} d {row['head_dim']:3d}/{row['head_dim_v']:3d} {'causal' if row['causal'] else 'full  '} n {row['seqlen']:6d} b {row['batch']:3d} h {row['heads']:2d}/{row['heads_kv']:2d}"
    print(f"{shape}  {cells}  ratio {ratio(row):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="forward", help="forward, dims, fp16, gqa, shapes, masks; commas between")
    parser.add_argument("--seqlens", type=lambda text: [int(x) for x in text.split(",")])
    parser.add_argument("--head-dims", type=lambda text: [int(x) for x in text.split(",")])
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16"))
    parser.add_argument("--contenders", default="cudnn,fa3,fa2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-host", action="store_true", help="leave the host's table out")
    parser.add_argument("--output", help="record file; default: bench/records/DATE-DEVICE.json")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    tandem = tandem_c.Tandem()
    names = arguments.contenders.split(",")
    begin = time.time()
    record = {"device": torch.cuda.get_device_name(), "card": card(), "driver": driver_version(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "sources_digest": sources_digest(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
              "command": "python3 bench/bench.py " + " ".join(sys.argv[1:]), "ceilings": {"gemm_bf16_tflops": gemm_ceiling()}, "rows": []}
    for points in groups(grid_points(arguments)):
        rows = measure(tandem, points, names, arguments.rounds)
        record["rows"] += rows
        for row in rows:
            show(row)
        torch.cuda.empty_cache()
    if "masks" in arguments.grid.split(","):
        record["masks"] = masks(tandem, arguments.rounds)
        torch.cuda.empty_cache()
    if not arguments.no_host:
        record["host"] = host_costs()
    record["seconds"] = time.time() - begin

    print(f"\nBF16 GEMM ceiling {record['ceilings']['gemm_bf16_tflops']:.0f} TFLOP/s; {record['seconds']:.0f} s")
    for grid in dict.fromkeys(row["grid"] for row in record["rows"]):
        ratios = [ratio(row) for row in record["rows"] if row["grid"] == grid and not math.isnan(ratio(row))]
        if ratios:
            print(f"{grid}: against the best of cuDNN and FA3, {len(ratios)} points: geometric mean {geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    if record.get("host"):
        print("host:", json.dumps(record["host"])[:600])
    name = f"{record['date'][:19].replace(':', '')}-{record['device'].split()[-1].lower()}-{arguments.grid.replace(',', '-')}.json"
    target = pathlib.Path(arguments.output or ROOT / "bench/records" / name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")
    print("record:", target.name)


def driver_version():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
