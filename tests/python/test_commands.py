"""The other commands: what they print for machines, what they refuse, and that people get a table."""
import json
import pathlib

import pytest


def keys(json_object, *names):
    assert set(names) <= set(json_object), (names, json_object)


def test_doctor(tandem):
    found = tandem.ok("doctor", "--json").json
    keys(found, "command", "version", "sources_digest", "cpu", "driver", "devices", "nvrtc", "cache", "packs", "backends", "conclusion")
    assert {backend["name"] for backend in found["backends"]} == {"hopper", "cpu", "model"}
    for backend in found["backends"]:
        assert backend["available"] or backend["text"]
    assert [backend["available"] for backend in found["backends"] if backend["name"] == "cpu"] == [True]
    assert found["cache"] == {"folder": str(tandem.cache), "writable": True, "entries": 0, "bytes": 0}
    text = tandem.ok("doctor").out
    assert found["conclusion"] in text and str(tandem.cache) in text


def test_explain(tandem):
    found = tandem.ok("explain", "--head-dim", 128, "--causal", "--seqlen", 8192, "--heads", 16, "--json").json
    keys(found, "problem", "kernel", "spec", "spec_text", "reason", "tuned", "model_choice", "launch", "shared_bytes", "registers", "step_cycles")
    assert found["spec"]["head_dim"] == 128 and found["spec"]["causal"] is True
    shared = found["shared_bytes"]
    assert shared["total"] == sum(shared[name] for name in ("q", "k", "v", "output", "barriers")) <= shared["allowed"] <= 232448
    split, spec = found["registers"]["split"], found["spec"]
    assert 128 * (split["producer"] + spec["consumer_warpgroups"] * split["consumer"]) * spec["ctas_per_sm"] <= 65536
    assert found["registers"]["total"] <= split["consumer"]
    cycles = found["step_cycles"]
    assert cycles["bound"] == max(cycles[name] for name in ("tensor", "exp", "shared", "issue"))
    rows = 64 * spec["consumer_warpgroups"]
    assert found["launch"]["tiles"] == 16 * -(-8192 // rows)


@pytest.mark.parametrize("flags", [["--head-dim", 64], ["--head-dim", 256, "--dtype", "fp16"], ["--head-dim", 192, "--head-dim-v", 128, "--causal"],
                                   ["--head-dim", 8, "--seqlen", 1], ["--heads", 8, "--heads-kv", 1, "--seqlen-k", 0], ["--sms", 78]])
def test_explain_for_people(tandem, flags):
    text = tandem.ok("explain", *flags).out
    for word in ("kernel", "why", "Shared memory", "Registers", "setmaxnreg", "Roofline", "waves"):
        assert word in text


def test_explain_says_which_tiles_come_last(tandem):
    few = ("--head-dim", 128, "--causal", "--seqlen", 16384, "--heads", 5)
    launch = tandem.ok("explain", *few, "--json").json["launch"]
    assert launch["held_back"] > 0 and launch["sections"] > 1
    assert f"the {launch['held_back']} shortest of" in tandem.ok("explain", *few).out
    assert tandem.ok("explain", "--head-dim", 128, "--seqlen", 16384, "--heads", 5, "--json").json["launch"]["held_back"] == 0


def test_explain_with_a_spec(tandem):
    found = tandem.ok("explain", "--head-dim", 128, "--spec", "block_n=64,stages=3", "--json").json
    assert found["spec"]["block_n"] == 64 and found["spec"]["stages"] == 3
    tandem("explain", "--spec", "block_m=3").refused("block_m")
    tandem("explain", "--spec", "block_n=1000").refused("block_n")
    tandem("explain", "--spec", "head_dim=64").refused("head_dim")


def test_explain_refuses(tandem):
    tandem("explain", "--head-dim", 100).refused("head_dim is 100", "multiples of 8")
    tandem("explain", "--heads", 6, "--heads-kv", 4).refused("--heads", "multiple")
    tandem("explain", "--batch", 0).refused("--batch is 0")
    tandem("explain", "--seqlen-q", -5).refused("-5")
    tandem("explain", "--dtype", "fp32").refused("fp32")


def test_check(tandem):
    found = tandem.ok("check", "--random", 6, "--seed", 7, "--backend", "cpu", "--json").json
    keys(found, "backend", "cases", "wrong", "refused", "outcomes")
    assert found["wrong"] == found["refused"] == 0 and found["cases"] == len(found["outcomes"])
    assert all(outcome["result"] == "right" for outcome in found["outcomes"])
    # Any case can be run again by its text, and gives the same.
    last = found["outcomes"][-1]
    again = tandem.ok("check", "--case", last["case"], "--backend", "cpu", "--json").json["outcomes"]
    assert again == [last]


def test_check_for_people(tandem):
    text = tandem.ok("check", "--case", "seqlen_q=5,seqlen_k=9", "--case", "head_dim=128,causal=1,dtype=fp16", "--backend", "cpu").out
    assert "right on cpu: 2 cases" in text


def test_check_reports_what_it_cannot_do(tandem):
    outcome = tandem("check", "--case", "heads=3,heads_kv=2", "--backend", "cpu")
    assert outcome.code == 1
    assert "multiple" in outcome.out and 'tandem check --backend cpu --case "' in outcome.out


def test_check_refuses(tandem):
    tandem("check", "--case", "seqlen_q").refused("field=value")
    tandem("check", "--case", "length=3").refused("length", "seqlen_q")
    tandem("check", "--case", "batch=x").refused("batch")
    tandem("check", "--case", "batch=-1").refused("batch")
    tandem("check", "--case", "dtype=fp8").refused("fp8")
    tandem("check", "--case", "layout=round").refused("round")
    tandem("check", "--case", "values=odd").refused("odd")
    tandem("check", "--case", "causal=2").refused("causal")


def test_bench(tandem):
    found = tandem.ok("bench", "--backend", "cpu", "--head-dim", "32,64", "--seqlen", "64,128", "--tokens", 128, "--hidden", 128, "--rounds", 2,
                      "--min-ms", 1, "--json").json
    keys(found, "backend", "rounds", "rows")
    assert [(row["head_dim"], row["causal"], row["seqlen"], row["batch"], row["heads"]) for row in found["rows"]] == [
        (dim, causal, seqlen, 128 // seqlen, 128 // dim) for dim in (32, 64) for causal in (False, True) for seqlen in (64, 128)]
    for row in found["rows"]:
        (contender,) = row["contenders"]
        assert contender["seconds"] > 0 and contender["tflops"] > 0


def test_bench_for_people(tandem):
    text = tandem.ok("bench", "--backend", "cpu", "--head-dim", 64, "--seqlen", 64, "--batch", 1, "--heads", 2, "--causal", "yes", "--rounds", 1).out
    assert "TFLOP/s" in text and "causal" in text and "full" not in text


def test_bench_host(tandem):
    host = tandem.ok("bench", "--host", "--backend", "cpu", "--json").json["host"]
    keys(host, "run_median_us", "run_p90_us", "run_least_us", "run_most_us", "first_call_cold_ms", "first_call_warm_ms", "warm_context_ms", "warm_prepare_ms", "cuda_context_ms")
    assert host["run_median_us"] > 0


def test_bench_refuses(tandem):
    tandem("bench", "--backend", "cpu", "--spec", "block_n=96").refused("--spec", "cpu")
    tandem("bench", "--causal", "maybe").refused("maybe")
    tandem("bench", "--seqlen", "64,x").refused("x")
    tandem("bench", "--head-dim", "0").refused("0")


def test_missing_backends_say_so(tandem, sample):
    for backend in json.loads(tandem.ok("doctor", "--json").out)["backends"]:
        if not backend["available"]:
            assert backend["text"] in tandem("run", sample, "--backend", backend["name"]).refused()


def test_the_model_runs_the_kernels(tandem, sample):
    """Where its library was built, the command line has to be able to open it."""
    if not (pathlib.Path(tandem.program).parents[1] / "lib" / "libtandem_model.so").exists():
        pytest.skip("libtandem_model was not built")
    found = tandem.ok("run", sample, "--causal", "--check", "--backend", "model", "--json").json
    assert found["backend"] == "model" and found["check"]["ok"] and found["tflops"] is None
    assert found["plan"]["kernel"].startswith("forward_bf16_d64_causal")
    tandem.ok("check", "--backend", "model", "--case", "seqlen_q=129,seqlen_k=200,heads=4,heads_kv=2,head_dim=128,causal=1,layout=padded")


def test_nothing_on_stderr_when_quick(tandem):
    assert tandem.ok("explain").err == ""
