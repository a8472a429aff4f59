#!/usr/bin/env python3
"""Writes the README's tables from the newest records of bench/records.

    python3 bench/readme_table.py            rewrites README.md between its table marks
    python3 bench/readme_table.py --print    prints it
"""

import argparse
import json
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from sources_digest import sources_digest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def records_of(grid, points):
    """(path, record) of the records that hold at least so many points of a grid, the newest last."""
    found = []
    for path in sorted((ROOT / "bench/records").glob("*.json")):
        record = json.loads(path.read_text())
        if sum(row.get("grid") == grid for row in record.get("rows", [])) >= points:
            found.append((record["date"], path, record))
    return [(path, record) for _, path, record in sorted(found, key=lambda item: item[0])]


def ratio(row):
    return row["tflops"]["tandem"] / max(row["tflops"].get("cudnn", 0), row["tflops"].get("fa3", 0))


def summary(record):
    ratios = [ratio(row) for row in record["rows"] if row["grid"] == "forward"]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios)


def table(records):
    path, record = records[-1]
    rows = [row for row in record["rows"] if row["grid"] == "forward"]
    seqlens = sorted({row["seqlen"] for row in rows})
    lines = [f"Forward, BF16, 16,384 tokens, hidden size 2,048, one {record['device']}, TFLOP/s, Tandem / cuDNN / FlashAttention-3, all in one run through CUDA",
             f"graphs, each timed after 80 ms of its own (`make bench`; record [`{path.name}`](bench/records/{path.name}); BF16 GEMM ceiling of that run {record['ceilings']['gemm_bf16_tflops']:.0f}):", "",
             "| head dim | " + " | ".join(f"{n:,}" for n in seqlens) + " |", "|---" * (len(seqlens) + 1) + "|"]
    for head_dim in sorted({row["head_dim"] for row in rows}):
        for causal in (False, True):
            cells = []
            for seqlen in seqlens:
                cells.append(cell(next(r for r in rows if (r["head_dim"], r["causal"], r["seqlen"]) == (head_dim, causal, seqlen))))
            lines.append(f"| {head_dim} {'causal' if causal else 'full'} | " + " | ".join(cells) + " |")
    lines += ["", "Against the better of the two at each point, geometric mean and least ratio of each recorded run (cards and moments differ by 5 % and more):", ""]
    for other_path, other in records:
        if other["sources_digest"] != record["sources_digest"]:  # another kernel: the worklog tells what came of it
            continue
        mean, least = summary(other)
        lines.append(f"* {other['date'][:16].replace('T', ' ')} UTC: {mean:.3f}, least {least:.3f} ([record](bench/records/{other_path.name}))")
    host = record.get("host", {}).get("host") if record.get("host") else None
    if host and "cuda_context_ms" in host and record["sources_digest"] == sources_digest():  # the host's code is all of src/, not only what becomes a kernel
        lines += ["", f"Host: {host['run_median_us']:.1f} µs a `run` once prepared, from C++ (the middle one of five processes, whose medians are {host['run_least_us']:.1f} to {host['run_most_us']:.1f}); first call {host['first_call_warm_ms']:.0f} ms with a warm kernel cache, "
                      f"in a process that has a CUDA context, which the driver takes {host['cuda_context_ms']:.0f} ms to make."]
    return "\n".join(lines)


def cell(row):
    tflops = row["tflops"]
    return f"**{tflops['tandem']:.0f}** / {tflops.get('cudnn', math.nan):.0f} / {tflops.get('fa3', math.nan):.0f}".replace("nan", "-")


def grid_table(grid, key, titles, first):
    """A row for each key, a column for each (mask, length). Only of the kernels that the first table is of."""
    newest = records_of("forward", 36)[-1][1]["sources_digest"]
    found = [(path, record) for path, record in records_of(grid, 6) if record["sources_digest"] == newest]
    if not found:
        return ""
    path, record = found[-1]
    rows = [row for row in record["rows"] if row["grid"] == grid]
    columns = sorted({(row["causal"], row["seqlen"]) for row in rows}, key=lambda column: (column[1], column[0]))
    lines = ["", titles.format(record=f"[record](bench/records/{path.name})"), "",
             f"| {first} | " + " | ".join(f"{n:,} {'causal' if causal else 'full'}" for causal, n in columns) + " |", "|---" * (len(columns) + 1 + first.count("|")) + "|"]
    for name in dict.fromkeys(key(row) for row in rows):
        cells = {(row["causal"], row["seqlen"]): cell(row) for row in rows if key(row) == name}
        lines.append(f"| {name} | " + " | ".join(cells.get(column, "") for column in columns) + " |")
    return "\n".join(lines)


def other_tables():
    def head_dims(row):
        return (f"{row['head_dim']}" if row["head_dim"] == row["head_dim_v"] else f"{row['head_dim']} / {row['head_dim_v']}") + f" | {row['heads']}"

    return "\n".join(filter(None, (
        grid_table("dims", head_dims, "Other head dims ({record}); FLOPs are those of the tensors, not of the tiles:", "head dim | heads"),
        grid_table("gqa", lambda row: f"{row['heads']} / {row['heads_kv']}", "Query heads and KV heads, head dim 128, timed together ({record}):", "heads"),
        grid_table("fp16", lambda row: f"{row['head_dim']} {row['dtype'].upper()}", "FP16 beside BF16, timed together ({record}; the wheel of FlashAttention-3 has no FP16):", "head dim"),
        grid_table("shapes", lambda row: f"{row['batch']} x {row['heads']} | {row['tail_share']:.0%}", "Batch x heads at head dim 128; the tail is the share of the last round of tiles that stands idle ({record}):",
                   "batch x heads | tail"))))


def masks_table():
    """What masks and ragged batches cost, in each recorded run of the kernels that the first table is of."""
    newest = records_of("forward", 36)[-1][1]["sources_digest"]
    runs = [record for _, record in records_of("forward", 36) if record["sources_digest"] == newest and record.get("masks")]
    if not runs:
        return ""
    lines = ["", "Ragged batches and masks, at head dim 128 where none is named, rates by the pairs of query and key that are seen, as a share of the dense kernel's timed beside them; in "
             f"{len(runs)} run{'s' if len(runs) > 1 else ''}:", "", "| | beside | " + " | ".join(run["date"][11:16] for run in runs) + " |", "|---" * (2 + len(runs)) + "|"]
    for row in runs[-1]["masks"]["rows"]:
        if row["against"]:
            ratios = [next((other["ratio"] for other in run["masks"]["rows"] if other["name"] == row["name"]), None) for run in runs]
            lines.append(f"| {row['name']} | {row['against']} | " + " | ".join("" if each is None else f"{each:.3f}" for each in ratios) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print instead of writing")
    arguments = parser.parse_args()
    text = "\n".join(filter(None, (table(records_of("forward", 36)), masks_table(), other_tables())))
    if arguments.print:
        print(text)
        return
    readme = ROOT / "README.md"
    changed = re.sub(r"(<!-- table:[^\n]*-->\n).*?(<!-- /table -->)", lambda match: f"{match[1]}{text}\n{match[2]}", readme.read_text(), flags=re.S)
    readme.write_text(changed)


if __name__ == "__main__":
    main()
