"""Speed and memory, measured as ratios within one run; `tokenloom bench` runs each `bench_*.py` of this folder."""
