"""Build the documents, tables and plots that the report, the demo and the search share."""
