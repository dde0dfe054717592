"""The rows of a write: schema checks, keys, batches and deduplication."""
