"""Reports of runs for people: tables, pictures, comparisons."""
