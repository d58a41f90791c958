"""One reader for each kind of argument, one sentence for each refusal: numbers and names, arrays, sparse matrices."""
