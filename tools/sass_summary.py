#!/usr/bin/env python3
"""Summarises the loops of kernels from their disassembly. docs/SASS.md says how to read what it prints.

    tools/sass_summary.py KERNEL.cubin ...                 these files
    tools/sass_summary.py --shipped [--only TEXT]          the kernels that ship, made by build/bin/tandem
    tools/sass_summary.py --shipped --table                a line for each of their loops
    tools/sass_summary.py --spec head_dim=64,causal=true   one kernel, as tandem compile --spec takes it
    tools/sass_summary.py --check-golden                   compares the kernels that ship with tests/golden/sass/
    tools/sass_summary.py --update-golden                  writes those files anew

--json prints the same for machines. No GPU is needed; nvdisasm and NVRTC are pip packages (tools/requirements.txt).
"""

import argparse
import dataclasses
import difflib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/sass"

# ------------------------------------------------------------------------------------------------------------------- instructions

FP32 = {"FFMA", "FADD", "FMUL"}  # each takes tensor-core time wherever it stands: the FMA pipe wins the register file

PIPES = ("tensor", "fma", "alu", "mufu", "uniform", "memory", "sync", "control")
PIPE_OF = {
    "fma": FP32 | {"IMAD", "HFMA2", "HADD2", "HMUL2", "DFMA", "DADD", "DMUL"},
    "mufu": {"MUFU"},
    "memory": {"LD", "LDG", "LDS", "LDL", "LDC", "LDSM", "ST", "STG", "STS", "STL", "STSM", "ATOM", "ATOMG", "ATOMS", "RED", "SHFL", "CCTL"},
    "sync": {"BAR", "SYNCS", "WARPGROUP", "WARPSYNC", "DEPBAR", "MEMBAR", "FENCE", "ELECT", "UCGABAR_ARV", "UCGABAR_WAIT", "ERRBAR", "USETMAXREG"},
    "control": {"BRA", "BRX", "BSSY", "BSYNC", "BREAK", "EXIT", "CALL", "RET", "NOP", "NANOSLEEP", "YIELD", "WARPSYNC.ALL"},
}
PIPE_BY_OPCODE = {opcode: pipe for pipe, opcodes in PIPE_OF.items() for opcode in opcodes}


def pipe_of(opcode: str) -> str:
    if opcode.endswith("GMMA") or opcode.endswith("MMA"):
        return "tensor"
    if opcode.startswith("UTMA") or opcode.startswith("UBLK"):
        return "memory"
    if opcode in PIPE_BY_OPCODE:
        return PIPE_BY_OPCODE[opcode]
    # U...: the uniform datapath; R2UR, S2UR and VOTEU write to it.
    return "uniform" if opcode.startswith("U") or opcode in {"R2UR", "S2UR", "VOTEU"} else "alu"


@dataclasses.dataclass
class Instruction:
    address: int
    predicate: str  # "@P0", "@!UP1", ""
    name: str  # with its modifiers: "MUFU.EX2"
    operands: str

    @property
    def opcode(self) -> str:
        return self.name.split(".")[0]

    @property
    def commits(self) -> bool:
        """Whether a WGMMA closes its group."""
        return self.opcode == "HGMMA" and "gsb0" in self.operands

    @property
    def groups_left(self) -> int | None:
        """Of a wait for WGMMA groups: how many may stay in flight."""
        match = re.fullmatch(r"gsb0, (0x[0-9a-f]+)", self.operands) if self.name.startswith("WARPGROUP.DEPBAR") else None
        return int(match[1], 16) if match else None

    @property
    def is_exp(self) -> bool:
        return self.name == "MUFU.EX2"


@dataclasses.dataclass
class Function:
    name: str
    instructions: list[Instruction]
    labels: dict[str, int]  # to an index in `instructions`


