"""The paper's tables as data, the runner that fills them, and the report: measured beside published."""
