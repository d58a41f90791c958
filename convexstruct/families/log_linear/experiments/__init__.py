"""One module for each table or figure, with `NAME`, `PAPER`, `TITLE` and `run(quick, seed, progress)`."""
