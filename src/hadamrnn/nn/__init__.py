"""Modules: the recurrence and its evaluators, HadamRNN, QuantizedLinear, SequenceModel."""