def parse(text: str) -> list[Function]:
    """The functions of `nvdisasm --print-code`."""
    functions: list[Function] = []
    for line in text.splitlines():
        line = line.strip()
        if match := re.fullmatch(r"\.text\.(\S+):", line):
            functions.append(Function(match[1], [], {}))
        elif not functions:
            continue
        elif match := re.fullmatch(r"(\.L\w+):", line):
            functions[-1].labels[match[1]] = len(functions[-1].instructions)
        elif match := re.match(r"/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", line):
            functions[-1].instructions.append(Instruction(int(match[1], 16), match[2] or "", match[3], match[4]))
    return [function for function in functions if function.instructions]


# ------------------------------------------------------------------------------------------------------------------------ the graph


@dataclasses.dataclass
class Block:
    instructions: list[Instruction]
    successors: list[int]


def blocks_of(function: Function) -> list[Block]:
    count = len(function.instructions)
    leaders = {0} | {at for at in function.labels.values() if at < count}
    for at, instruction in enumerate(function.instructions):
        if instruction.opcode in {"BRA", "BRX", "EXIT", "RET"}:
            leaders.add(at + 1)
    starts = sorted(leader for leader in leaders if leader < count)
    number = {start: i for i, start in enumerate(starts)}
    blocks = []
    for i, start in enumerate(starts):
        end = starts[i + 1] if i + 1 < len(starts) else count
        last = function.instructions[end - 1]
        successors = []
        # A branch depends on its predicate, on one among its operands, or on the lanes (BRA.DIV, BRA.U.ANY).
        conditional = last.predicate or last.name != "BRA" or "," in last.operands
        if last.opcode == "BRA" and (target := re.search(r"`\((\.L\w+)\)", last.operands)) and function.labels[target[1]] < count:
            successors.append(number[function.labels[target[1]]])
        ends = last.opcode in {"EXIT", "RET", "BRX"} and not last.predicate or last.opcode == "BRA" and not conditional
        if not ends and i + 1 < len(starts):
            successors.append(i + 1)
        blocks.append(Block(function.instructions[start:end], successors))
    return blocks


class Graph:
    """Blocks with what dominates what, and natural loops."""

    def __init__(self, blocks: list[Block]):
        self.blocks = blocks
        self.order = self._reverse_postorder()
        self.position = {block: i for i, block in enumerate(self.order)}
        self.predecessors: dict[int, list[int]] = {block: [] for block in self.order}
        for block in self.order:
            for successor in blocks[block].successors:
                self.predecessors[successor].append(block)
        self.dominator = self._immediate_dominators()

    def _reverse_postorder(self) -> list[int]:
        seen, postorder, stack = {0}, [], [(0, iter(self.blocks[0].successors))]
        while stack:
            block, successors = stack[-1]
            for successor in successors:
                if successor not in seen:
                    seen.add(successor)
                    stack.append((successor, iter(self.blocks[successor].successors)))
                    break
            else:
                postorder.append(block)
                stack.pop()
        return postorder[::-1]

    def _immediate_dominators(self) -> dict[int, int]:
        dominator = {0: 0}
        changed = True
        while changed:
            changed = False
            for block in self.order[1:]:
                known = [p for p in self.predecessors[block] if p in dominator]
                new = known[0]
                for other in known[1:]:
                    while new != other:
                        if self.position[new] > self.position[other]:
                            new = dominator[new]
                        else:
                            other = dominator[other]
                if dominator.get(block) != new:
                    dominator[block] = new
                    changed = True
        return dominator

    def dominates(self, a: int, b: int) -> bool:
        while b != a and b != 0:
            b = self.dominator[b]
        return b == a

    def loops(self) -> list["Loop"]:
        by_header: dict[int, Loop] = {}
        for block in self.order:
            for header in self.blocks[block].successors:
                if not self.dominates(header, block):
                    continue
                loop = by_header.setdefault(header, Loop(header, {header}, []))
                loop.latches.append(block)
                stack = [block]
                while stack:
                    inside = stack.pop()
                    if inside not in loop.body:
                        loop.body.add(inside)
                        stack += self.predecessors[inside]
        return sorted(by_header.values(), key=lambda loop: self.blocks[loop.header].instructions[0].address)

    def instructions(self, blocks) -> list[Instruction]:
        return [instruction for block in sorted(blocks, key=self.position.__getitem__) for instruction in self.blocks[block].instructions]

    def unconditional(self, loop: "Loop") -> set[int]:
        """Blocks of a loop that every iteration passes."""
        return {block for block in loop.body if all(self.dominates(block, latch) for latch in loop.latches)}


