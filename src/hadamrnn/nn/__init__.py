"""Modules: HadamRNN, QuantizedLinear, SequenceModel."""
