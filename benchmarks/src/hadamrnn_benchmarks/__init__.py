"""Speed: every figure is measured beside a plain implementation in the same run."""