@dataclasses.dataclass
class Loop:
    header: int
    body: set[int]
    latches: list[int]


# ------------------------------------------------------------------------------------------------------------------------ the summary


def count(instructions: list[Instruction], opcode: str) -> int:
    return sum(instruction.opcode == opcode for instruction in instructions)


def fp32(instructions: list[Instruction]) -> int:
    return sum(instruction.opcode in FP32 for instruction in instructions)


def mix(instructions: list[Instruction]) -> dict[str, int]:
    counts = Counter(pipe_of(instruction.opcode) for instruction in instructions)
    return {pipe: counts[pipe] for pipe in PIPES}


def wgmma_groups(instructions: list[Instruction]) -> list[dict]:
    """The WGMMAs between two commits: which GEMM, how many, of what shape, where A comes from."""
    groups: list[list[Instruction]] = [[]]
    for instruction in instructions:
        if instruction.opcode == "HGMMA":
            groups[-1].append(instruction)
            if instruction.commits:
                groups.append([])
    return [
        {
            "gemm": "PV" if "tnspB" in group[0].operands else "QK",
            "count": len(group),
            "shape": group[0].name.split(".")[1],
            "a_in_registers": "gdesc" not in group[0].operands.split(",")[1],
        }
        for group in groups
        if group
    ]


SYNCS = {"ARRIVE": "arrive", "PHASECHK": "wait", "EXCH": "init"}


def event_of(instruction: Instruction) -> str | None:
    """What an instruction does to others, in a word or two; None for arithmetic."""
    if instruction.groups_left is not None:
        return f"wgmma wait {instruction.groups_left}"
    if instruction.commits:
        return "wgmma commit"
    if instruction.name.startswith("WARPGROUP.ARRIVE"):
        return "wgmma fence"
    if instruction.opcode == "BAR":
        return "named barrier sync" if "SYNC" in instruction.name else "named barrier arrive"
    if instruction.opcode == "SYNCS":
        return "mbarrier " + SYNCS.get(instruction.name.split(".")[1], instruction.name.split(".")[1].lower())
    if instruction.opcode in {"UTMALDG", "UTMASTG", "UTMACMDFLUSH", "FENCE", "DEPBAR"}:
        return instruction.name
    return None


def events(instructions: list[Instruction]) -> list[dict]:
    """Every event with how many WGMMAs were issued and how many exponentials computed before it."""
    found, wgmmas, exps = [], 0, 0
    for instruction in instructions:
        wgmmas += instruction.opcode == "HGMMA"
        exps += instruction.is_exp
        if event := event_of(instruction):
            found.append({"event": event, "wgmmas": wgmmas, "exps": exps})
    return found


SIGNS = {"MUFU.EX2": "e", "FFMA": "f", "FADD": "+", "FMUL": "*", "FMNMX": "m", "F2FP": "c", "FSEL": "s", "ISETP": "p"}


def sign_of(instruction: Instruction) -> str:
    if instruction.opcode == "HGMMA":
        return "G!" if instruction.commits else "G"
    if instruction.groups_left is not None:
        return f"WAIT{instruction.groups_left}"
    return SIGNS.get(instruction.name) or SIGNS.get(instruction.opcode) or instruction.opcode.lower()


