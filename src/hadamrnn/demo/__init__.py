"""The demo: handwritten digits from data to C, a table and a page. Start at `chain.run_demo`."""
