"""`thebes coordinator`: the server between requestors and owners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thebes.cli.output import LogForm


def coordinator(
    home: Annotated[Path, typer.Option(envvar="THEBES_HOME", help="Its folder; the first start makes admin.token.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    site_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port for sites; 0 takes a free one. Absent: none.")
    ] = None,
    store: Annotated[str | None, typer.Option(help="sqlite:///FILE (default: in the home) or postgresql://...")] = None,
    tls_cert: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="PEM certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="PEM private key.")] = None,
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="How many processes share the port; more than 1 need PostgreSQL.")
    ] = 1,
    log: LogForm = "text",
    one_of_several: Annotated[bool, typer.Option("--one-of-several", hidden=True)] = False,
) -> None:
    """Run a coordinator. It prints one line of JSON with its address when it is ready; SIGTERM stops it.

    Example: thebes coordinator --home /var/lib/thebes --port 8000
    """
    import sys

    from thebes.wire import log_output

    log_output.choose(log)
    if processes > 1:
        from thebes.coordinator.process.fronts import serve_together

        status = serve_together(
            home,
            processes=processes,
            command=[sys.executable, "-m", "thebes", "coordinator", "--home", str(home), "--one-of-several"],
            host=host,
            port=port,
            store=store,
            tls_cert=tls_cert,
            tls_key=tls_key,
            site_port=site_port,
        )
        raise typer.Exit(status)

    from thebes.coordinator.institution_models import Models
    from thebes.coordinator.process.server import serve
    from thebes.coordinator.sites.local_site import Start
    from thebes.site.process_start import algorithm_command, algorithm_environment
    from thebes.tasks.site_document import LOCAL
    from thebes.web.coordinator import pages

    def local(home: Path, descriptor: int) -> Start:
        return Start(algorithm_command(home, LOCAL), algorithm_environment(descriptor))

    def models(home: Path) -> Models:
        from thebes.curator.pipelines.model_store import (
            ModelStore,  # with all that models are made of: most never ask for one
        )

        return ModelStore(home)

    if one_of_several:
        from thebes.coordinator.process.fronts import serve_one

        serve_one(home, pages=pages.put_on, local=local, models=models)
        return
    serve(
        home,
        host=host,
        port=port,
        store=store,
        tls_cert=tls_cert,
        tls_key=tls_key,
        site_port=site_port,
        pages=pages.put_on,
        local=local,
        models=models,
    )
