"""The observer of a run, as its options say."""

from tokenloom.evaluation.observing import Observer
from tokenloom.training.config import TrainConfig


def observer_of(config: TrainConfig) -> Observer | None:
    """Return what draws samples during a run, its judge loaded; None for a run that draws none."""
    run = config.run
    if run.sample_every is not None:
        return Observer.load(run.judge, config.data, run.samples, run.sample_steps, run.seed)
    if run.judge is not None:
        raise ValueError("--run.judge rates the samples of --run.sample-every, which is not given; give both")
    return None
