#!/usr/bin/env bash
# Put the model of a finished run into the package, under a name that every command knows, its weights rounded to float16.
#   scripts/bundle.sh runs/sudoku sudoku
set -euo pipefail
run=${1:?name the run folder}
name=${2:?name the model}
into=$(cd "$(dirname "$0")/.." && pwd)/src/tokenloom/models/bundled
python - "$run/model" "$into" "$name" <<'CODE'
import copy, os, sys, tempfile
from pathlib import Path

model, into, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
LIMIT, IN_ALL = 8_000_000, 25_000_000  # bytes
size = (model / "model.safetensors").stat().st_size // 2
others = sum(file.stat().st_size for file in into.glob("*/model.safetensors") if file.parent.name != name)
if size > LIMIT or size + others > IN_ALL:
    sys.exit(f"{name} has {size:,} bytes, with the other models {size + others:,}; the limits are {LIMIT:,} and {IN_ALL:,}")
from tokenloom.models.store import load_model  # which takes seconds, so the sizes come first

loaded = load_model(model)
for weight in loaded.network.state_dict().values():
    weight.copy_(weight.half())
source, training = copy.deepcopy((loaded.about.source, loaded.about.training))
training["out"] = None
for record in (source, training["data"]):
    for key in ("path", "valid_path", "tokenizer"):  # where files lay when it was trained; names such as bpe:512 stay
        value = record.get(key)
        if value and os.sep in value:
            record[key] = os.path.basename(value)
(into / name).mkdir(exist_ok=True)
with tempfile.TemporaryDirectory(dir=into) as folder:  # other files of the bundled model, such as its data, stay
    loaded.describe(source=source, training=training).save(Path(folder) / name)
    for file in (Path(folder) / name).iterdir():
        file.replace(into / name / file.name)
size = (into / name / "model.safetensors").stat().st_size
print(f"{name}: {size:,} bytes of weights, {size + others:,} in all")
CODE
