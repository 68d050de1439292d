"""Rows on a cluster of Spark: a master and two workers answer as one machine does, though a worker dies meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tests.contract.test_engines import fill, grown
from tests.support.spark_cluster import SparkCluster, running_spark
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.engines.source import table_of
from thebes.data.engines.table import EngineTable
from thebes.data.growing.source import GrowingSource
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.testing.engine_oracle import Row
from thebes.testing.engines import CHECKS, Open

pytestmark = pytest.mark.heavy

MANY = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": 3,
        "time": "at",
        "columns": {
            "who": {"type": "integer", "key": True},
            "fare": {"type": "float", "low": 0, "high": 90},
            "zone": {"type": "integer", "values": list(range(20))},
            "at": {"type": "timestamp"},
        },
    }
)
ASKED = (
    Sums((Term(), Term((Factor("fare", 1, 1),))), axes=(Axis("zone", tuple(range(20))),)),
    Sums((Term((Factor("fare", 2, 2),)),)),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with running_spark(tmp_path_factory.mktemp("spark")) as made:
        yield made


def on(cluster: SparkCluster, schema: Schema, path: str, folder: Path) -> EngineTable:
    source = {"kind": "spark", "path": path, "master": cluster.url, "settings": cluster.settings}
    return table_of(schema, source, folder=folder)


@pytest.mark.parametrize("place", ["files", "growing"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_cluster_gives_what_plain_python_gives(
    check: Callable[[Open], None], place: str, cluster: SparkCluster, tmp_path: Path
) -> None:
    numbers = count()

    def opened(schema: Schema, rows: list[Row]) -> Any:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        if place == "growing":
            told = {"kind": "growing", "engine": "spark", "master": cluster.url, "settings": cluster.settings}
            return grown(schema, rows, folder, source=GrowingSource.model_validate(told))
        with duckdb.connect() as connection:
            fill(connection, rows)
            connection.execute(f"COPY rows TO '{folder}/rows.parquet' (FORMAT parquet)")
        return on(cluster, schema, "rows.parquet", folder)

    check(opened)


@pytest.fixture(scope="module")
def rides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two million rows of 300,000 people, some of whom have more than count."""
    folder = tmp_path_factory.mktemp("rides")
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT hash(n) % 300000 AS who, CAST(hash(n, 1) % 9001 AS DOUBLE) / 100 AS fare, "
            "CAST(hash(n, 2) % 20 AS BIGINT) AS zone, TIMESTAMP '2026-01-01' + INTERVAL (n) SECOND AS at "
            f"FROM range(2000000) t(n)) TO '{folder}/rides.parquet' (FORMAT parquet, ROW_GROUP_SIZE 100000)"
        )
    return folder


def test_a_worker_that_is_killed_in_the_middle_changes_no_total(cluster: SparkCluster, rides: Path) -> None:
    plain = table_of(MANY, {"kind": "parquet", "path": "rides.parquet"}, folder=rides, scratch=rides / "scratch")
    wanted = [plain.sums(each) for each in ASKED]
    plain.close()
    table = on(cluster, MANY, "rides.parquet", rides)
    found: list[np.ndarray] = []
    asking = threading.Thread(target=lambda: found.extend(table.sums(each) for each in ASKED), daemon=True)
    asking.start()
    status = table.engine._frame.sparkSession.sparkContext.statusTracker()  # type: ignore[attr-defined]
    while asking.is_alive() and not any(
        info.numActiveTasks for stage in status.getActiveStageIds() if (info := status.getStageInfo(stage)) is not None
    ):
        time.sleep(0.01)
    assert asking.is_alive(), "it was over before anybody could be killed"
    cluster.kill_worker()
    asking.join(300)
    assert [each.tolist() for each in found] == [each.tolist() for each in wanted]
    cluster.add_worker()
    cluster.wait_for(2)
    assert table.sums(ASKED[0]).tolist() == wanted[0].tolist()


def test_a_second_master_is_refused_and_not_taken_for_the_first(cluster: SparkCluster, rides: Path) -> None:
    on(cluster, MANY, "rides.parquet", rides)
    other = {"kind": "spark", "path": "rides.parquet", "master": "local[1]"}
    with ThreadPoolExecutor() as threads, pytest.raises(SourceUnavailable, match="another master"):
        threads.submit(table_of, MANY, other, folder=rides).result()  # a site's data sets have threads of their own
