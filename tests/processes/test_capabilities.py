"""Every cell of noise x coupling can do what is asked of it, found by enumeration of its path law.

`tests/laws/grid.py` writes the joint law of x_s, x_t and what is shown given x_0 from the definitions alone; a
capability is a property of that table.
"""

from functools import cache, partial

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.grid import CELLS, COUPLINGS, NOISES, Cell, K, process_of
from tests.laws.helpers import EXACT, assert_close
from tokenloom.cells import PROCESSES
from tokenloom.posteriors import convert_at

S, T = 0.3, 0.8
every_cell = pytest.mark.parametrize(("noise", "coupling"), CELLS)
CAPABILITIES = (
    "sequential", "lifted", "has_jump_rates", "has_bridge", "markov", "one_way", "reveals", "all_or_nothing",
    "uniform_noise", "masking", "shows_auxiliary", "tight", "preferred",
)  # fmt: skip


@cache
def joint(noise: str, coupling: str) -> Tensor:
    """q(x_s, x_t, shown | x_0) of each position, [length, x_0, x_s, x_t, shown]."""
    return Cell(noise, coupling, S, T).joint


def likelihoods(noise: str, coupling: str) -> Tensor:
    """q(x_t, shown | x_0) of every (position, x_t, shown) of positive probability, a row of K each."""
    table = joint(noise, coupling).sum(2)
    states = table.movedim(1, -1).reshape(-1, K)
    return states[states.sum(-1) > 0]


def bridges(noise: str, coupling: str) -> list[tuple[int, int, Tensor]]:
    """x_0, x_t and q(x_s | x_0, x_t, shown), for every case of positive probability."""
    found = []
    table = joint(noise, coupling)
    for place, x_0, x_t, shown in (table.sum(2) > 0).nonzero().tolist():
        law = table[place, x_0, :, x_t, shown]
        found.append((x_0, x_t, law / law.sum()))
    return found


@every_cell
def test_markov_says_whether_the_way_up_depends_on_x_0(noise: str, coupling: str) -> None:
    """q(x_t | x_s, shown, x_0) is the same for every x_0 from which x_s can be reached."""
    table, spread = joint(noise, coupling), 0.0
    for place, x_s, shown in (table.sum((1, 3)) > 0).nonzero().tolist():
        pairs = table[place, :, x_s, :, shown]
        laws = pairs[pairs.sum(-1) > 0]
        laws = laws / laws.sum(-1, keepdim=True)
        spread = max(spread, float((laws.amax(0) - laws.amin(0)).max()))
    process = process_of(noise, coupling)
    assert process.markov == process.tight == (spread < 1e-10)
    if not process.markov:
        state = process.corrupt(torch.zeros(1, 2).long(), torch.tensor([S]).double())
        with pytest.raises(ValueError, match="is not Markov"):
            process.forward(state, torch.tensor([T]).double())


@every_cell
def test_one_way_says_whether_a_step_ends_at_x_t_or_at_x_0(noise: str, coupling: str) -> None:
    elsewhere = 0.0
    for x_0, x_t, law in bridges(noise, coupling):
        elsewhere += float(law.sum() - law[list({x_0, x_t})].sum())
    assert process_of(noise, coupling).one_way == (elsewhere < 1e-10)


@every_cell
def test_jump_rates_are_there_unless_what_is_shown_tells_when_a_token_jumps(noise: str, coupling: str) -> None:
    random = any(float(law.max()) < 1 - 1e-10 for _, _, law in bridges(noise, coupling))
    process = process_of(noise, coupling)
    assert process.has_jump_rates == random
    assert process.has_bridge


@every_cell
def test_reveals_says_whether_a_token_may_tell_its_clean_token(noise: str, coupling: str) -> None:
    """All or nothing: every state is possible from one x_0 alone, or equally likely from all."""
    rows = likelihoods(noise, coupling)
    certain = (rows > 0).sum(-1) == 1
    empty = rows.amax(-1) - rows.amin(-1) < 1e-12
    process = process_of(noise, coupling)
    assert process.reveals == bool(certain.any())
    assert process.all_or_nothing == bool((certain | empty).all())


@every_cell
def test_a_lost_token_is_uniform_or_the_mask_as_stated(noise: str, coupling: str) -> None:
    """Read from the tokens other than x_0, which are surely lost."""
    table = joint(noise, coupling).sum(2)  # [length, x_0, x_t, shown]
    states, lost, masks = table.shape[2], [], []
    for x_0 in range(K):
        others = [state for state in range(states) if state != x_0]
        law = table[:, x_0, others].movedim(1, -1).flatten(0, 1)  # one row for each position and what is shown
        lost.append(law[law.sum(-1) > 0])
        masks.append(table[:, x_0, [state for state in range(K) if state != x_0]].sum() == 0)
    rows = torch.cat(lost)
    process = process_of(noise, coupling)
    uniform = states == K and bool((rows.amax(-1) - rows.amin(-1) < 1e-12).all())
    assert process.uniform_noise == uniform
    assert process.masking == all(masks)