def sequence(instructions: list[Instruction]) -> str:
    """One sign an instruction, runs counted; uniform and control instructions are left out."""
    runs: list[list] = []
    for instruction in instructions:
        if pipe_of(instruction.opcode) in {"uniform", "control"}:
            continue
        sign = sign_of(instruction)
        if runs and runs[-1][0] == sign:
            runs[-1][1] += 1
        else:
            runs.append([sign, 1])
    return " ".join(sign if times == 1 else f"{sign}{times}" if len(sign) == 1 else f"{sign}x{times}" for sign, times in runs)


def part(role: str, always: list[Instruction], sometimes: list[Instruction]) -> dict:
    """What is told of a stretch of code. `sometimes`: instructions of it that a branch may skip."""
    return {
        "role": role,
        "instructions": len(always),
        "mix": mix(always),
        "fp32": fp32(always),
        "exps": sum(instruction.is_exp for instruction in always),
        "wgmmas": count(always, "HGMMA"),
        "groups": wgmma_groups(always),
        "r2ur": count(always, "R2UR"),
        "skippable": {"instructions": len(sometimes), "fp32": fp32(sometimes)},
        "events": events(always),
        "sequence": sequence(always),
    }


def has_wgmma(graph: Graph, blocks) -> bool:
    return any(instruction.opcode == "HGMMA" for block in blocks for instruction in graph.blocks[block].instructions)


