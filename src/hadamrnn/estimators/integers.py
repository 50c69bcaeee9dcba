"""Provide the base class of every estimator: parameters, integer network, and C export."""

from __future__ import annotations

import hashlib
import warnings
from abc import abstractmethod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hadamrnn.errors import InputError, SaturationWarning, short
from hadamrnn.estimators.series import Floats, Scaling
from hadamrnn.fixedpoint.base import Metadata
from hadamrnn.fixedpoint.encoding import count_outliers, encode_values
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.nn.model import SequenceModel
from hadamrnn.reservoir import IntegerReservoir
from hadamrnn.reservoir.file import to_bytes
from hadamrnn.settings import coerce, field_types

FIT = "fit"  # metadata entry that identifies the fit from which an integer network was made
RARE = 1e-4  # fraction of states or inputs that may be clipped without a warning


class IntegerForm(BaseEstimator):
    """An estimator with declared parameters that can be quantized and exported."""

    config_: Any  # a Network, or a Reservoir
    _quantized: IntegerModel | IntegerReservoir | None = (
        None  # cached result of `quantize()`; cleared by every fit
    )

    @abstractmethod
    def quantize(self) -> IntegerModel | IntegerReservoir:
        """Return the integer network."""

    def _identity(self) -> Metadata:
        """Return the metadata entry that identifies the fit; empty for estimators that store none."""
        return {}

    def _parameters(self) -> SimpleNamespace:
        """Return the parameters converted to their declared types, with numpy values as Python's."""
        types = field_types(type(self))
        given = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        return SimpleNamespace(**{name: coerce(name, value, types[name]) for name, value in given.items()})

    def to_c(
        self,
        out: str | Path,
        name: str = "net",
        *,
        model: IntegerModel | IntegerReservoir | None = None,
        force: bool = False,
    ) -> Path:
        """Write the integer network as C, with its own build and test, to the new folder `out`."""
        from hadamrnn.export.c import export_c

        return export_c(self._integer(model), out, name, force=force)

    def _integer(self, model: IntegerModel | IntegerReservoir | None) -> Any:
        """Return `model`, which must come from `quantize`, or the default network."""
        if model is None:
            self._quantized = self._quantized or self.quantize()
            return self._quantized
        check_is_fitted(self)
        if not isinstance(model, IntegerModel | IntegerReservoir) or "raw_unit" not in model.metadata:
            raise InputError(f"model must be what quantize returns, got {short(model)}.")
        found, wanted = (
            f"{each.input_size} inputs and {each.output_size} outputs" for each in (model, self.config_)
        )
        if found != wanted:
            raise InputError(f"model must have {wanted}, got {found}. Pass what quantize returns.")
        if model.metadata.get(FIT) != self._identity().get(FIT):
            raise InputError("model must be of this fit, got one of another. Call quantize again.")
        return model

    def _integer_outputs(
        self,
        integer: IntegerModel | IntegerReservoir,
        values: Floats,
        lengths: NDArray[np.int64] | None = None,
    ) -> Floats:
        """Return the real outputs of the integer network `(n, output_size)`; warn if it saturates."""
        codes, _ = encode_values(integer, values)
        inputs = count_outliers(integer, values)
        if isinstance(integer, IntegerReservoir):
            result, states = integer.run(codes, lengths), 0  # the fit already includes clipped states
            advice = "They are clipped in predict too."
        else:
            result = Engine(integer).run(codes, lengths)
            states, advice = result.saturations, "Compare with predict."
        steps = values.shape[0] * values.shape[1] if lengths is None else int(lengths.sum())
        sizes = steps * integer.hidden_size, steps * integer.input_size
        if states > RARE * sizes[0] or inputs > RARE * sizes[1]:
            warnings.warn(
                f"{states} of {sizes[0]} states and {inputs} of {sizes[1]} inputs of the integer "
                f"network saturated: these series are larger than those of the fit. {advice}",
                SaturationWarning,
                stacklevel=3,
            )
        outputs: Floats = result.logits.astype(np.float64) * integer.logit_scale
        return outputs


def fit_metadata(network: SequenceModel | IntegerReservoir, scaling: Scaling) -> Metadata:
    """Return the metadata entry that identifies a fit: the SHA-256 of its network and input units."""
    if isinstance(network, IntegerReservoir):
        parts = [to_bytes(network)]
    else:
        parts = [value.numpy().tobytes() for value in network.state_dict().values()]
    units = [each.tobytes() for each in (scaling.offset, scaling.scale, scaling.knee) if each is not None]
    return {FIT: hashlib.sha256(b"".join([*parts, *units])).hexdigest()}


def _plain(value: Any) -> Any:
    """Convert numpy scalars and arrays, which grid searches pass, to Python's; return others unchanged.

    >>> _plain(np.int64(64)), _plain(np.array([2, 3]))
    (64, [2, 3])
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
