"""`HadamRNNClassifier`: predict labels of series."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length
from torch.nn.functional import one_hot, softmax

from hadamrnn.errors import InputError
from hadamrnn.estimators.counted_form import CountedForm
from hadamrnn.estimators.reading import align, read_series
from hadamrnn.estimators.series import Floats, Samples, Series
from hadamrnn.estimators.target import LabelTarget
from hadamrnn.fixedpoint.base import Metadata, class_metadata
from hadamrnn.fixedpoint.encoding import encode_values
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.reservoir import IntegerReservoir


@dataclass(eq=False, repr=False)
class HadamRNNClassifier(ClassifierMixin, CountedForm):
    """A classifier for series that takes kilobytes, fitted in closed form or trained by gradients.

    X is `(n, time, channels)`, a list of `(time, channels)` arrays of different lengths, a data frame with a
    column for each channel, or `(n, features)`, read as series of one channel. The estimator standardises its
    inputs, and so does the integer network. A channel whose series differ greatly in size is compressed
    first.

    Parameters
    ----------
    hidden_size : int or None
        Number of units, a multiple of `num_blocks`; None means as many as fit into `max_bytes` (256 with
        gradients).
    solver : "auto", "count", "ridge" or "gradient"
        "count" fits a reservoir: random units read the series at several time scales, and a feature is the
        fraction of steps in which a unit exceeds a threshold. A pool of thousands of features is pruned
        until it fits into `max_bytes`. The fit uses the integers that a device computes, so `predict`
        returns exactly what the exported C does.
        "ridge" chooses the recurrent and input weights of a `hadamrnn.Network` at random and solves for
        the read-out. Networks are compared by their leave-one-out error. With more than 1000 series,
        stretches of each class are left out instead, because neighbouring series may be windows of one
        recording. "gradient" trains all weights.
        "auto" is "gradient" if `max_steps`, `early_stopping` or `warm_start` is set, "ridge" if
        `hidden_size`, `num_blocks`, `leak`, `readouts`, `thresholds`, `recurrence` or `weight_bits`
        describes a `Network`, and otherwise "count".
    max_bytes : int or None
        Limit on the size of the weights, for "ridge" and "count". None means 4096 for up to ten classes,
        and for more 409.6 per class ("count": 320 for each additional class).
    max_ram : int or None
        Limit on the bytes of the states on a device, for "ridge" and "count"; "gradient" refuses a network
        that exceeds it.
    num_blocks : int or None
        Number of diagonal blocks of the recurrent weight; `hidden_size / num_blocks` must be a Hadamard
        order. With None, "ridge" chooses and "gradient" uses one block.
    leak, readouts, thresholds : tuple of int, tuple of str, int, or None
        As in `hadamrnn.Network`. With None, "ridge" chooses and "gradient" uses the paper's values.
    weight_bits : int, "ternary", None or "auto"
        Bits of the input and output weights; "auto" means 4. With "count", of the output weights (2 to 8);
        "auto" means 3 up to ten classes, and 2 for more, so that more features fit. The recurrent weight
        takes one bit per unit.
    recurrence : "linear" or "relu"
    max_steps : int or "auto"
        Number of training steps; "auto" means 30 passes through the data, at least 300 steps and at most
        10,000.
    batch_size, learning_rate : int, float
        Settings of Adam; the learning rate falls to zero along a cosine.
    input_noise : float
        Standard deviation of the noise added to the standardised inputs during training.
    class_weight : dict, "balanced" or None
        Weights of the classes in the loss, or of their rows in the regression.
    early_stopping : bool
        False trains on all samples for `max_steps` and keeps the last weights. True holds out
        `validation_fraction` of the samples, keeps the weights with the lowest loss on them, and stops when
        that loss no longer falls.
    validation_fraction : float
    n_iter_no_change, tol : int, float
        Stop when the held-out loss has not fallen by `tol` in this many evaluations. Counting starts when
        the learning rate has fallen to a tenth, because earlier evaluations mostly measure noise. There is
        one evaluation per pass through the data, or every 20 steps if that is longer.
    warm_start : bool
        Whether `fit` by gradients continues with the network and standardisation of the previous call.
    n_jobs : int or None
        Number of threads; None means one, which is fastest for short series, and -1 means all.
    verbose : bool
        Whether to print what "ridge" selected, or to show the progress of "gradient".
    random_state : int, RandomState or None
        The seed of all random choices. torch's global generator is not used, so `fit` may run in threads.

    Attributes
    ----------
    classes_ : ndarray of the labels
    network_ : IntegerReservoir, or a SequenceModel in float64
    n_features_in_ : int
        Number of features of `(n, features)`, else of channels.
    feature_names_in_ : ndarray of str
        Names of the features, if X had any.
    config_ : Reservoir or Network, the selected or requested architecture
    penalty_ : float, penalty of the ridge regression
    n_iter_ : int, number of steps with gradients
    loss_curve_ : list of float, the loss of each step with gradients
    cost_ : Cost, bytes of weights, operations of one step and RAM of the states
    kept_ : list of str, a description of each feature of a reservoir

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = HadamRNNClassifier(max_bytes=1000, random_state=0).fit(X, y)
    >>> classifier.score(X, y) > 0.9, classifier.cost_.bytes <= 1000
    (True, True)
    """

    class_weight: Any = field(default=None, kw_only=True)
    classes_: NDArray[Any] = field(init=False)

    def _read(self, X: Any, y: Any, *, reset: bool) -> tuple[Series, NDArray[Any]]:
        labels, classes = self._labels(align(X, y))
        series = read_series(self, X, reset=reset)
        check_consistent_length(series, labels)
        self._keep_classes(classes, reset=reset)
        return series, labels

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> HadamRNNClassifier:
        """Fit the network to the next part of the data; all parts together give the result of one `fit`.

        The first 2000 series determine the standardisation, the features, the penalty and the temperature.
        Up to that point the result equals that of one `fit` (for a `Network`, if all its parameters are
        given). Later series only enter the regression.

        Args:
            X, y, sample_weight: as for `fit`.
            classes: all labels; required in the first call unless `fit` has set them. A call to `fit`, and
                the first call after it, start from scratch.
        """
        labels, _ = self._labels(align(X, y))
        first = not hasattr(self, "_stream")
        if self.class_weight == "balanced":
            raise InputError("A part does not know the balance of all: pass class_weight as a dict.")
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("classes must be passed on the first call to partial_fit.")
        series = read_series(self, X, reset=first)
        check_consistent_length(series, labels)
        if classes is not None:
            self._keep_classes(_different(column_or_1d(classes), "classes"), reset=first)
        self._refuse_unseen(labels, "labels that are not in classes")
        self._fit_part(series, labels, align(X, sample_weight))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, `(n, classes)`, in the order of `classes_`."""
        probabilities: Floats = softmax(torch.from_numpy(_each_class(self._outputs(X))), dim=1).numpy()
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; y may only contain labels of `classes_`."""
        predicted = self.predict(X)
        labels = column_or_1d(align(X, y))
        check_consistent_length(predicted, labels)
        self._refuse_unseen(labels, "previously unseen labels")
        return float(np.average(predicted == labels, weights=align(X, sample_weight)))

    def to_page(
        self,
        out: str | Path,
        X: Any,
        y: Any,
        name: str = "net",
        *,
        model: IntegerModel | IntegerReservoir | None = None,
        force: bool = False,
    ) -> Path:
        """Write an HTML page to the new folder `out`, on which the integer network reads the series X.

        Args:
            X, y: series and their labels, of which the page stores as many as fit.
            name, model, force: as for `to_c`.
        """
        from hadamrnn.export.page import Stored, export_page, stored_rows

        integer = self._integer(model)
        series, labels = read_series(self, X, reset=False), column_or_1d(align(X, y))
        check_consistent_length(series, labels)
        self._refuse_unseen(labels, "previously unseen labels")
        some = stored_rows(integer, len(series), series.values.shape[1])
        codes, _ = encode_values(integer, series.values[some])
        numbers = np.searchsorted(self.classes_, labels[some])
        return export_page(integer, out, name, Stored(codes, numbers, series.steps_each()[some]), force=force)

    def _decode(self, outputs: Floats) -> NDArray[Any]:
        answers: NDArray[Any] = self.classes_[_each_class(outputs).argmax(1)]
        return answers

    def _output_size(self, outputs: int) -> int:
        return 1 if outputs == 2 else outputs

    def _output_metadata(self, logit_scale: float) -> Metadata:
        return class_metadata([str(name) for name in self.classes_])

    def _labels(self, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labels `(n,)` and the distinct labels."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        classes = _different(labels, "y")
        check_classification_targets(labels)
        return labels, classes

    def _keep_classes(self, classes: NDArray[Any], *, reset: bool) -> None:
        """Set `classes_`, which must be unchanged unless `reset`."""
        if len(classes) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(classes)} class: {classes}."
            )
        if not reset and not np.array_equal(classes, self.classes_):
            raise InputError(
                f"A warm start, or a later part, must have the classes {self.classes_}, got {classes}."
            )
        self.classes_ = classes

    def _refuse_unseen(self, labels: NDArray[Any], what: str) -> None:
        unseen = sorted(set(labels.tolist()) - set(self.classes_.tolist()), key=str)
        if unseen:
            raise ValueError(f"y contains {what}: {unseen}")

    def _target(self, samples: Samples, *, reset: bool) -> LabelTarget:
        """Return the target, with each sample's weight multiplied by its class's weight."""
        codes = torch.from_numpy(np.searchsorted(self.classes_, samples.known))
        targets = 2.0 * one_hot(codes, len(self.classes_)).double() - 1.0
        weights, groups = torch.from_numpy(samples.weights), torch.from_numpy(samples.groups)
        if self.class_weight is None:
            return LabelTarget(targets, weights, groups)
        given = compute_class_weight(
            self.class_weight, classes=self.classes_, y=samples.known, sample_weight=samples.weights
        )
        factors = torch.from_numpy(given)[codes]
        if not (np.isfinite(given) & (given >= 0)).all() or not factors.any():
            raise InputError(
                "class_weight must be finite, never negative, and positive for a class in y, got "
                f"{self.class_weight}."
            )
        return LabelTarget(targets, weights * factors, groups)


def _each_class(outputs: Floats) -> Floats:
    """Return one output per class; a single output belongs to the second class."""
    return np.hstack([-outputs, outputs]) if outputs.shape[1] == 1 else outputs


def _different(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the distinct labels, sorted."""
    try:
        assert_all_finite(labels, input_name=name)
        return np.unique(labels)
    except TypeError:  # labels of types that cannot be compared
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InputError(
            f"{name} must hold labels of one type, and none may be missing, got {' and '.join(kinds)}."
        ) from None
