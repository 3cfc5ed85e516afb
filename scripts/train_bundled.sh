#!/usr/bin/env bash
# Train the bundled models, one core each; a run that was interrupted resumes where it stopped.
#   scripts/train_bundled.sh sudoku | sudoku4-udm-loo | sudoku6-udm-loo [folder]
#   scripts/train_bundled.sh sudoku-mined folder mined.csv.gz    (no bundled model yet: puzzles that need search)
#   scripts/train_bundled.sh shakespeare-udm-loo folder input.txt
set -euo pipefail
name=${1:?name a model: sudoku, sudoku4-udm-loo, sudoku6-udm-loo or shakespeare-udm-loo}
out=${2:-runs}/$name
export OMP_NUM_THREADS=1

small=(--data.rows 4000 --network.depth 4 --network.loops 4)
sudoku=(
  --data.puzzles unique --network.kind grid --network.width 32
  --optimiser.batch 16 --optimiser.lr 3e-3 --optimiser.warmup 100 --optimiser.decay linear
  --run.valid-rows 256 --run.validate-every 1000 --run.checkpoint-every 500
)
case $name in
  sudoku)
    run=(
      --recipe sudoku9 --method any --time-power 0.5 "${sudoku[@]}"
      --data.rows 16000 --data.seed 2 --data.givens 24 50 --data.hard 0.6
      --network.depth 2 --network.loops 12 --network.fewest-loops 3 --max-minutes 105
    ) ;;
  sudoku-mined) # the collection: python -m tokenloom.sudoku.collection --out mined.csv.gz --blocks 200 --seed 11
    run=(
      --recipe sudoku9 --method any --time-power 0.5 "${sudoku[@]}"
      --data.path "${3:?give the path of a mined collection}" --data.rows 1000000 --data.givens 24 50
      --data.mixture 0.2 0.25 0.35 0.2
      --network.width 48 --network.depth 2 --network.loops 16 --network.fewest-loops 4 --max-minutes 420
    ) ;;
  sudoku4-udm-loo) run=(--recipe sudoku4 "${sudoku[@]}" "${small[@]}" --method udm --max-minutes 5) ;;
  sudoku6-udm-loo) run=(--recipe sudoku6 "${sudoku[@]}" "${small[@]}" --method udm --max-minutes 15) ;;
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
