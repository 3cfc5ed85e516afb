#!/usr/bin/env bash
# Train the bundled models, one core each; a run that was interrupted resumes where it stopped.
#   scripts/train_bundled.sh sudoku-udm-loo [folder]
#   scripts/train_bundled.sh sudoku-mdm | sudoku-audm | sudoku4-udm-loo | sudoku6-udm-loo [folder]
#   scripts/train_bundled.sh shakespeare-udm-loo folder input.txt
set -euo pipefail
name=${1:?name a model: sudoku-udm-loo, sudoku-mdm, sudoku-audm, sudoku4-udm-loo, sudoku6-udm-loo or shakespeare-udm-loo}
out=${2:-runs}/$name
export OMP_NUM_THREADS=1

sudoku=(
  --data.puzzles unique --data.rows 4000
  --network.kind grid --network.width 32 --network.depth 4 --network.loops 4
  --optimiser.batch 16 --optimiser.lr 3e-3 --optimiser.warmup 100 --optimiser.decay linear
  --run.valid-rows 256 --run.validate-every 1000 --run.checkpoint-every 500
)
nine=(--recipe sudoku9 --data.givens 24 50)
case $name in
  sudoku-udm-loo) run=("${nine[@]}" "${sudoku[@]}" --method udm --max-minutes 85) ;;
  sudoku-mdm) run=("${nine[@]}" "${sudoku[@]}" --method mdm --max-minutes 55) ;;
  sudoku-audm) run=("${nine[@]}" "${sudoku[@]}" --method audm --max-minutes 55) ;;
  sudoku4-udm-loo) run=(--recipe sudoku4 "${sudoku[@]}" --method udm --max-minutes 5) ;;
  sudoku6-udm-loo) run=(--recipe sudoku6 "${sudoku[@]}" --method udm --max-minutes 15) ;;
  shakespeare-udm-loo)
    run=(
      --recipe chars --method udm --data.path "${3:?give the path of the text}" --data.length 256
      --network.width 144 --network.depth 4 --network.heads 4 --network.condition 64
      --optimiser.batch 16 --optimiser.lr 2e-3 --optimiser.warmup 200 --optimiser.decay linear
      --run.valid-rows 256 --run.validate-every 500 --run.checkpoint-every 250 --max-minutes 50
    ) ;;
  *) echo "there is no bundled model $name" >&2; exit 2 ;;
esac
if [ -d "$out/checkpoints" ]; then
  exec python -m tokenloom train --resume "$out"
fi
exec python -m tokenloom train "${run[@]}" --out "$out"
