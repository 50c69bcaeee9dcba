"""What the estimators share whose network becomes integers, and C."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hadamrnn.errors import InputError, short
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network


class IntegerForm(BaseEstimator):
    """An estimator whose network becomes integers, and C."""

    config_: Network

    @abstractmethod
    def quantize(self) -> IntegerModel:
        """Return the integer network."""

    def to_c(
        self,
        out: str | Path,
        name: str = "hadamrnn",
        *,
        model: IntegerModel | None = None,
        force: bool = False,
    ) -> Path:
        """Write C of the integer network, with its own build and test, to the new folder `out`."""
        from hadamrnn.export.c import export_c

        return export_c(self._integer(model), out, name, force=force)

    def _integer(self, model: IntegerModel | None) -> IntegerModel:
        """Return `model`, which `quantize` must have returned, or quantize now."""
        if model is None:
            return self.quantize()
        check_is_fitted(self)
        if not isinstance(model, IntegerModel) or "raw_unit" not in model.metadata:
            raise InputError(f"model must be what quantize returns, got {short(model)}.")
        found, wanted = (
            f"{each.input_size} inputs and {each.output_size} outputs" for each in (model, self.config_)
        )
        if found != wanted:
            raise InputError(f"model must have {wanted}, got {found}. Pass what quantize returns.")
        return model
