"""One file a table or figure: `NAME`, `PAPER`, `TITLE` and `run(quick, seed, progress)`."""
