#!/usr/bin/env python3
"""Measures schedules on the GPU at hand and writes the tuned table from what won.

    python3 tools/sweep.py                          all head dims of the table, full and causal; a record in bench/records/
    python3 tools/sweep.py --head-dims 128 --seqlens 2048,16384
    python3 tools/sweep.py --from RECORD [...]      no GPU: the table from records alone, of several runs or cards
    python3 tools/sweep.py --write ...              also rewrites src/plan/tuned.hpp

Candidates of a head dim come from the lists below: each a change of ForwardSpec's fields (and of section_mb, how much of K and V is worked on
together) with the reason why it might win. A problem's candidates are timed in one process, in random order, each at its own clocks. Lengths
next to each other at which a common candidate is within 2.5 % of the winner, which is what two runs of one differ by, share a line; of candidates
within a percent of each other the first in the list is taken.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tools")]

TABLE = ROOT / "src/plan/tuned.hpp"
SEQLENS = (512, 1024, 2048, 4096, 8192, 16384)
CLOSE_ENOUGH = 0.025  # what two runs of the same candidate differ by
OWN_CLOCK_MS = 50  # of warming: shorter, and a contender runs at its predecessor's clock
ALIKE = 0.01  # candidates that differ by less are alike: the first of them is taken

OWN = "q_in_registers=true,output_stage=own"
SMALL = "consumer_warpgroups=1,turns=none,q_in_registers=false,output_stage=registers"
THREE = "consumer_warpgroups=3"
ROWS_192 = "192 rows a tile: a third fewer reads of K and V, and the exp unit fed"
ROWS_192_Q = "192 rows a tile, and Q in registers: shared memory is read a quarter less, and its buffer is free for the next tile's"
FEW_ROWS = "128 rows a tile waste less on the diagonal than 192"
Q_REGISTERS = "Q in registers saves a fifth of the shared-memory reads"
STAGED = "O leaves under the next tile, through a buffer that narrower blocks leave room for"
NEXT_Q = "the next tile's Q comes under this one"
THIRD = "a third stage evens out the loads"
WIDEST = "the widest block that shared memory leaves room for"
# Fields not named are ForwardSpec's defaults: the candidates do not depend on the table that they replace.
DEFAULTS = ("consumer_warpgroups=2,stages=2,q_buffers=1,ctas_per_sm=1,cluster=1,overlap=true,q_in_registers=false,lazy_rescale=true,turns=gemm_issue,"
            "output_stage=registers,scheduler=dynamic_persistent")
FREE = "without turns the warpgroups find their own rhythm"
CANDIDATES = {
    (64, 64): [(f"block_n=128,{OWN}", "two warpgroups begin and end a short tile faster than three"),
               (f"block_n=96,{THREE},{OWN}", "three warpgroups keep the exp unit fed; Q in registers, and 96 keys leave room for it"),
               (f"block_n=112,{THREE},{OWN}", "three warpgroups keep the exp unit fed; Q in registers, and 112 keys leave room for it"),
               (f"block_n=112,{THREE},output_stage=own", "three warpgroups keep the exp unit fed; 128 keys would fill the registers"),
               (f"block_n=96,ctas_per_sm=3,{SMALL}", "three small blocks cover each other's prologue and epilogue"),
               (f"block_n=80,ctas_per_sm=3,{SMALL}", "three small blocks cover each other's prologue and epilogue")],
    (72, 72): [(f"block_n=128,{OWN}", FEW_ROWS), (f"block_n=112,{THREE},output_stage=own", ROWS_192), (f"block_n=96,{THREE},{OWN},stages=3", f"{ROWS_192_Q}; {THIRD}"),
               (f"block_n=96,{THREE},{OWN}", ROWS_192_Q), (f"block_n=112,{THREE},stages=3", f"{ROWS_192}; {THIRD}"),
               (f"block_n=96,{THREE},q_buffers=2,stages=3", f"{ROWS_192}; {NEXT_Q}; {THIRD}")],
    (80, 80): [(f"block_n=128,{OWN}", FEW_ROWS), (f"block_n=112,{THREE},output_stage=own", ROWS_192), (f"block_n=96,{THREE},{OWN}", ROWS_192_Q),
               (f"block_n=96,{THREE},{OWN},stages=3", f"{ROWS_192_Q}; {THIRD}")],
    (88, 88): [(f"block_n=128,{OWN}", FEW_ROWS), (f"block_n=112,{THREE}", ROWS_192), (f"block_n=112,{THREE},output_stage=own", ROWS_192),
               (f"block_n=96,{THREE},q_buffers=2", f"{ROWS_192}; {NEXT_Q}"), (f"block_n=80,{THREE},{OWN}", ROWS_192_Q),
               (f"block_n=80,{THREE},{OWN},stages=3", f"{ROWS_192_Q}; {THIRD}"),
               (f"block_n=96,{THREE},q_buffers=2,stages=3", f"{ROWS_192}; {NEXT_Q}; {THIRD}")],
    (96, 96): [(f"block_n=128,{OWN}", FEW_ROWS), (f"block_n=112,{THREE}", ROWS_192), (f"block_n=112,{THREE},output_stage=own", ROWS_192),
               (f"block_n=96,{THREE},output_stage=own", ROWS_192), (f"block_n=96,{THREE},q_buffers=2", f"{ROWS_192}; {NEXT_Q}"),
               (f"block_n=80,{THREE},{OWN},stages=3", f"{ROWS_192_Q}; {THIRD}")],
    (112, 112): [(f"block_n=128,{OWN}", Q_REGISTERS), (f"block_n=128,turns=none,{OWN}", FREE), (f"block_n=96,{THREE}", ROWS_192),
                 (f"block_n=96,{THREE},q_buffers=2", NEXT_Q)],
    (128, 128): [(f"block_n=128,{OWN}", Q_REGISTERS), (f"block_n=128,turns=none,{OWN}", FREE)],
    (160, 160): [("block_n=96", "96 keys divide the usual lengths"), ("block_n=112", WIDEST), ("block_n=80,output_stage=own", STAGED)],
    (192, 128): [("block_n=128", "128 keys divide the usual lengths; O leaves from registers to make room for them"),
                 ("block_n=96,output_stage=own", STAGED), ("block_n=128,turns=none", FREE)],
    (192, 192): [("block_n=96", "96 keys divide the usual lengths"), ("block_n=112", WIDEST), ("block_n=80,output_stage=own", STAGED),
                 ("block_n=80,q_buffers=2", NEXT_Q)],
    # Without turns they are as fast, and windows find no registers.
    (256, 256): [("block_n=64", "64 keys divide the usual lengths"), ("block_n=80", WIDEST)],
}
# A sweep has tiles for every multiprocessor many times over. Where there are too few of them the smallest of the head dim serve (planner.cpp): these, whatever won.
FEW_TILES = {(64, 64): (f"block_n=80,ctas_per_sm=3,{SMALL}", "64 rows a tile reach more multiprocessors where tiles are few")}
FEW_TILES_BELOW = 1  # tokens: no length by itself
SECTIONS_MB = (16, 32)
FIELDS = ("head_dim", "head_dim_v", "causal", "consumer_warpgroups", "block_n", "stages", "q_buffers", "ctas_per_sm", "cluster", "overlap", "q_in_registers",
          "lazy_rescale", "turns", "output_stage", "scheduler")
ENUMS = {"turns": "Turns", "output_stage": "OutputStage", "scheduler": "Scheduler"}
FIELD_DEFAULTS = {"causal": False, "consumer_warpgroups": 2, "stages": 2, "q_buffers": 1, "ctas_per_sm": 1, "cluster": 1, "overlap": True,
                  "q_in_registers": False, "lazy_rescale": True, "turns": "gemm_issue", "output_stage": "registers", "scheduler": "dynamic_persistent"}


def last_wins(text):
    """'a=1,b=2,a=3' -> 'a=3,b=2': the candidate's fields over the defaults."""
    return ",".join(f"{key}={value}" for key, value in dict(item.split("=") for item in text.split(",")).items())


