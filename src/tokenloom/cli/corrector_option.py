"""--corrector and --corrector-steps, which `sample` and `solve` share."""

from tokenloom.samplers.kernel import CORRECTORS, make

NONE, DEFAULT = "none", "informed"


def corrector_of(corrector: str, steps: int | None) -> str | None:
    """The corrector that the two options name, with its number of steps among its own; checked."""
    if steps is not None and steps < 0:
        raise ValueError(f"--corrector-steps must not be negative, got {steps}")
    if "steps=" in corrector and steps is not None:
        raise ValueError(f"--corrector {corrector} says its steps already; leave out --corrector-steps")
    if corrector != NONE:
        make(corrector, CORRECTORS)
    if steps is None:
        return None if corrector == NONE else corrector
    named = DEFAULT if corrector == NONE else corrector
    return f"{named}{',' if ':' in named else ':'}steps={steps}" if steps else None
