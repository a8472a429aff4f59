#!/usr/bin/env python3
"""Writes the README's table from the newest forward record of bench/records.

    python3 bench/readme_table.py            rewrites README.md between its table marks
    python3 bench/readme_table.py --print    prints it
"""

import argparse
import json
import math
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def forward_records():
    """(path, record) of the records that hold the forward grid, the newest last."""
    found = []
    for path in sorted((ROOT / "bench/records").glob("*.json")):
        record = json.loads(path.read_text())
        if sum(row.get("grid") == "forward" and row["dtype"] == "bf16" for row in record.get("rows", [])) >= 36:
            found.append((record["date"], path, record))
    return [(path, record) for _, path, record in sorted(found, key=lambda item: item[0])]


def ratio(row):
    return row["tflops"]["tandem"] / max(row["tflops"].get("cudnn", 0), row["tflops"].get("fa3", 0))


def summary(record):
    ratios = [ratio(row) for row in record["rows"] if row["grid"] == "forward" and row["dtype"] == "bf16"]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)), min(ratios)


def table(records):
    path, record = records[-1]
    rows = [row for row in record["rows"] if row["grid"] == "forward" and row["dtype"] == "bf16"]
    seqlens = sorted({row["seqlen"] for row in rows})
    lines = [f"Forward, BF16, 16,384 tokens, hidden size 2,048, one {record['device']}, TFLOP/s, Tandem / cuDNN / FlashAttention-3, all in one run through CUDA",
             f"graphs (`make bench`; record [`{path.name}`](bench/records/{path.name}); BF16 GEMM ceiling of that run {record['ceilings']['gemm_bf16_tflops']:.0f}):", "",
             "| head dim | " + " | ".join(f"{n:,}" for n in seqlens) + " |", "|---" * (len(seqlens) + 1) + "|"]
    for head_dim in sorted({row["head_dim"] for row in rows}):
        for causal in (False, True):
            cells = []
            for seqlen in seqlens:
                row = next(r for r in rows if (r["head_dim"], r["causal"], r["seqlen"]) == (head_dim, causal, seqlen))["tflops"]
                cells.append(f"**{row['tandem']:.0f}** / {row.get('cudnn', math.nan):.0f} / {row.get('fa3', math.nan):.0f}")
            lines.append(f"| {head_dim} {'causal' if causal else 'full'} | " + " | ".join(cells) + " |")
    lines += ["", "Against the better of the two at each point, geometric mean and least ratio of each recorded run (cards and moments differ by 5 % and more):", ""]
    for other_path, other in records:
        mean, least = summary(other)
        lines.append(f"* {other['date'][:16].replace('T', ' ')} UTC: {mean:.3f}, least {least:.3f} ([record](bench/records/{other_path.name}))")
    host = record.get("host", {}).get("host") if record.get("host") else None
    if host:
        lines += ["", f"Host: {host['run_median_us']:.1f} µs a `run` once prepared (median, from C++); first call {host['warm_prepare_ms']:.0f} ms with a warm kernel cache, "
                      f"beside {host['warm_context_ms']:.0f} ms in which the driver makes its context."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print instead of writing")
    arguments = parser.parse_args()
    text = table(forward_records())
    if arguments.print:
        print(text)
        return
    readme = ROOT / "README.md"
    changed = re.sub(r"(<!-- table:[^\n]*-->\n).*?(<!-- /table -->)", lambda match: f"{match[1]}{text}\n{match[2]}", readme.read_text(), flags=re.S)
    readme.write_text(changed)


if __name__ == "__main__":
    main()
