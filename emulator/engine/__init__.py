"""The shell round the core: take what has arrived, decide, commit, then act."""
