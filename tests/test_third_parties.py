"""Parts of another package, found through its entry points alone and used from the command line."""

import os
import re
import subprocess
import sys

import pytest

from tests.training.helpers import TINY

MODULE = '''
"""A noise, a process and a sampler of somebody else."""

from dataclasses import dataclass

import torch

from tokenloom import LinearSchedule, Process, Schedule
from tokenloom.couplings import Markov
from tokenloom.noise import Law, Noise, TableLaw
from tokenloom.samplers.kernel import Predictor
from tokenloom.samplers.predictors.ancestral import Ancestral


@dataclass(frozen=True)
class Tilted(Noise):
    """A lost token is uniform, or with probability `tilt` the token 0."""

    tilt: float = 0.25

    def law(self) -> Law:
        pi = torch.full((1, 1, self.vocab_size), (1 - self.tilt) / self.vocab_size, dtype=torch.float64)
        pi[..., 0] += self.tilt
        return TableLaw(pi)


def theirs(vocab_size: int, tilt: float = 0.25, *, schedule: Schedule = LinearSchedule()) -> Process:
    """Tilted noise in a Markov chain."""
    return Process(Tilted(vocab_size, tilt), Markov(), schedule)


@dataclass(frozen=True)
class Halved(Predictor):
    """Two ancestral steps, by way of the time between."""

    share: float = 0.5

    def step(self, evaluate, noisy, s, generator):
        between = Ancestral().step(evaluate, noisy, s + self.share * (noisy.t - s), generator)
        return Ancestral().step(evaluate, between, s, generator)
'''

ENTRY_POINTS = """
[tokenloom.noises]
tilted = their_parts:Tilted

[tokenloom.processes]
theirs = their_parts:theirs

[tokenloom.samplers]
halved = their_parts:Halved
missing = their_parts:Missing
nowhere = no_such_module:Sampler
module = their_parts

[tokenloom.commands]
ruined = no_such_module:command
"""

SCRIPT = """
import sys
from tokenloom.cli import main

assert "their_parts" not in sys.modules
run = sys.argv[1]
for arguments in (
    ["train", *sys.argv[2:], "--method", "theirs:tilt=0.5", "--max-steps", "2", "--out", run],
    ["sample", run, "--num", "2", "--steps", "2", "--sampler", "halved:share=0.25"],
    ["sample", run, "--sampler", "list"],
    ["sample", run, "--sampler", "halvd"],
    ["sample", run, "--sampler", "halved:shar=1"],
    ["sample", run, "--sampler", "missing"],
    ["sample", run, "--sampler", "nowhere"],
    ["sample", run, "--sampler", "module"],
    ["ruined"],
):
    print("-----", flush=True)
    try:
        main(arguments)
    except SystemExit as end:
        print("status", end.code)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each command of the script printed, beside what pip leaves of a package: a module and its entry points."""
    site, run = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("runs") / "theirs"
    (site / "their_parts.py").write_text(MODULE)
    info = site / "their_parts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-parts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "250"}
    command = [sys.executable, "-c", SCRIPT, str(run), *TINY, "--run.valid-rows", "8"]
    output = subprocess.check_output(command, stderr=subprocess.STDOUT, text=True, env=environment)
    return output.split("-----\n")[1:]


def test_a_process_of_another_package_is_trained_by_its_method(said: list[str]) -> None:
    assert "theirs:tilt=0.5, predicts loo, minimises nelbo" in said[0]
    assert "validation bound" in said[0]
    assert "status" not in said[0]


def test_a_sampler_of_another_package_draws_from_it_and_is_listed(said: list[str]) -> None:
    assert "2 sequences, 4.0 evaluations each" in said[1]  # two for each of the two steps
    assert re.search(r"halved +Two ancestral steps, by way of the time between\.", said[2])
    assert "ancestral" in said[2]
    assert "theirs" in said[2]
    assert "status" not in said[1] + said[2]


def test_a_wrong_name_or_option_is_answered_with_theirs(said: list[str]) -> None:
    assert "there is no sampler 'halvd'; did you mean halved?" in said[3]
    assert "halved has no option 'shar'; did you mean share?" in said[4]
    assert said[3].endswith("status 2\n")
    assert said[4].endswith("status 2\n")


def test_a_broken_entry_point_gets_a_sentence_and_breaks_nothing_else(said: list[str]) -> None:
    for kind, name, place, reason, text in (
        ("sampler", "missing", "their_parts:Missing", "AttributeError", said[5]),
        ("sampler", "nowhere", "no_such_module:Sampler", "ModuleNotFoundError", said[6]),
        ("sampler", "module", "their_parts", "AttributeError", said[7]),
        ("command", "ruined", "no_such_module:command", "ModuleNotFoundError", said[8]),
    ):
        sentence = f"the {kind} {name!r} of another package could not be imported from {place} ({reason}: "
        assert sentence in " ".join(text.split())
        assert "mend or uninstall that package" in text
        assert "Traceback" not in text
        assert text.endswith("status 2\n")
    assert "could not be imported from no_such_module:Sampler" in said[2]  # in its line of the list
