#!/usr/bin/env bash
# Put the model of a finished run into the package, under a name that every command knows.
#   scripts/bundle.sh runs/sudoku-udm-loo sudoku-udm-loo
set -euo pipefail
run=${1:?name the run folder}
name=${2:?name the model}
into=$(cd "$(dirname "$0")/.." && pwd)/src/tokenloom/models/bundled
python - "$run/model" "$into" "$name" <<'CODE'
import json, os, shutil, sys
from pathlib import Path

model, into, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
LIMIT, IN_ALL = 6_000_000, 25_000_000  # bytes
size = (model / "model.safetensors").stat().st_size
others = sum(file.stat().st_size for file in into.glob("*/model.safetensors") if file.parent.name != name)
if size > LIMIT or size + others > IN_ALL:
    sys.exit(f"{name} has {size:,} bytes, with the other models {size + others:,}; the limits are {LIMIT:,} and {IN_ALL:,}")
config = json.loads((model / "config.json").read_text())
about = config["about"]
about["training"]["out"] = None
for source in (about["source"], about["training"]["data"]):
    for key in ("path", "valid_path", "tokenizer"):  # where files lay when it was trained; names such as bpe:512 stay
        value = source.get(key)
        if value and os.sep in value:
            source[key] = os.path.basename(value)
(into / name).mkdir(exist_ok=True)
for file, write in (
    ("config.json", lambda path: path.write_text(json.dumps(config, indent=2) + "\n")),
    ("model.safetensors", lambda path: shutil.copyfile(model / "model.safetensors", path)),
):
    partial = into / name / f".{file}-writing"
    write(partial)
    partial.replace(into / name / file)
print(f"{name}: {size:,} bytes of weights, {size + others:,} in all")
CODE
