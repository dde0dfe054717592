"""What goes from the table's lock to a report, over the pipeline and the services."""
