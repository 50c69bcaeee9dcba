"""Pure functions of tensors: the recurrent weight, the fast transform, the quantizers."""
