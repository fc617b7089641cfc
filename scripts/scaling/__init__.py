"""What scripts/bench_scale.py measures with: a large world, its operations, and its removals."""
