"""The integer half: no torch below this folder."""