def measure(head_dims, seqlens, rounds, sections, peers):
    import torch

    import contenders
    import tandem_c
    from gpu_card import card
    from sources_digest import sources_digest

    tandem = tandem_c.Tandem()
    record = {"device": torch.cuda.get_device_name(), "card": card(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "sources_digest": sources_digest(), "warm_ms": contenders.WARM_MS, "sweep": []}
    for (head_dim, head_dim_v), candidates in CANDIDATES.items():
        if head_dims and head_dim not in head_dims:
            continue
        for causal in (False, True):
            for seqlen in seqlens:
                batch, heads = max(1, 16384 // seqlen), 2048 // head_dim
                q, k = (torch.randn(batch, seqlen, heads, head_dim, device="cuda", dtype=torch.bfloat16) for _ in range(2))
                v = torch.randn(batch, seqlen, heads, head_dim_v, device="cuda", dtype=torch.bfloat16)
                functions, specs = {}, {}
                for fields, why in candidates:
                    for section in sections:
                        name = f"{fields} section_mb={section}"
                        os.environ["TANDEM_SECTION_MB"] = str(section)
                        run, _, _, plan = tandem.forward(q, k, v, causal, spec=last_wins(f"{DEFAULTS},{fields}"))
                        functions[name], specs[name] = run, {"spec": json.loads(plan)["spec"], "section_mb": section, "why": why}
                os.environ.pop("TANDEM_SECTION_MB")
                functions.update(contenders.peers(q, k, v, causal, peers))
                flops = 2 * batch * heads * seqlen * seqlen * (head_dim + head_dim_v) * (0.5 if causal else 1.0)
                tflops, _ = contenders.time_all(functions, flops, rounds)
                record["sweep"].append({"head_dim": head_dim, "head_dim_v": head_dim_v, "causal": causal, "seqlen": seqlen, "tflops": tflops, "specs": specs})
                ours = sorted(((value, name) for name, value in tflops.items() if name in specs), reverse=True)
                peer = max((tflops.get(name, 0.0) for name in ("cudnn", "fa3")), default=0.0)
                print(f"d {head_dim}/{head_dim_v} {'causal' if causal else 'full'} n {seqlen}: {ours[0][0]:.0f} {ours[0][1]}, peer {peer:.0f}; "
                      + ", ".join(f"{value / ours[0][0] - 1:+.1%} {name}" for value, name in ours[1:4]), flush=True)
    return record


def write(record, path):
    """A point a line."""
    head = json.dumps({key: value for key, value in record.items() if key != "sweep"}, indent=1)
    points = ",\n".join("  " + json.dumps(point, separators=(",", ":")) for point in record["sweep"])
    path.write_text(f'{head[:-2]},\n "sweep": [\n{points}\n ]\n}}\n')


def scores(records, key):
    """{seqlen: {candidate: mean of its rate over the best of its run}} and the candidates' descriptions. Those of records that are no candidates
    any more are left out, and so are runs that lack a schedule which another run has: what was best without it says nothing. Where some runs were timed at
    each contender's own clock (`warm_ms`), the others do not count."""
    collected, specs = {}, {}
    standing = {f"{fields} section_mb={section}": (fields, why) for fields, why in CANDIDATES.get(key[:2], []) for section in SECTIONS_MB}
    runs_of = lambda chosen: [run for run in ([point for point in record["sweep"] if (point["head_dim"], point["head_dim_v"], point["causal"]) == key]
                                              for record in chosen) if run]
    runs = runs_of([record for record in records if record.get("warm_ms", 0) >= OWN_CLOCK_MS]) or runs_of(records)
    schedules = [{standing[name][0] for point in run for name in point["specs"] if name in standing} for run in runs]
    for run, measured in zip(runs, schedules):
        if measured != set().union(*schedules):
            continue
        for point in run:
            names = [name for name in standing if name in point["specs"]]
            best = max(point["tflops"][name] for name in names)
            specs.update({name: {**point["specs"][name], "why": standing[name][1]} for name in names})
            for name in names:
                collected.setdefault(point["seqlen"], {}).setdefault(name, []).append(point["tflops"][name] / best)
    if not collected:
        sys.exit(f"head dims {key[0]} and {key[1]}: none of these runs has all schedules that some of them have; sweep them again, in one run")
    return {n: {name: sum(v) / len(v) for name, v in found.items()} for n, found in sorted(collected.items())}, specs


def lines_of(records, key):
    """The table's lines of one head dim and mask: the fewest ranges of lengths in which one candidate is close to the best everywhere."""
    by_seqlen, specs = scores(records, key)
    schedules = {}  # candidates of one schedule: they differ in section_mb
    for name, candidate in specs.items():
        schedules.setdefault(json.dumps(candidate["spec"], sort_keys=True), []).append(name)

    def closeness(names, lengths):
        """How close the best of `names` comes to the best of all, at the length where it is farthest."""
        return min(max(by_seqlen[n].get(name, 0.0) for name in names) / max(by_seqlen[n].values()) for n in lengths)

    seqlens, lines, start = list(by_seqlen), [], 0
    if key[:2] in FEW_TILES:
        fields, why = FEW_TILES[key[:2]]
        lines.append((FEW_TILES_BELOW, SECTIONS_MB[0], why, specs[f"{fields} section_mb={SECTIONS_MB[0]}"]["spec"]))
    while start < len(seqlens):
        end, chosen = start, None
        while end < len(seqlens):
            close = {schedule: closeness(names, seqlens[start:end + 1]) for schedule, names in schedules.items()}
            if end > start and max(close.values()) < 1 - CLOSE_ENOUGH:
                break
            chosen, end = next(schedule for schedule in schedules if close[schedule] >= max(close.values()) - ALIKE), end + 1
        lengths = seqlens[start:end]
        below = 0 if end == len(seqlens) else (seqlens[end - 1] + seqlens[end]) // 2
        winner = specs[max(schedules[chosen], key=lambda name: closeness([name], lengths))]
        others = [closeness(schedules[schedule], lengths) for schedule in schedules if schedule != chosen]
        distance = f"; the next is {1 - max(others):.0%} behind" if others else ""
        line = (below, winner["section_mb"], winner["why"] + distance, winner["spec"])
        if lines and lines[-1][0] != FEW_TILES_BELOW and lines[-1][3] == line[3]:  # neighbours that chose the same schedule
            lines[-1] = (below, *lines[-1][1:])
        else:
            lines.append(line)
        start = end
    return lines


def code(key, line):
    below, section, reason, spec = line

    def value(field):
        return f"{ENUMS[field]}::{spec[field]}" if field in ENUMS else str(spec[field]).lower()

    fields = ", ".join(f".{field} = {value(field)}" for field in FIELDS if field in ("head_dim", "head_dim_v", "block_n") or spec[field] != FIELD_DEFAULTS.get(field))
    return f'    {{{key[0]}, {key[1]}, {below}, {section}, "{reason}",\n     {{{fields}}}}},\n'


def table(records):
    keys = sorted({(p["head_dim"], p["head_dim_v"], p["causal"]) for record in records for p in record["sweep"]})
    return "".join(code(key, line) for key in keys for line in lines_of(records, key))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-dims", type=lambda text: [int(x) for x in text.split(",")])
    parser.add_argument("--seqlens", type=lambda text: [int(x) for x in text.split(",")], default=SEQLENS)
    parser.add_argument("--sections", type=lambda text: [int(x) for x in text.split(",")], default=SECTIONS_MB, help="MiB")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", type=lambda text: [name for name in text.split(",") if name], default=["cudnn", "fa3"], help="timed beside them; '': none")
    parser.add_argument("--from", dest="records", nargs="+", type=pathlib.Path, help="records to read instead of measuring")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="rewrite the table; head dims that the records lack keep their lines")
    arguments = parser.parse_args()
    if arguments.records:
        records = [json.loads(path.read_text()) for path in arguments.records]
    else:
        records = [measure(arguments.head_dims, arguments.seqlens, arguments.rounds, arguments.sections, arguments.peers)]
        target = arguments.output or ROOT / "bench/records" / f"{records[0]['date'][:19].replace(':', '')}-sweep.json"
        write(records[0], target)
        print("record:", target.name)
    text = table(records)
    print(text)
    if arguments.write:
        source = TABLE.read_text()
        begin, end = source.index("    // <lines>\n") + len("    // <lines>\n"), source.index("    // </lines>")
        measured = {(p["head_dim"], p["head_dim_v"]) for record in records for p in record["sweep"]}
        line_pattern = r'    \{\d+, \d+, \d+, \d+, ".*?",\n     \{.*?\}\},\n'

        def numbers(line):
            """Head dims and the length below which it serves."""
            return [int(number) for number in re.findall(r"\d+", line)[:3]]

        def order(line):
            head_dim, head_dim_v, below = numbers(line)
            return head_dim, head_dim_v, ".causal = true" in line, below or math.inf

        kept = [line for line in re.findall(line_pattern, source[begin:end]) if tuple(numbers(line)[:2]) not in measured]
        lines = kept + re.findall(line_pattern, text)
        TABLE.write_text(source[:begin] + "".join(sorted(lines, key=order)) + source[end:])


if __name__ == "__main__":
    main()