def summarize_function(function: Function) -> dict:
    graph = Graph(blocks_of(function))
    loops = [loop for loop in graph.loops() if has_wgmma(graph, loop.body)]
    steps = [loop for loop in loops if not any(other.body < loop.body for other in loops)]
    parts = []
    for loop in steps:
        always = graph.unconditional(loop)
        instructions = graph.instructions(always)
        # A mask selects each of the scores: as many selects as exponentials.
        masked = count(instructions, "FSEL") >= max(1, sum(i.is_exp for i in instructions) // 2)
        parts.append(part("masked step" if masked else "step", instructions, graph.instructions(loop.body - always)))

    # The tile around the steps: the smallest loop that holds them all, else whatever has WGMMAs.
    in_steps = set().union(*(loop.body for loop in steps)) if steps else set()
    around = [loop for loop in loops if loop.body > in_steps]
    if steps and around:
        tile = min(around, key=lambda loop: len(loop.body))
        always = graph.unconditional(tile) - in_steps
        first, last = (pick(graph.position[loop.header] for loop in steps) for pick in (min, max))
        before = {block for block in tile.body - in_steps if graph.position[block] < first}
        after = {block for block in tile.body - in_steps if graph.position[block] > last}
        parts.insert(0, part("before the steps", graph.instructions(before & always), graph.instructions(before - always)))
        parts.append(part("after the steps", graph.instructions(after & always), graph.instructions(after - always)))

    whole = function.instructions
    return {
        "function": function.name,
        "instructions": len(whole),
        "spills": {"LDL": count(whole, "LDL"), "STL": count(whole, "STL")},
        "r2ur": count(whole, "R2UR"),
        "divergent_branches": sum(instruction.name.startswith("BRA.U.ANY") for instruction in whole),
        "parts": parts,
    }


def steps_of(summary: dict) -> list[dict]:
    return [part for part in summary["parts"] if part["role"].endswith("step")]


# ----------------------------------------------------------------------------------------------------------------------------- faults


def faults(summary: dict, spec: dict[str, str] | None = None) -> list[str]:
    """What must hold whatever the compiler's version; with the spec of the kernel, its counts too."""
    found = []
    if sum(summary["spills"].values()):
        found.append(f"spills: {summary['spills']['STL']} STL, {summary['spills']['LDL']} LDL")
    steps = steps_of(summary)
    for step in steps:
        # Serialised WGMMAs are committed one by one, and waited for one by one.
        if step["wgmmas"] > 2 and len(step["groups"]) > max(2, step["wgmmas"] // 4):
            found.append(f"{step['role']}: WGMMAs are serialised, {len(step['groups'])} groups of {step['wgmmas']}")
        waits = [event for event in step["events"] if event["event"].startswith("wgmma wait")]
        if len(waits) > 2:
            found.append(f"{step['role']}: {len(waits)} waits for WGMMAs, of which the kernel makes 2")
    if spec is not None:
        wanted = int(spec["head_dim"]) // 16 + int(spec["block_n"]) // 16
        exps = int(spec["block_n"]) // 2
        for step in steps:
            if step["wgmmas"] != wanted:
                found.append(f"{step['role']}: {step['wgmmas']} WGMMAs, {wanted} are the work of a step")
            if not exps <= step["exps"] <= exps + 8:
                found.append(f"{step['role']}: {step['exps']} exponentials, {exps} are the work of a step")
        roles = [step["role"] for step in steps]
        for role in ["step"] + (["masked step"] if spec["causal"] == "true" else []):
            if role not in roles:
                found.append(f"no loop is a {role}")
    return found


# ------------------------------------------------------------------------------------------------------------------------------- text


def part_text(part: dict) -> list[str]:
    amounts = ", ".join(f"{pipe} {amount}" for pipe, amount in part["mix"].items() if amount)
    lines = [f"{part['role']}: {part['instructions']} instructions: {amounts}"]
    line = f"  fp32 {part['fp32']}, exps {part['exps']}, R2UR {part['r2ur']}"
    if part["skippable"]["instructions"]:
        line += f"; skippable {part['skippable']['instructions']}, fp32 of them {part['skippable']['fp32']}"
    lines.append(line)
    if part["groups"]:
        lines.append("  " + "; ".join(f"{g['gemm']} {g['count']} x {g['shape']} A in {'registers' if g['a_in_registers'] else 'shared'}" for g in part["groups"]))
    if part["events"]:
        lines.append(f"  events after (WGMMAs of {part['wgmmas']}, exps of {part['exps']}):")
        lines += [f"    {event['wgmmas']:3} {event['exps']:4}  {event['event']}" for event in part["events"]]
    if part["role"].endswith("step"):
        lines += textwrap.wrap(part["sequence"], 140, initial_indent="  ", subsequent_indent="  ")
    return lines


def summary_text(summary: dict) -> str:
    spills = summary["spills"]
    lines = [
        f"{summary['function']}: {summary['instructions']} instructions, spills {spills['STL']} STL {spills['LDL']} LDL, R2UR {summary['r2ur']},"
        f" divergent branches {summary['divergent_branches']}"
    ]
    for part in summary["parts"]:
        lines += ["", *part_text(part)]
    return "\n".join(lines) + "\n"


def table_text(kernels: list["Kernel"]) -> str:
    """A line for each step: the numbers that a change of the loop is judged by."""
    rows = [("kernel", "step", "instr", "fp32", "R2UR", "exps", "before QK's wait", "before K's return", "before PV's wait", "before V's return")]
    for kernel in kernels:
        for step in (step for summary in kernel.summaries for step in steps_of(summary)):
            waits = [event["exps"] for event in step["events"] if event["event"].startswith("wgmma wait")]
            returns = [event["exps"] for event in step["events"] if event["event"] == "mbarrier arrive"]
            places = [str(list_[i]) if i < len(list_) else "-" for i in (0, 1) for list_ in (waits, returns)]
            role = "masked" if step["role"].startswith("masked") else "plain"
            rows.append((kernel.name, role, *(str(step[key]) for key in ("instructions", "fp32", "r2ur", "exps")), *places))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(f"{cell:{width}}" if i < 2 else f"{cell:>{width}}" for i, (cell, width) in enumerate(zip(row, widths))) for row in rows)


# ------------------------------------------------------------------------------------------------------------------------------- tools


def find_nvdisasm(tandem: pathlib.Path) -> str:
    if named := os.environ.get("NVDISASM"):
        return named
    environments = [tandem.resolve().parent.parent / "venv", pathlib.Path(sys.prefix), ROOT / "build/venv"]
    for environment in environments:
        for found in sorted(environment.glob("lib/python3*/site-packages/nvidia/*/bin/nvdisasm"), reverse=True):
            return str(found)
    home = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin/nvdisasm"
    if found := str(home) if home.exists() else shutil.which("nvdisasm"):
        return found
    sys.exit("nvdisasm was not found; run tools/setup.sh (pip package nvidia-cuda-nvdisasm), or set NVDISASM")


def summarize_cubin(cubin: pathlib.Path, nvdisasm: str) -> list[dict]:
    run = subprocess.run([nvdisasm, "--print-code", str(cubin)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"nvdisasm cannot read {cubin}: {run.stderr.strip()}")
    return [summarize_function(function) for function in parse(run.stdout)]


def compiler_of(cubin: bytes) -> str:
    """The compiler's own words about itself, from a note in the cubin: "13.5.12"."""
    found = re.search(rb"release [0-9.]+, V([0-9.]+)", cubin)
    return found[1].decode() if found else "unknown"


class Tandem:
    """The command line tool, as the maker of kernels."""

    def __init__(self, program: pathlib.Path, cache: str | None, jobs: int):
        if not program.exists():
            sys.exit(f"{program} was not found; build it with `make`, or name it with --tandem")
        self.program, self.jobs = program, jobs
        self.cache = ["--cache-dir", cache] if cache else []

    def compile(self, *arguments: str) -> list[dict]:
        # Spills and advisories make an exit status of their own; the summary is wanted all the more then.
        run = subprocess.run([self.program, "compile", "--json", *self.cache, *arguments], capture_output=True, text=True)
        try:
            return json.loads(run.stdout)
        except ValueError:
            sys.exit(f"{self.program} compile {' '.join(arguments)} failed: {run.stderr.strip() or run.stdout.strip()}")

    def shipped(self) -> list[dict]:
        return self.compile("--shipped", "--jobs", str(self.jobs))

    def cubin(self, spec: str, folder: str) -> tuple[str, pathlib.Path]:
        file = pathlib.Path(folder) / "kernel.cubin"
        return self.compile("--spec", spec, "--cubin", str(file))[0]["name"], file


@dataclasses.dataclass
class Kernel:
    name: str
    spec: str
    compiler: str
    summaries: list[dict]

    def fields(self) -> dict[str, str] | None:
        """Of a forward kernel; None of one that has no spec."""
        return dict(item.split("=") for item in self.spec.split(",")) if "=" in self.spec else None

    def faults(self) -> list[str]:
        return [fault for summary in self.summaries for fault in faults(summary, self.fields())]

    def text(self) -> str:
        head = f"kernel {self.name}\nspec {self.spec}\nNVRTC {self.compiler}\n\n"
        return head + "\n".join(summary_text(summary) for summary in self.summaries)

    def json(self) -> dict:
        return {"name": self.name, "spec": self.spec, "nvrtc": self.compiler, "functions": self.summaries, "faults": self.faults()}


def make_kernel(tandem: Tandem, spec: str, nvdisasm: str) -> Kernel:
    with tempfile.TemporaryDirectory() as folder:
        name, cubin = tandem.cubin(spec, folder)
        return Kernel(name, spec, compiler_of(cubin.read_bytes()), summarize_cubin(cubin, nvdisasm))


# ------------------------------------------------------------------------------------------------------------------------------ golden


def update_golden(kernels: list[Kernel]) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for kernel in kernels:
        (GOLDEN / f"{kernel.name}.txt").write_text(kernel.text())
    print(f"wrote {len(kernels)} files below {GOLDEN.relative_to(ROOT)}")


def check_golden(kernels: list[Kernel]) -> list[str]:
    """The complaints. Texts are compared where the compiler is the one they were made with; what must hold anyway, always."""
    complaints, other_versions = [], set()
    for kernel in kernels:
        complaints += [f"{kernel.name}: {fault}" for fault in kernel.faults()]
        golden = GOLDEN / f"{kernel.name}.txt"
        if not golden.exists():
            complaints.append(f"{kernel.name}: has no golden text")
            continue
        wanted, got = golden.read_text(), kernel.text()
        made_by = re.search(r"^NVRTC (.*)$", wanted, re.MULTILINE)[1]
        if made_by != kernel.compiler:
            other_versions.add(made_by)
        elif wanted != got:
            difference = "\n".join(difflib.unified_diff(wanted.splitlines(), got.splitlines(), "golden", "now", n=1, lineterm=""))
            complaints.append(f"{kernel.name}: is not what its golden text says\n{textwrap.indent(difference, '    ')}")
    names = {kernel.name for kernel in kernels}
    complaints += [f"{golden.stem}: has a golden text and does not ship" for golden in sorted(GOLDEN.glob("*.txt")) if golden.stem not in names]
    if other_versions:
        print(f"golden texts are of NVRTC {', '.join(sorted(other_versions))}, this is {kernels[0].compiler}: only what must hold of every compiler was checked")
    return complaints


# -------------------------------------------------------------------------------------------------------------------------------- main


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cubins", nargs="*", type=pathlib.Path, metavar="CUBIN")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--shipped", action="store_true", help="the kernels that ship")
    what.add_argument("--spec", help="one kernel, by its spec")
    what.add_argument("--check-golden", action="store_true", help="compare the kernels that ship with their golden texts")
    what.add_argument("--update-golden", action="store_true", help="write the golden texts")
    parser.add_argument("--only", default="", help="of the kernels that ship, those whose name holds this text")
    parser.add_argument("--table", action="store_true", help="of kernels made by tandem: a line for each step")
    parser.add_argument("--json", action="store_true", help="output for machines")
    parser.add_argument("--tandem", type=pathlib.Path, default=ROOT / "build/bin/tandem", help="default: build/bin/tandem")
    parser.add_argument("--cache-dir", help="kernel cache of tandem")
    parser.add_argument("--jobs", type=int, default=2, help="kernels to compile at a time")
    arguments = parser.parse_args()
    of_tandem = arguments.shipped or arguments.spec or arguments.check_golden or arguments.update_golden
    if bool(arguments.cubins) == bool(of_tandem):
        parser.error("name cubins, or one of --shipped, --spec, --check-golden, --update-golden")
    nvdisasm = find_nvdisasm(arguments.tandem)

    if arguments.cubins:
        summaries = {str(cubin): summarize_cubin(cubin, nvdisasm) for cubin in arguments.cubins}
        if arguments.json:
            print(json.dumps(summaries, indent=1))
        else:
            print("\n".join(f"{cubin}\n\n" + "\n".join(map(summary_text, functions)) for cubin, functions in summaries.items()), end="")
        return 0

    tandem = Tandem(arguments.tandem, arguments.cache_dir, arguments.jobs)
    specs = [arguments.spec] if arguments.spec else [kernel["spec"] for kernel in tandem.shipped() if arguments.only in kernel["name"]]
    kernels = [make_kernel(tandem, spec, nvdisasm) for spec in specs]
    if arguments.update_golden:
        if arguments.only:
            parser.error("--update-golden writes all golden texts; leave out --only")
        update_golden(kernels)
        return 0
    if arguments.check_golden:
        complaints = check_golden(kernels)
        print("\n".join(complaints) if complaints else f"{len(kernels)} kernels are as they should be")
        if complaints:
            print("if that is meant: tools/sass_summary.py --update-golden, and say in the commit what moved and why")
        return 1 if complaints else 0
    if arguments.json:
        print(json.dumps([kernel.json() for kernel in kernels], indent=1))
    elif arguments.table:
        print(table_text(kernels))
    else:
        print("\n\n".join(kernel.text() for kernel in kernels).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
