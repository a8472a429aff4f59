"""The command line under test: a fixture that runs it, with a kernel cache of its own."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "examples" / "sample.safetensors"


class Outcome:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def refused(self, *words):
        """Exit code 2, nothing on stdout, and one sentence on stderr that holds the words."""
        lines = self.err.strip().splitlines()
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        assert len(lines) == 1, self.err
        for word in words:
            assert word in lines[0], (word, lines[0])
        return lines[0]


class Tandem:
    def __init__(self, folder):
        self.program = os.environ["TANDEM_CLI"]
        self.cache = folder / "kernels"
        self.environment = {**os.environ, "TANDEM_CACHE_DIR": str(self.cache)}
        for name in ("TANDEM_JIT", "TANDEM_AOT_DIR", "TANDEM_FORWARD_SPEC"):
            self.environment.pop(name, None)

    def __call__(self, *arguments, **environment):
        return Outcome(subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, timeout=240,
                                      env={**self.environment, **environment}))

    def ok(self, *arguments, **environment):
        outcome = self(*arguments, **environment)
        assert outcome.code == 0, (outcome.code, outcome.out, outcome.err)
        return outcome


@pytest.fixture
def tandem(tmp_path):
    return Tandem(tmp_path)


@pytest.fixture(scope="module")
def shared_tandem(tmp_path_factory):
    """One cache for the tests of a file: kernels compiled by one serve the others."""
    return Tandem(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def sample():
    return SAMPLE


def has_nvrtc():
    outcome = subprocess.run([os.environ["TANDEM_CLI"], "doctor", "--json"], capture_output=True, text=True, timeout=60)
    return json.loads(outcome.stdout)["nvrtc"]["available"]


@pytest.fixture(scope="session")
def nvrtc():
    if not has_nvrtc():
        pytest.skip("needs NVRTC")
