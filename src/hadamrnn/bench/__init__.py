"""What the library claims of its speed, measured beside the plain way in the same run."""
