"""What the emulator costs, as ratios to a floor that is measured in the same run. `python -m benchmarks`."""
