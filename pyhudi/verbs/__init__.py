"""What the tables of every door can do: writing, services, care, `table.index`."""
