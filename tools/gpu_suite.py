#!/usr/bin/env python3
"""The GPU suite: everything that needs an H100 or H200, in one command, with a record for tests/records/.

    python3 tools/gpu_suite.py [--build build] [--filter FILTER] [--no-sanitizers]

Builds the GPU tests unless they are there (cmake, a C++ compiler and the packages of tools/setup.sh), runs each test under a time limit of
its own, then compute-sanitizer's four tools on a small set. Prints a short table last; exit code 1 if anything failed.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from gpu_card import card
from sources_digest import ROOT, sources_digest

TESTS = {"hopper_primitives": 120, "operator_hopper": 300, "hopper_launch": 180, "hopper_schedules": 180}  # seconds
PRIMITIVES = "hopper_primitives"
SANITIZER_SECONDS = 300
# Kernels that no pack holds (TANDEM_AOT_DIR; `make gpu-pack`) are compiled at first use, one a process at a time: then the random problems are
# shared by several. Otherwise one test after the other has the GPU for itself: processes take turns on it, a case waits for it forty times, and
# with three of them a case took 0.1 s instead of 0.02.
RANDOM_SHARDS = 1 if os.environ.get("TANDEM_AOT_DIR") else 6
# Small, and through every part of the kernel: tails, causal diagonal, several tiles a block, grouped heads.
SANITIZED = "*GoldenValues*:*BC101*:*BC11_*:*BC51*:*BC07*:*LseIsOptional*"
SANITIZERS = ("memcheck", "synccheck", "initcheck", "racecheck")


def build(folder: pathlib.Path) -> None:
    if all((folder / "bin" / test).exists() for test in TESTS):
        return
    print("building the GPU tests", flush=True)
    subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DTANDEM_BUILD_MODEL=OFF"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", *TESTS, "tandem", "tandem_cli"], check=True, stdout=subprocess.DEVNULL)


def run(command, seconds, environment=None, errors=subprocess.STDOUT):
    """(state, seconds taken, output); what goes to stderr is part of the output unless `errors` says otherwise."""
    begin = time.time()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace", timeout=seconds,
                              env={**os.environ, "TANDEM_TEST_TRACE": "1", **(environment or {})})
        state = "passed" if done.returncode == 0 else f"failed ({done.returncode})"
        output = done.stdout
    except subprocess.TimeoutExpired as expired:
        state = f"no end within {seconds} s"
        output = (expired.stdout or b"").decode(errors="replace") if isinstance(expired.stdout, bytes) else expired.stdout or ""
    return state, round(time.time() - begin, 1), output


def announce(name, job):
    """A line as soon as a process ends; of one that did not, where it stood."""
    state, taken, output = job.result()
    stood = "" if state == "passed" else "; ".join(
        next((line for line in reversed(output.splitlines()) if line.startswith(mark)), "") for mark in ("[ RUN", "[ case"))
    print(f"{name}: {state}, {taken} s {stood}", flush=True)


def counts(report: pathlib.Path) -> dict:
    """Tests and cases of a gtest JSON report."""
    if not report.exists():
        return {}
    data = json.loads(report.read_text())
    tests = [test for suite in data["testsuites"] for test in suite["testsuite"]]
    cases, refused = (sum(int(test.get(name, 0)) for test in tests) for name in ("cases", "refused"))
    return {"tests": data["tests"], "failures": data["failures"], "skipped": sum(test.get("result") == "SKIPPED" for test in tests),
            "cases": cases, "refused": refused, "run": cases - refused,
            "slowest": sorted(({"name": test["name"], "seconds": float(test["time"].rstrip("s"))} for test in tests), key=lambda t: -t["seconds"])[:5]}


def compare_primitives(folder: pathlib.Path, output: str) -> dict:
    """Digests of what the primitives give on this GPU, and in the model where it is built."""
    _, _, model = run([str(folder / "bin" / "model_primitives"), "--gtest_filter=*Digest*"], 120) if (folder / "bin/model_primitives").exists() else ("", 0, "")
    digests: dict = {}
    for text in (output, model):
        for machine, kernel, digest in re.findall(r"^(\S+) (\S+) ([0-9a-f]{16})$", text, re.MULTILINE):
            digests.setdefault(kernel, {})[machine] = digest
    return digests


def compare_timelines(folder: pathlib.Path, picture: pathlib.Path) -> dict:
    """What the model predicts of the three schedules of `tandem timeline`, and what this GPU does."""
    timelines = {}
    for backend in ("model", "hopper"):
        command = [str(folder / "bin/tandem"), "timeline", "--backend", backend, "--json", "--svg", str(picture.with_name(f"{picture.stem}-{backend}.svg"))]
        state, _, output = run(command, 120, errors=None)  # what takes long says so there
        try:
            data = json.loads(output)
        except ValueError:  # a refusal, or no end: the record says so, and is written
            timelines[backend] = {"state": state, "output": output[-300:]}
            continue
        names = ("name", "step_cycles", "cycles_for_64_rows", "softmax_cycles", "total_cycles", "step_tensor_share", "total_tensor_share")
        timelines[backend] = {"order": data["order"], "schedules": [{name: row[name] for name in names} for row in data["schedules"]]}
    return timelines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--output", type=pathlib.Path, help="record file; default: tests/records/DATE.json")
    parser.add_argument("--filter", help="gtest filter for the tests")
    parser.add_argument("--no-sanitizers", action="store_true")
    arguments = parser.parse_args()
    build(arguments.build)

    query = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,power.draw", "--format=csv,noheader"], capture_output=True, text=True)
    device = [cell.strip() for cell in query.stdout.splitlines()[0].split(",")] if query.returncode == 0 else ["unknown"] * 4
    record = {"device": device[0], "card": card(), "driver": device[1], "clocks": device[2:], "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "sources_digest": sources_digest(), "tests": {}, "sanitizers": {}}
    target = arguments.output or ROOT / "tests/records" / f"{record['date'][:19].replace(':', '')}-{device[0].split()[-1].lower()}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    jobs = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as queue, concurrent.futures.ThreadPoolExecutor(max_workers=RANDOM_SHARDS) as beside:
        def submit(pool, name, test, seconds, filter_, environment=None):
            report = arguments.build / f"{name}.report.json"
            report.unlink(missing_ok=True)
            command = [str(arguments.build / "bin" / test), f"--gtest_output=json:{report}", f"--gtest_filter={filter_}"]
            jobs[name] = pool.submit(run, command, seconds, environment)
            jobs[name].add_done_callback(lambda job: announce(name, job))

        submit(beside, PRIMITIVES, PRIMITIVES, TESTS[PRIMITIVES], "*")  # compiles nearly all the time
        for test, seconds in TESTS.items():
            if test != PRIMITIVES:
                submit(queue, test, test, seconds, arguments.filter or "-*Random*")
        for shard in range(0 if arguments.filter else RANDOM_SHARDS):
            submit(queue if RANDOM_SHARDS == 1 else beside, f"random {shard + 1} of {RANDOM_SHARDS}", "operator_hopper", TESTS["operator_hopper"], "*Random*",
                   {"TANDEM_TEST_SHARD": f"{shard}/{RANDOM_SHARDS}"})
        for tool in () if arguments.no_sanitizers else SANITIZERS:
            command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "99", "--print-limit", "5", str(arguments.build / "bin" / "operator_hopper"),
                       f"--gtest_filter={SANITIZED}"]
            jobs[tool] = queue.submit(run, command, SANITIZER_SECONDS)
            jobs[tool].add_done_callback(lambda job, tool=tool: announce(tool, job))
    # Alone on the GPU: what else runs there would be in the picture.
    record["timeline"] = compare_timelines(arguments.build, arguments.build / "timeline.svg")
    failed = False
    for name, job in jobs.items():
        state, taken, output = job.result()
        row = {"state": state, "seconds": taken}
        if name == PRIMITIVES:
            record["primitives"] = compare_primitives(arguments.build, output)
        if name not in SANITIZERS:
            record["tests"][name] = {**row, **counts(arguments.build / f"{name}.report.json")}
        else:
            summary = re.findall(r"ERROR SUMMARY.*|RACECHECK SUMMARY.*", output)
            ran = re.findall(r"\[  PASSED  \] (\d+) test", output)
            record["sanitizers"][name] = {**row, "summary": summary[-1] if summary else "", "tests": int(ran[-1]) if ran else 0}
        if state != "passed":
            failed = True
            shown = "\n".join(re.findall(r".*(?:Failure|FAILED|[Ee]rror[: ]).*(?:\n.*){0,6}", output)[:12])
            print(f"--- {name}: {state} in {taken} s\n{shown[:3000] or output[-2000:]}", flush=True)
            target.with_suffix(f".{name.replace(' ', '-')}.txt").write_text(output)

    print("\ntest               state       tests  failed  skipped     run  refused  seconds")
    for test, row in record["tests"].items():
        print(f"{test:18s} {row['state']:10s} {row.get('tests', 0):6d} {row.get('failures', 0):7d} {row.get('skipped', 0):8d} {row.get('run', 0):7d} "
              f"{row.get('refused', 0):8d} {row['seconds']:8.1f}")
    for tool, row in record["sanitizers"].items():
        print(f"{tool:18s} {row['state']:10s} {row['tests']:6d}  {row['summary']}  {row['seconds']:.1f} s")
    for kernel, row in record.get("primitives", {}).items():
        same = len(set(row.values())) == 1 if len(row) > 1 else None
        failed = failed or same is False
        print(f"{kernel:18s} {'equal bits on' if same else 'ONE MACHINE ONLY:' if same is None else 'BITS DIFFER:'} {', '.join(row)}")
    for backend, row in record["timeline"].items():
        failed = failed or "schedules" not in row
        print(f"timeline {backend:9s} {row.get('order', row.get('output'))}  "
              + "; ".join(f"{each['name']}: {each['step_cycles']:.0f} a step, {each['total_cycles']:.0f}" for each in row.get("schedules", [])))
    target.write_text(json.dumps(record, indent=1) + "\n")
    print("record:", target.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
