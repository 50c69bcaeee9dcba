"""Register the paper's tasks and two from related papers, for the entry points of this package."""

from hadamrnn_paper.data.dsa import DSA19 as DSA19
from hadamrnn_paper.data.glue import QQP as QQP
from hadamrnn_paper.data.glue import SST2 as SST2
from hadamrnn_paper.data.imdb import IMDB as IMDB
from hadamrnn_paper.data.keywords import GOOGLE12 as GOOGLE12
from hadamrnn_paper.data.keywords import KEYWORDS as KEYWORDS
from hadamrnn_paper.data.mnist import PMNIST as PMNIST
from hadamrnn_paper.data.mnist import SMNIST as SMNIST
