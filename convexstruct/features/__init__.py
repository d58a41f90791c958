"""Joint feature maps as arrays: `counts` of generative models, `graphs` of discriminative ones."""
