"""`thebes model`, as somebody at a site's terminal meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import exit_status
from tests.support.model_bundle import BUNDLE
from thebes.curator.pipelines.bundles import Bundles


def test_models_are_listed_shown_and_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "site")
    assert exit_status("model", "list", "--home", home) == 0
    assert "No model has been accepted" in capsys.readouterr().out
    Bundles(tmp_path / "site" / "models").publish("speed", BUNDLE, origin="a/1")
    assert exit_status("model", "list", "--home", home) == 0
    assert "speed, version 1: took from hour, trained on rides" in capsys.readouterr().out
    assert exit_status("model", "show", "speed", "--home", home) == 0
    assert "absolute_error is 0.08 or better, wanted 0.1\nSo much." in capsys.readouterr().out
    rows = tmp_path / "rows.csv"
    rows.write_text("day,hour\n1,1\n2,0\n3,\n")
    assert exit_status("model", "predict", "speed", str(rows), "--home", home) == 0
    assert capsys.readouterr().out == "0.25\n0.5\n\n"
    assert exit_status("model", "predict", "speed", str(rows), "--home", home, "--json") == 0
    assert json.loads(capsys.readouterr().out)["predictions"] == [0.25, 0.5, None]
    for words in (["show", "none"], ["predict", "speed", str(tmp_path / "none.csv")]):
        assert exit_status("model", *words, "--home", home) == 2
        assert "Traceback" not in capsys.readouterr().err
