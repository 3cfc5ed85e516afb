"""--corrector and --corrector-steps, which `sample` and `solve` share."""


def with_steps(corrector: str, steps: int) -> str | None:
    """The corrector with its number of steps among its options; none for no steps."""
    if steps < 0:
        raise ValueError(f"--corrector-steps must not be negative, got {steps}")
    return f"{corrector}{',' if ':' in corrector else ':'}steps={steps}" if steps else None
