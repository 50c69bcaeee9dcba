"""The commands of the reproduction: `reproduce`, `report` and `glue`."""
