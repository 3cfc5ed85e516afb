"""The page of the three posteriors, against sums written by hand."""

import pytest

from tests.web.helpers import Client

WEIGHTS = [6.0, 1.0, 2.0, 1.0, 5.0, 0.0, 1.0, 3.0, 4.0]
ALPHA = 0.3


def by_hand(own: int, other: int) -> tuple[list[float], list[float], list[float]]:
    """mu, nu and the Gibbs conditional of the first position under uniform noise."""
    total = sum(WEIGHTS)

    def noisy(clean: int, seen: int) -> float:
        return (ALPHA if clean == seen else 0.0) + (1 - ALPHA) / 3

    nu = [sum(WEIGHTS[3 * a + b] / total * noisy(b, other) for b in range(3)) for a in range(3)]
    mu = [nu[a] * noisy(a, own) for a in range(3)]
    nu, mu = [x / sum(nu) for x in nu], [x / sum(mu) for x in mu]
    return mu, nu, [ALPHA * p + (1 - ALPHA) / 3 for p in nu]


@pytest.mark.parametrize(("own", "other"), [(0, 0), (0, 2), (2, 1)])
def test_the_three_posteriors_are_the_sums_over_all_sequences(client: Client, own: int, other: int) -> None:
    found = client.ask("table", weights=WEIGHTS, alpha=ALPHA, x_t=[own, other])
    mu, nu, gibbs = by_hand(own, other)
    assert found["denoiser"] == pytest.approx(mu, abs=1e-12)
    assert found["leave_one_out"] == pytest.approx(nu, abs=1e-12)
    assert found["conditional"] == pytest.approx(gibbs, abs=1e-12)


@pytest.mark.parametrize("process", ["uniform", "hybrid"])
def test_the_plug_in_of_leave_one_out_is_the_average_over_the_denoiser(client: Client, process: str) -> None:
    found = client.ask("table", weights=WEIGHTS, alpha=ALPHA, x_t=[0, 1], process=process)
    assert found["difference"] < 1e-12
    assert found["step"]["average"] == pytest.approx(found["step"]["plugged"], abs=1e-12)
    assert found["mistake"] > 0.01  # and the denoiser in its place is not


def test_wrong_tables_get_a_sentence(client: Client) -> None:
    assert "9 weights" in client.refused("table", weights=[1.0])
    assert "one of them above 0" in client.refused("table", weights=[0.0] * 9)
    assert "alpha must be in [0.01, 0.99] here, got 1" in client.refused("table", alpha=1.0)
    assert "x_t" in client.refused("table", x_t=[0, 3])
