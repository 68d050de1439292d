"""Data sets that grow: rows kept in blocks, as Parquet files that a manifest names."""
