"""Whoever serves a home holds it before anything else: a second one says so in a sentence, and touches nothing."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import pytest

from thebes.collectors.installation import Installed
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database_owner import hold_of
from thebes.curator.pipelines.workspace import Workspace
from thebes.person.folder import prepared
from thebes.person.home import Person
from thebes.privacy.faults import Mistake, Refusal
from thebes.site import client
from thebes.site.home import SiteHome
from thebes.site.supervisor import Supervisor
from thebes.testing.command import typed
from thebes.wire.access import make_token
from thebes.wire.local_server import DAEMON, TOKEN, Hold, HomeInUse


@pytest.fixture
def site(tmp_path: Path) -> SiteHome:
    """A site's home with a certificate."""
    home = SiteHome(tmp_path / "site")
    CertificateAuthority(tmp_path / "authority", SystemClock()).issue("north", home.folder)
    return home


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder: when it was changed, and what it holds."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in (folder, *folder.rglob("*"))
    }


def test_a_second_supervisor_of_a_site_is_refused_before_it_touches_anything(site: SiteHome) -> None:
    first = Supervisor(site, coordinator="127.0.0.1:9", port=0)
    (site.folder / DAEMON).write_text(json.dumps({"url": first.address}))
    (site.folder / TOKEN).unlink()  # a second one would make it again
    before = state(site.folder)
    with pytest.raises(HomeInUse):
        Supervisor(site, coordinator="127.0.0.1:9", port=0)
    second = typed("site", "--home", site.folder, "--coordinator", "127.0.0.1:9")
    assert second.returncode == 1
    assert second.stdout == ""
    assert second.stderr.count("\n") == 1
    assert "another process uses the home" in second.stderr
    assert f"thebes site --home {site.folder} --open" in second.stderr
    assert state(site.folder) == before
    first.close()
    assert not (site.folder / DAEMON).exists()
    Supervisor(site, coordinator="127.0.0.1:9", port=0).close()


def test_a_supervisor_that_cannot_begin_holds_nothing(site: SiteHome) -> None:
    with pytest.raises(Mistake, match="--port"):
        Supervisor(site, coordinator="127.0.0.1:9", port=70_000)
    Supervisor(site, coordinator="127.0.0.1:9", port=0).close()


def test_the_process_with_the_rows_waits_for_one_before_it_and_not_for_its_supervisor(site: SiteHome) -> None:
    with closing(site.hold()), closing(site.hold_rows()), pytest.raises(HomeInUse):
        site.hold_rows()


def test_two_who_look_for_the_site_that_runs_do_not_take_each_other_for_it(
    site: SiteHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_token(site.folder)
    (site.folder / DAEMON).write_text(json.dumps({"url": "http://127.0.0.1:9"}))  # left by one that was killed
    with closing(site.hold(shared=True)), pytest.raises(Refusal, match="no `thebes site` runs"):
        client.running(site.folder)
    with closing(site.hold()):
        client.running(site.folder).close()


def test_whoever_only_looks_keeps_nobody_from_starting(tmp_path: Path) -> None:
    looking = Hold(tmp_path, shared=True)
    soon = threading.Timer(0.02, looking.close)
    soon.start()
    Hold(tmp_path).close()
    soon.join()


def test_a_second_person_is_refused_before_the_token_and_the_pin_change(tmp_path: Path) -> None:
    home = tmp_path / "me"
    with Person(home):
        make_token(home)
        before = state(home)
        address = ("--coordinator", "http://127.0.0.1:9", "--pin", "ab" * 32)
        second = typed("person", "--home", home, "--new-token", *address)
        assert second.returncode == 1, second
        assert "another process uses the home" in second.stderr
        assert state(home) == before


def test_nobody_is_a_person_at_the_home_of_a_site(site: SiteHome) -> None:
    (site.folder / "ledger.db").write_bytes(b"")  # what both roles have
    with pytest.raises(Mistake, match="is a site's home"):
        prepared(site.folder)


def test_a_coordinators_file_is_held_whichever_home_names_it(tmp_path: Path) -> None:
    one, other = CoordinatorHome(tmp_path / "one"), CoordinatorHome(tmp_path / "other")
    elsewhere = f"sqlite:///{tmp_path / 'data' / 'c.db'}"
    (tmp_path / "data").mkdir()
    with closing(hold_of(one, elsewhere)):
        with pytest.raises(HomeInUse):
            hold_of(one, elsewhere)
        with pytest.raises(HomeInUse):
            hold_of(other, elsewhere)
        hold_of(other, None).close()  # what was taken before the refusal was let go
    hold_of(other, elsewhere).close()


def test_a_database_that_several_may_use_is_shared_by_them_and_not_with_a_file(tmp_path: Path) -> None:
    home = CoordinatorHome(tmp_path / "c")
    several = "postgresql:///thebes"
    with closing(hold_of(home, several)), closing(hold_of(home, several)), pytest.raises(HomeInUse):
        hold_of(home, None)


def test_one_process_at_a_time_stays_to_run_collectors(tmp_path: Path) -> None:
    home = tmp_path / "me"
    Person(home).close()
    make_token(home)
    place = Installed(home)
    with place.staying(None):
        with pytest.raises(Refusal, match="stays already"), place.staying(None):
            pass
        with place.staying("rides"):
            assert place.stayed("rides")
        second = typed("collector", "run", "--all", "--every", "--home", home)
        assert (second.returncode, second.stderr.count("\n")) == (1, 1)
        assert place.stayed("rides")
    assert not place.stayed("rides")


def test_a_collector_is_not_removed_from_under_its_run(tmp_path: Path) -> None:
    home = tmp_path / "me"
    Person(home).close()
    make_token(home)
    place = Installed(home)
    with place.turn("rides"):
        with pytest.raises(Refusal, match="running already"):
            place.forget("rides")
        with pytest.raises(Refusal, match="running already"), place.turn("rides"):
            pass


def test_an_error_of_a_run_is_not_told_as_another_run(tmp_path: Path) -> None:
    home = tmp_path / "me"
    Person(home).close()
    make_token(home)
    with pytest.raises(BlockingIOError), Installed(home).turn("rides"):
        raise BlockingIOError


def test_one_process_at_a_time_begins_a_pipeline_again_and_again(tmp_path: Path) -> None:
    with closing(Workspace(tmp_path)) as one, closing(Workspace(tmp_path)) as other:
        with one.staying("slopes"):
            with pytest.raises(Refusal, match="begun again and again already"), other.staying("slopes"):
                pass
            with other.alone("slopes"), other.staying("ridges"):
                pass
        with other.staying("slopes"):
            pass
