"""The integer network as a program for devices: `hadamrnn.h`, static and written by hand.

Exports copy it beside a model's data; `fixedpoint/step.py` is its specification in numpy.
"""
