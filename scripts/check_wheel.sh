#!/usr/bin/env bash
# Use the wheel of dist/ as its users will: in an empty environment and an empty folder, without the clone.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath dist/tokenloom-*.whl) constraints=$(realpath constraints.txt) python=$(command -v "${PYTHON:-python3}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
cd "$folder"
venv/bin/pip install --quiet --disable-pip-version-check --constraint "$constraints" "$wheel"
tokenloom=venv/bin/tokenloom
$tokenloom --version
$tokenloom solve "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
$tokenloom sample shakespeare-udm-loo --num 1 --steps 32
missing=$($tokenloom quickstart 2>&1 || true) # which trains, and says what that needs
grep -q 'pip install "tokenloom\[' <<< "$missing" || { echo "quickstart does not name the extra it needs: $missing" >&2; exit 1; }
venv/bin/pip install --quiet --disable-pip-version-check --constraint "$constraints" "$wheel[quickstart]"
$tokenloom quickstart --minutes 0.1 --puzzles 20
test -s quickstart/report.html
echo "$(basename "$wheel") works on its own"
