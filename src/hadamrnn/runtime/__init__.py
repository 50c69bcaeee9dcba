"""Hold the program that runs integer networks on devices: `hadamrnn.h`, written by hand.

Exports copy it next to a model's data; `fixedpoint/step.py` specifies it in numpy.
"""