@every_cell
def test_lifted_says_whether_a_state_carries_an_auxiliary_variable(
    noise: str, coupling: str, generator: torch.Generator
) -> None:
    process, x_0, t = process_of(noise, coupling), torch.zeros(4, 2).long(), torch.full((4,), T, dtype=torch.float64)
    noisy = process.corrupt(x_0, t, generator)
    assert process.lifted == (noisy.aux is not None) == (process.prior(4, 2, generator).aux is not None)
    assert process.lifted == (coupling in ("absorbing", "times"))
    again = process.resample(x_0, noisy.tokens, t, generator)
    assert process.lifted == (again is not None)
    if again is not None and noisy.aux is not None:
        assert (again.shape, again.dtype) == (noisy.aux.shape, noisy.aux.dtype)


@every_cell
def test_a_network_is_shown_u_where_u_is_not_known_beforehand(noise: str, coupling: str) -> None:
    """And the masked view where it is shown times; nothing beside the tokens elsewhere."""
    table = joint(noise, coupling).sum((1, 2, 3))  # [length, shown]
    process = process_of(noise, coupling)
    assert process.shows_auxiliary == (coupling == "absorbing" and bool(((table > 0).sum(-1) > 1).any()))
    cell = Cell(noise, coupling, S, T)
    read = process.network_input(cell.noisy)
    assert process.shows_auxiliary == (read.absorbing is not None)
    if coupling == "times":
        lost = cell.states[1] < 2
        assert torch.equal(read.tokens, cell.noisy.tokens.masked_fill(lost, K))
    else:
        assert torch.equal(read.tokens, cell.noisy.tokens)


@every_cell
def test_a_step_is_made_from_what_a_model_predicts(noise: str, coupling: str) -> None:
    process = process_of(noise, coupling)
    for kind in (tl.Denoiser, tl.LeaveOneOut):
        assert process.step_representation(kind) is kind
    assert process.step_representation(tl.Score) is process.preferred
    if coupling == "times" or noise == "mask":
        assert process.preferred is tl.Denoiser
    elif coupling in ("markov", "maximal"):
        assert process.preferred is tl.LeaveOneOut


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("kind", [tl.noise.Mask, tl.noise.MaskAndUniform])
@pytest.mark.parametrize(("before", "now"), [(0.3, 0.6), (0.0, 0.6), (0.7, 1.0)])
def test_a_mask_inside_the_vocabulary_is_the_same_process_with_other_ids(
    kind: type[tl.noise.Mask] | type[tl.noise.MaskAndUniform], coupling: str, before: float, now: float
) -> None:
    """Capabilities, draws, evidence, steps, rates and conversions, whatever a network predicts for the mask."""
    if kind is tl.noise.MaskAndUniform and coupling in ("maximal", "absorbing"):
        return
    outside, inside = (tl.Process(noise, COUPLINGS[coupling], EXACT) for noise in (kind(K), kind(K + 1, mask_id=1)))
    for name in CAPABILITIES:
        assert getattr(outside, name) == getattr(inside, name), name
    seeded = partial(torch.Generator().manual_seed, 5)
    ids = torch.tensor([0, 2, 3, 1])  # of the tokens 0, 1, 2 and the mask
    tokens, generator = brute.sequences(K + 1, 2), torch.Generator().manual_seed(8)
    tokens = tokens if now < 1 else tokens[-1:].repeat(64, 1)  # where everything is lost, all are masks
    s, t = (torch.full((len(tokens),), time, dtype=torch.float64) for time in (before, now))
    logits = torch.randn(len(tokens), 2, K, generator=generator, dtype=torch.float64)
    x_0, tau = torch.randint(0, K, tokens.shape, generator=generator), torch.where(tokens == K, 0.3, 0.9).double()
    laws = []
    for process, order in ((outside, torch.arange(K + 1)), (inside, ids)):
        mask, back = torch.full_like(tokens, int(order[-1])), order.argsort()
        aux = {"absorbing": mask, "times": tau}.get(coupling)
        noisy = tl.Noisy(order[tokens], t, process.alpha(t), aux)
        over = torch.full((*tokens.shape, process.vocab_size), 5.0).double().index_copy(-1, order[:K], logits)
        nu = tl.LeaveOneOut(over)
        score = convert_at(nu, tl.Score, noisy, process)
        parts = [process.evidence(noisy), score.log_ratios[..., order].exp()]
        parts.append(convert_at(nu, tl.Denoiser, noisy, process).log_probs.exp()[..., order[:K]])
        if now < 1:  # else a score says nothing of x_0
            parts.append(convert_at(score, tl.LeaveOneOut, noisy, process).log_probs.exp()[..., order[:K]])
        for drawn in (process.corrupt(order[x_0], s, seeded()), process.prior(64, 2, seeded())):
            parts.append(back[drawn.tokens])
        for endpoint in (tl.Denoiser(over), nu, order[x_0]):
            parts.append(process.marginal(noisy, endpoint).dense()[..., order])
            if process.has_bridge:
                step = process.bridge(noisy, s, endpoint)
                parts += [step.dense()[..., order], back[step.draw(seeded())]]
            if now < 1:  # hybrid noise sets in at an infinite rate
                parts.append(process.reverse_rates(noisy, endpoint).off_diagonal()[..., order])
        laws.append(parts)
    for found, expected in zip(*reversed(laws), strict=True):
        assert_close(found, expected, "the relabelling of a mask inside the vocabulary")


