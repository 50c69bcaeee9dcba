"""scikit-learn estimators of series: classifier, regressor, forecaster and anomaly detector.

Arrays `(n, time, channels)`, lists of series of different length, or scikit-learn's `(n, features)`, read
as series of one channel. Start at `classifier.py`; `base.py` has the parts shared with the regressor.
"""

from hadamrnn.estimators.classifier import HadamRNNClassifier as HadamRNNClassifier
from hadamrnn.estimators.counted_form import plot_path as plot_path
from hadamrnn.estimators.detector import HadamRNNDetector as HadamRNNDetector
from hadamrnn.estimators.forecaster import HadamRNNForecaster as HadamRNNForecaster
from hadamrnn.estimators.regressor import HadamRNNRegressor as HadamRNNRegressor
