"""The harness's own command, with the model `tokenloom` registered."""

from tokenloom.support.extras import optional

if __name__ == "__main__":
    optional("lm_eval", "harness")
    from lm_eval.__main__ import cli_evaluate

    import tokenloom.evaluation.harness.language_model  # noqa: F401

    cli_evaluate()