def test_times_stay_fixed_only_where_no_noise_mass_falls() -> None:
    """Hybrid noise under transition times has its marginals, and no chain with the times fixed."""
    process = tl.Process(tl.noise.MaskAndUniform(K, 0.3), tl.couplings.TransitionTimes(), EXACT)
    t = torch.tensor([T], dtype=torch.float64)
    noisy = process.corrupt(torch.zeros(1, 2).long(), t)
    assert not process.has_bridge
    with pytest.raises(ValueError, match="has no chain with its times fixed"):
        process.bridge(noisy, t / 2, torch.zeros(1, 2).long())
    assert process.resample(torch.zeros(1, 2).long(), noisy.tokens, t) is not None


def test_left_to_right_writes_one_position_after_the_other(generator: torch.Generator) -> None:
    """4 positions: x_t agrees with x_0 on the first (1 - t) 4; the others are noise, and none says anything."""
    process, count = tl.LeftToRight(50), 400
    x_0 = torch.randint(0, 50, (count, 4), generator=generator)
    for written, t in ((4, 0.0), (3, 0.25), (1, 0.75), (0, 1.0)):
        noisy = process.corrupt(x_0, torch.full((count,), t), generator)
        assert torch.equal(noisy.tokens[:, :written], x_0[:, :written])
        assert ((noisy.tokens[:, written:] == x_0[:, written:]).double().mean() < 0.1) or written == 4
        assert process.evidence(noisy).abs().max() == 0
    assert process.sequential
    assert not any((process.reveals, process.lifted, process.has_jump_rates, process.markov, process.has_bridge))


@pytest.mark.parametrize("name", [name for name in PROCESSES if name != "interpolating"])
def test_a_registered_process_is_a_cell_with_its_own_name(name: str) -> None:
    process = PROCESSES.parse(name, vocab_size=K)
    assert process.name == name
    assert process.title == PROCESSES[name].__name__


def test_a_process_is_its_noise_its_coupling_and_its_schedule() -> None:
    """Cells of uniform noise differ in the coupling alone, and one without a name is called after its parts."""
    markov = tl.couplings.Markov()
    for process in (tl.MaxCoupling(K), tl.MaskedUniform(K), tl.AbsorbingUniform(K)):
        assert process != tl.Uniform(K)
        assert process.with_coupling(markov) == tl.Uniform(K)
        assert process.with_schedule(EXACT).with_coupling(markov) == tl.Uniform(K, schedule=EXACT)
    assert tl.Masked(K) != tl.Uniform(K)
    cell = tl.Process(NOISES["table"], tl.couplings.Absorbing())
    assert (cell.name, cell.title) == ("table/absorbing", "Table noise, Absorbing coupling")


@pytest.mark.parametrize(
    "sealed", [tl.Process, tl.noise.UniformLaw, tl.noise.TableLaw, tl.couplings.Markov, tl.couplings.Absorbing]
)
def test_what_closed_forms_rely_on_cannot_be_subclassed(sealed: type) -> None:
    with pytest.raises(TypeError, match=f"{sealed.__name__} cannot be subclassed"):
        type("Own", (sealed,), {})


def test_processes_of_another_table_are_others() -> None:
    table = brute.random_pi(K, 2)
    process = tl.Interpolating(K, table)
    assert process == tl.Interpolating(K, table.clone())
    assert hash(process) == hash(tl.Interpolating(K, table.clone()))
    assert process != tl.Interpolating(K, table.flip(0))
    assert process != tl.Interpolating(K, table, schedule=EXACT)
    assert process != tl.Uniform(K)
