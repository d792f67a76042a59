"""What a person reads and sees of runs: tables, pictures, comparisons."""
