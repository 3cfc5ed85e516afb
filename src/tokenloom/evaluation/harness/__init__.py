"""The language-model evaluation harness (lm_eval, extra `harness`) for every model that `tl.load` knows.

    evaluate_tasks("folder", ["my_tasks/"])                                                 from Python
    tokenloom evaluate FOLDER --tasks my_tasks/                                             from the shell
    python -m tokenloom.evaluation.harness run --model tokenloom --model_args pretrained=FOLDER --tasks ...
                                                                                            the harness's own command
Importing this package does not import lm_eval; `harness.language_model` does.
"""

from tokenloom.evaluation.harness.run import HarnessOptions, TaskFigure, TaskReport, evaluate_tasks

__all__ = ["HarnessOptions", "TaskFigure", "TaskReport", "evaluate_tasks"]
