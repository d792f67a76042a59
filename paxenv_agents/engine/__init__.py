"""Play: games with their seats taken, and the scans over them."""
