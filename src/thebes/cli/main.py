"""The command `thebes`: where the parts are wired. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from thebes import __version__
from thebes.cli.help_pages import Commands
from thebes.privacy.faults import Mistake, ThebesError
from thebes.wire.refusals import NotFound, NotSignedIn

app = typer.Typer(
    name="thebes",
    help="Learn from data that stays with its owners: one ledger, a certificate and an error bar on every number.",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        typer.echo(f"thebes {__version__}")
        raise typer.Exit


@functools.cache  # once in a process: typer keeps what it is told, and would look at all of it again and again
def wired() -> typer.Typer:
    """Return the program with all its commands."""
    from thebes.cli import (
        backup,
        ca,
        collector,
        coordinator,
        dataset,
        doctor,
        errors,
        forget,
        group,
        ledger,
        lineage,
        login,
        model,
        person,
        pipeline,
        rotate,
        session,
        simulate,
        site,
        sql,
        task,
        task_runs,
        user,
        verify,
    )
    from thebes.cli.demo import command

    app.command("demo")(command.demo)
    app.command("simulate")(simulate.simulate)
    app.command("sql")(sql.sql)
    for name, asked in task_runs.COMMANDS.items():
        task.app.command(name)(asked)
    app.add_typer(task.app, name="task", cls=Commands)
    app.command("login")(login.login)
    app.command("logout")(login.logout)
    app.add_typer(session.app, name="session", cls=Commands)
    app.command("verify")(verify.verify)
    app.command("coordinator")(coordinator.coordinator)
    app.add_typer(person.app, name="person", cls=Commands)
    app.command("lineage")(lineage.lineage)
    app.add_typer(collector.app, name="collector", cls=Commands)
    app.add_typer(user.app, name="user", cls=Commands)
    app.add_typer(group.app, name="group", cls=Commands)
    app.add_typer(site.app, name="site", cls=Commands)
    app.add_typer(ca.app, name="ca", cls=Commands)
    app.add_typer(dataset.app, name="dataset", cls=Commands)
    app.add_typer(pipeline.app, name="pipeline", cls=Commands)
    app.add_typer(model.app, name="model", cls=Commands)
    app.add_typer(ledger.app, name="ledger", cls=Commands)
    app.command("doctor")(doctor.doctor)
    app.command("errors")(errors.errors)
    app.command("backup")(backup.backup)
    app.command("restore")(backup.restore)
    app.command("settle")(backup.settle)
    app.command("rotate")(rotate.rotate)
    app.command("forget")(forget.forget)
    return app


def with_json_target(arguments: list[str]) -> list[str]:
    """`--json` without a file means standard output: give it the `-` that people leave out."""
    spelled: list[str] = []
    for position, argument in enumerate(arguments):
        spelled.append(argument)
        following = arguments[position + 1 : position + 2]
        if argument == "--json" and (not following or (following[0].startswith("-") and following[0] != "-")):
            spelled.append("-")
    return spelled


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command of `thebes`: that of these words, or else of this process's command line."""
    _in_utf8()
    if "THEBES_STARTED_BY" in os.environ:
        from thebes.cli.processes import end_with_parent

        end_with_parent()
    run(wired(), "thebes", arguments)


def _in_utf8() -> None:
    """Begin again where this language writes letters in another way: what the encrypted store opens is named in UTF-8,
    and so is what others read of a home. Whatever is started from here inherits it."""
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "PYTHONUTF8": "1"})  # noqa: S606 (itself, once)


def run(commands: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> None:
    """Run one of some commands. Exit status 2: your mistake; 1: it failed; every error is one sentence on stderr, and
    where to read more."""
    words = with_json_target(list(sys.argv[1:] if arguments is None else arguments))
    try:
        status = _built(commands).main(words, standalone_mode=False)
    except (Mistake, NotFound, NotSignedIn) as error:  # whoever asks again the same way hears the same again
        _stop(name, f"{error}{entry(error)}", 2)
    except ThebesError as error:
        _stop(name, f"{error}{entry(error)}", 1)
    except OSError as error:
        about = f"{error.filename!r} cannot be used" if error.filename else "the system refused"
        _stop(
            name, f"{about}: {error.strerror or type(error).__name__}; check the path and who may read and write it", 1
        )
    except (typer.Abort, KeyboardInterrupt):
        _stop(name, "stopped", 1)
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's own usage errors have it; anything else is a bug
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            raise SystemExit(0) from None
        _stop(name, f"{_one_sentence(error.format_message())}; see --help", 2)
    else:
        raise SystemExit(status if isinstance(status, int) else 0)


def entry(error: ThebesError) -> str:
    """Name the command that tells the cause and what to do. A mistake says both by itself."""
    if isinstance(error, Mistake):
        return ""
    name = next(each.__name__ for each in type(error).__mro__ if not each.__name__.startswith("_"))
    return f" (more: thebes errors {name})"


@functools.cache  # once in a process, as all signatures are read for it
def _built(commands: typer.Typer) -> Any:
    """Return what reads the words of a command line."""
    return typer.main.get_command(commands)


def _one_sentence(told: str) -> str:
    """Put into one sentence what click says over several lines, and with a library's own first words."""
    return " ".join(told.replace("Value error, ", "").split()).rstrip(".")


def _stop(name: str, sentence: str, status: int) -> None:
    typer.echo(f"{name}: {sentence}", err=True)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
