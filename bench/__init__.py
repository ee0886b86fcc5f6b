"""What the engine itself costs, as ratios to a plain loop in the same run."""
