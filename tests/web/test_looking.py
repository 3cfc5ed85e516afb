"""Numbers on the page are those of the library."""

import math
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.web.helpers import TINY, Client, loaded, posteriors, state_of, states
from tokenloom.drawing.truncation import Truncation, truncate


def halfway(client: Client, name: str, process: str | None = None) -> dict[str, Any]:
    return state_of(states(client.draw(model=name, process=process, sampling={"steps": 6}, seed=2))[3])


@pytest.mark.parametrize("process", ["uniform", "masked", "hybrid"])
def test_the_three_laws_of_a_token_are_those_of_the_conversions(client: Client, process: str) -> None:
    name, state = f"sudoku@{process}", halfway(client, "sudoku", process)
    position = next((place for place, token in enumerate(state["tokens"]) if token >= 9), 40)  # a mask, if any
    noisy, mu, nu = posteriors(name, state["tokens"], state["t"])
    gibbs = tl.conditional_log_probs(nu, noisy, loaded(name).process)
    found = client.ask("look", model="sudoku", process=process, state=state, position=position)
    for name, expected in (("denoiser", mu.log_probs), ("leave_one_out", nu.log_probs), ("conditional", gibbs)):
        shown = found["laws"][name]["bars"]
        law = expected[0, position].double().exp()
        assert [bar["p"] for bar in shown] == pytest.approx(sorted(law.tolist(), reverse=True)[:10], abs=1e-6)
        assert all(bar["p"] == pytest.approx(float(law[bar["token"]]), abs=1e-6) for bar in shown)
    doubt = torch.special.entr(mu.log_probs.exp()).sum(-1)[0] / math.log(9)
    assert found["doubt"] == pytest.approx(doubt.tolist(), abs=2e-4)


def test_what_top_p_cuts_is_what_truncation_cuts_on_each(client: Client) -> None:
    state = halfway(client, "shakespeare-udm-loo")
    sampling = {"top_p": 0.6, "temperature": 1.3}
    laws = client.ask("look", model="shakespeare-udm-loo", state=state, position=7, sampling=sampling)["laws"]
    _, mu, nu = posteriors("shakespeare-udm-loo", state["tokens"], state["t"])
    for name, law in (("denoiser", mu), ("leave_one_out", nu)):
        kept = truncate(law.logits[0, 7], Truncation(temperature=1.3, top_p=0.6)) > -torch.inf
        assert laws[name]["kept"] == int(kept.sum())
        assert [bar["kept"] for bar in laws[name]["bars"]] == [bool(kept[bar["token"]]) for bar in laws[name]["bars"]]
    assert laws["leave_one_out"]["kept"] != laws["denoiser"]["kept"]  # which is why it matters what is truncated


def test_a_law_that_does_not_exist_says_why(client: Client) -> None:
    assert "draw something first" in client.refused("look", model=TINY)
    state = {"tokens": [0] * 16, "t": 0.5}
    assert "a position must be in 0..15, got 16" in client.refused("look", model=TINY, state=state, position=16)
    assert "auxiliary variable" in client.refused("look", model="sudoku", process="absorbing", state=state)


def test_marked_tokens_are_shown_as_given(client: Client) -> None:
    state = {"tokens": [0] * 16, "t": 0.9}
    free = client.ask("look", model=TINY, state=state, position=1)["laws"]["leave_one_out"]["bars"]
    marked = client.ask("look", model=TINY, state=state | {"marked": [0]}, position=1)["laws"]["leave_one_out"]["bars"]
    assert {bar["token"]: bar["p"] for bar in marked}[0] < 0.05 < {bar["token"]: bar["p"] for bar in free}[0]
