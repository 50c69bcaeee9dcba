"""Provide layers for your own models; `hadamrnn` itself offers whole networks.

`sign` and `quantize` are quantizers with straight-through gradients, and `HadamardWeight` parametrizes any
square weight as W(u).
"""

from hadamrnn.nn.linear import HadamardLinear as HadamardLinear
from hadamrnn.nn.linear import QuantizedLinear as QuantizedLinear
from hadamrnn.nn.rnn import HadamRNN as HadamRNN
from hadamrnn.nn.straight_through import quantize as quantize
from hadamrnn.nn.straight_through import sign as sign
from hadamrnn.nn.weight import HadamardWeight as HadamardWeight
from hadamrnn.nn.weight import recurrent_weight as recurrent_weight
