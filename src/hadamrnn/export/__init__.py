"""Export an `IntegerModel` as C99, an Arduino library, JavaScript or ONNX. Only `onnx.py` needs torch."""

from hadamrnn.export.c import export_arduino, export_c
from hadamrnn.export.golden import Golden, draw_golden, fit_golden, make_golden
from hadamrnn.export.js import export_js

__all__ = ["Golden", "draw_golden", "export_arduino", "export_c", "export_js", "fit_golden", "make_golden"]
