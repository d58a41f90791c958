"""One module for each table or figure; `convexstruct.core.experiment` says what it holds."""
