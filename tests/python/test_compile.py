"""`tandem compile` and `tandem cache`: the compiler, the cache and packs, by the code that serves at run time."""
import pytest

pytestmark = pytest.mark.usefixtures("nvrtc")

SMALL = "dtype=bf16,head_dim=16,head_dim_v=16,consumer_warpgroups=1,block_n=16,turns=none,output_stage=registers"


def test_a_kernel(tandem, tmp_path):
    cubin = tmp_path / "kernel.cubin"
    (kernel,) = tandem.ok("compile", "--spec", SMALL, "--cubin", cubin, "--json").json
    assert list(kernel) == ["name", "seconds", "peak_mb", "registers", "spill_bytes", "advisories", "cached", "cpu_seconds", "spec"]
    assert kernel["name"].startswith("forward_bf16_d16") and not kernel["cached"]
    assert 0 < kernel["seconds"] < 60 and 20 < kernel["peak_mb"] < 1000
    assert 0 < kernel["cpu_seconds"] < 60
    assert kernel["registers"] > 0 and kernel["spill_bytes"] == 0 and kernel["advisories"] == []
    assert cubin.read_bytes()[:4] == b"\x7fELF"
    # The second time it comes from the cache; with --force it is compiled and measured again.
    (again,) = tandem.ok("compile", "--spec", SMALL, "--json").json
    assert again["cached"] and again["seconds"] == 0 and again["registers"] == kernel["registers"]
    (forced,) = tandem.ok("compile", "--spec", SMALL, "--force", "--json").json
    assert not forced["cached"] and forced["seconds"] > 0


def test_a_problem_compiles_what_explain_names(shared_tandem):
    flags = ["--head-dim", 64, "--seqlen", 512, "--causal"]
    explained = shared_tandem.ok("explain", *flags, "--json").json
    (kernel,) = shared_tandem.ok("compile", *flags, "--json").json
    assert kernel["name"] == explained["kernel"] and kernel["spec"] == explained["spec_text"]
    assert kernel["name"] in shared_tandem.ok("compile", "--spec", explained["spec_text"]).out


def test_a_ragged_kernel_comes_with_the_one_before_it(tandem, tmp_path):
    pack = tmp_path / "pack"
    kernel, prepare = tandem.ok("compile", "--spec", SMALL + ",ragged=true,local=true,softcap=true", "--output", pack, "--json").json
    assert "local_softcap_ragged" in kernel["name"] and "ragged=true" in kernel["spec"]
    assert prepare["name"] == "prepare_ragged" and list(prepare) == list(kernel) and prepare["spec"] == "prepare_ragged"
    assert prepare["registers"] > 0 and prepare["spill_bytes"] == 0 and prepare["advisories"] == []
    assert len(list(pack.glob("*.tk"))) == 2
    assert [kernel["name"] for kernel in tandem.ok("compile", "--spec", "prepare_ragged", "--json").json] == ["prepare_ragged"]
    text = tandem.ok("compile", "--spec", SMALL + ",ragged=true,local=true,softcap=true", TANDEM_AOT_DIR=str(pack), TANDEM_JIT="off").out
    assert "prepare_ragged" in text and text.count("cached") == 2


def test_two_specs_side_by_side(shared_tandem):
    kernels = shared_tandem.ok("compile", "--spec", SMALL, "--spec", SMALL.replace("block_n=16", "block_n=32"), "--jobs", 2, "--json").json
    assert len({kernel["name"] for kernel in kernels}) == 2
    assert "n16" in kernels[0]["name"] and "n32" in kernels[1]["name"]  # in the order of the command line


def test_cache(tandem):
    assert tandem.ok("cache", "path").out.strip() == str(tandem.cache)
    assert tandem.ok("cache", "list", "--json").json["entries"] == []
    tandem.ok("compile", "--spec", SMALL)
    listed = tandem.ok("cache", "list", "--json").json
    assert len(listed["entries"]) == 1 and listed["entries"][0]["valid"] and listed["bytes"] > 1000
    assert tandem.ok("cache", "verify", "--json").json["corrupt"] == []

    (entry,) = tandem.cache.glob("*.tk")
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(content)
    outcome = tandem("cache", "verify", "--json")
    assert outcome.code == 1 and outcome.json["corrupt"] == [entry.name]
    assert "corrupt" in tandem("cache", "verify").out
    (kernel,) = tandem.ok("compile", "--spec", SMALL, "--json").json
    assert not kernel["cached"]  # a corrupt entry is a miss
    assert tandem.ok("cache", "verify").code == 0

    assert tandem.ok("cache", "clear", "--json").json["removed"] == 1
    assert tandem.ok("cache", "list", "--json").json["entries"] == []
    tandem("cache").refused("subcommand")


def test_a_pack_serves_without_a_compiler(tandem, tmp_path):
    pack = tmp_path / "pack"
    text = tandem.ok("compile", "--spec", SMALL, "--output", pack).out
    assert "TANDEM_AOT_DIR" in text
    assert tandem.ok("cache", "list", "--json").json["entries"] == []  # the pack, not the cache
    (kernel,) = tandem.ok("compile", "--spec", SMALL, "--json", TANDEM_AOT_DIR=str(pack), TANDEM_JIT="off").json
    assert kernel["cached"]
    other = SMALL.replace("block_n=16", "block_n=48")
    tandem("compile", "--spec", other, TANDEM_AOT_DIR=str(pack), TANDEM_JIT="off").refused("TANDEM_JIT is off", "tandem compile --spec")
    # What a pack already serves is compiled into another pack all the same.
    second = tmp_path / "second"
    (kernel,) = tandem.ok("compile", "--spec", SMALL, "--output", second, "--json", TANDEM_AOT_DIR=str(pack)).json
    assert not kernel["cached"]
    assert len(list(second.glob("*.tk"))) == 1


def test_without_a_compiler(tandem):
    nowhere = {"TANDEM_NVRTC": "/nonexistent/libnvrtc.so.13", "TANDEM_JIT": "off"}
    tandem("compile", "--spec", SMALL, **nowhere).refused("TANDEM_JIT is off")


def test_refusals(tandem, tmp_path):
    tandem("compile").refused("nothing to compile", "--shipped")
    tandem("compile", "--shipped", "--spec", SMALL).refused("--shipped")
    tandem("compile", "--spec", "block_n=17").refused("block_n")
    tandem("compile", "--spec", "colour=red").refused("colour")
    tandem("compile", "--spec", SMALL, "--spec", SMALL, "--cubin", tmp_path / "x").refused("--cubin", "2")
    tandem("compile", "--head-dim", 100).refused("head_dim is 100")
