"""scikit-learn estimators for series: classifier, regressor, forecaster and anomaly detector.

They take arrays `(n, time, channels)`, lists of series of different lengths, or scikit-learn's
`(n, features)`, read as series of one channel. Start at `classifier.py`; `base.py` has the shared parts.
"""

from hadamrnn.estimators.classifier import HadamRNNClassifier as HadamRNNClassifier
from hadamrnn.estimators.counted_form import plot_path as plot_path
from hadamrnn.estimators.detector import HadamRNNDetector as HadamRNNDetector
from hadamrnn.estimators.forecaster import HadamRNNForecaster as HadamRNNForecaster
from hadamrnn.estimators.regressor import HadamRNNRegressor as HadamRNNRegressor
