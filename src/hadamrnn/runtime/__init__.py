"""The integer network as a program for devices: `hadamrnn.h`, written by hand.

Exports copy it next to a model's data; `fixedpoint/step.py` is its specification in numpy.
"""
