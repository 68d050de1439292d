"""The source of a growing data set's rows: what its description says beside that it grows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from thebes.data.connectors.connector import Source


class GrowingSource(Source):
    """Rows come in as Parquet files below the home, whatever reads them: DuckDB in this process, or Spark, whose
    workers must then see the same folder. `master` and `settings` are those of Spark's session."""

    kind: Literal["growing"]
    engine: Literal["duckdb", "spark"] = "duckdb"
    master: str | None = Field(default=None, min_length=1, max_length=400)
    settings: dict[str, str] = Field(default={}, max_length=100)

    @model_validator(mode="after")
    def _of_spark(self) -> GrowingSource:
        if self.engine != "spark" and (self.master is not None or self.settings):
            raise ValueError('has master and settings only with engine = "spark"')
        return self


IN_PROCESS = GrowingSource(kind="growing")
