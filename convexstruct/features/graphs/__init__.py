"""Joint features of labelled graphs: node features by label, edge features by pair of labels; losses and kernels."""
