"""Build Hadamard matrices, and the factors of their fast transforms, with numpy only."""
