"""A whole Tor network on 127.0.0.1 for tests: authorities, relays, exits, a client with a SOCKS port, an onion service.

It proves plumbing and not anonymity: every relay is this machine. Needs pytest and Debian's package `tor`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.ports import free_ports

REQUIRE = "THEBES_REQUIRE"
BOOT_SECONDS = 600.0  #: about 40 on an idle machine
_AUTHORITIES, _RELAYS = 3, 2
_COMMON = """\
TestingTorNetwork 1
AssumeReachable 1
DataDirectory {folder}
Nickname {name}
Log notice file {folder}/notice.log
ControlPort 127.0.0.1:{control}
CookieAuthentication 1
ShutdownWaitLength 0
PathBiasUseThreshold 1000000
ClientUseIPv6 0
"""
_AUTHORITY = """\
AuthoritativeDirectory 1
V3AuthoritativeDirectory 1
ContactInfo nobody@test.invalid
TestingV3AuthInitialVotingInterval 20
TestingV3AuthInitialVoteDelay 4
TestingV3AuthInitialDistDelay 4
V3AuthVotingInterval 20
V3AuthVoteDelay 4
V3AuthDistDelay 4
V3AuthNIntervalsValid 3
TestingDirAuthVoteExit *
TestingDirAuthVoteGuard *
TestingDirAuthVoteHSDir *
TestingMinExitFlagThreshold 0
"""
# A policy for one address is summarised as "rejects everything", and then no consensus has exits: so for one port.
_RELAY = """\
Address 127.0.0.1
ORPort 127.0.0.1:{relay} IPv4Only
DirPort {directory}
SocksPort 0
ExitRelay 1
ExitPolicyRejectPrivate 0
ExitPolicy accept *:{target},reject *:*
"""
_CLIENT = """\
SocksPort 127.0.0.1:{socks} IsolateSOCKSAuth
ClientOnly 1
ClientRejectInternalAddresses 0
ClientDNSRejectInternalAddresses 0
"""
_ONION = """\
HiddenServiceDir {folder}/service
HiddenServicePort 80 127.0.0.1:{target}
SocksPort 0
ClientOnly 1
"""


def program() -> str | None:
    """Tor on this system, or None."""
    return shutil.which("tor") if shutil.which("tor-gencert") else None


def required() -> None:
    """Without Tor the test is skipped, or fails where THEBES_REQUIRE names it."""
    if program() is None:
        reason = "the program tor is not installed"
        if "tor" in os.environ.get(REQUIRE, "").split(","):
            pytest.fail(f"{reason}, and {REQUIRE} asks for it")
        pytest.skip(reason)


class Node:
    """One Tor process."""

    def __init__(self, folder: Path, name: str, settings: str, **ports: int) -> None:
        self.name, self.folder, self.ports = name, folder / name, ports
        self.folder.mkdir(mode=0o700)
        self.settings = (_COMMON + settings).format(folder=self.folder, name=name, **ports)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return 0 if self.process is None else self.process.pid

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        path = self.folder / "notice.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def configure(self, more: str = "") -> Path:
        path = self.folder / "torrc"
        path.write_text(self.settings + more, encoding="utf-8")
        return path

    def start(self) -> None:
        (self.folder / "notice.log").unlink(missing_ok=True)
        with (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                ["tor", "-f", str(self.folder / "torrc"), "--defaults-torrc", os.devnull, "--quiet"],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def booted(self) -> bool:
        if not self.runs:
            raise RuntimeError(f"{self.name} has ended: {self.log[-800:]}")
        return "Bootstrapped 100%" in self.log


class Network:
    """A running network. Its exits and its onion service lead to 127.0.0.1:`target` and nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(4 + 3 * (_AUTHORITIES + _RELAYS))
        self.target, self.socks_port = ports.pop(), ports.pop()
        target = self.target

        def relay(name: str, more: str) -> Node:
            own = {"control": ports.pop(), "relay": ports.pop(), "directory": ports.pop()}
            return Node(folder, name, more + _RELAY, target=target, **own)

        authorities = [relay(f"authority{i}", _AUTHORITY) for i in range(_AUTHORITIES)]
        self.exits = [*authorities, *(relay(f"relay{i}", "") for i in range(_RELAYS))]
        self.client = Node(folder, "client", _CLIENT, control=ports.pop(), socks=self.socks_port)
        self.service = Node(folder, "onion", _ONION, control=ports.pop(), target=target)
        self.nodes = [*self.exits, self.client, self.service]
        try:
            trusted = "".join(_authority_lines(authorities))
            for node in self.nodes:
                node.configure(trusted)
                node.start()
            self.wait()
        except BaseException:
            self.stop()
            raise

    @property
    def proxy(self) -> str:
        """The client's SOCKS port, as a person writes it."""
        return f"socks5h://127.0.0.1:{self.socks_port}"

    @property
    def onion(self) -> str:
        """The address of the onion service."""
        return (self.service.folder / "service" / "hostname").read_text().strip()

    def wait(self, seconds: float = BOOT_SECONDS) -> None:
        """Until client and onion service take part in the network."""
        end = time.monotonic() + seconds
        while not all([self.client.booted(), self.service.booted()]):
            if time.monotonic() > end:
                raise RuntimeError(f"no Tor network after {seconds:g} seconds: {self.client.log[-800:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.stop()


@contextmanager
def network(folder: Path) -> Iterator[Network]:
    """A network in an empty folder, stopped at the end."""
    required()
    made = Network(folder)
    try:
        yield made
    finally:
        made.stop()


# --- looking at it ----------------------------------------------------------------------------------------


@dataclass
class Stream:
    """One connection that the client carried: who it said it was, and over which circuits it was sent."""

    name: str
    target: str
    circuits: set[str] = field(default_factory=set)
    arrived: bool = False


class Watch:
    """A watch on what the client's control port tells of streams while this is open."""

    def __init__(self, client: Node) -> None:
        self._streams: dict[str, Stream] = {}
        self._lock = threading.Lock()
        self._socket = socket.create_connection(("127.0.0.1", client.ports["control"]), timeout=120)
        self._lines = self._socket.makefile("r", encoding="utf-8", errors="replace")
        cookie = (client.folder / "control_auth_cookie").read_bytes().hex()
        for command in (f"AUTHENTICATE {cookie}", "SETEVENTS STREAM"):
            self._socket.sendall(f"{command}\r\n".encode())
            answer = self._lines.readline()
            assert answer.startswith("250"), answer
        self._socket.settimeout(None)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def streams(self) -> list[Stream]:
        """Those that gave a name, in the order in which they began."""
        with self._lock:
            return [Stream(s.name, s.target, set(s.circuits), s.arrived) for s in self._streams.values()]

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._socket.close()

    def _listen(self) -> None:
        with suppress(OSError, ValueError):
            for line in self._lines:
                if line.startswith("650 STREAM "):
                    with self._lock:
                        self._heard(line)

    def _heard(self, line: str) -> None:
        _, _, number, status, circuit, target = line.split(" ")[:6]
        named = re.search(r'SOCKS_USERNAME="([^"]*)"', line)
        if number not in self._streams and named is not None:
            self._streams[number] = Stream(named[1], target)
        stream = self._streams.get(number)
        if stream is not None and status in ("SENTCONNECT", "SUCCEEDED"):
            stream.circuits.add(circuit)
            stream.arrived |= status == "SUCCEEDED"


class Witness:
    """Stands on `port` before a server and notes which process every connection came from, by the names in `known`;
    the empty name is somebody else. Who hangs up before that is clear is `gone`, and was not let through."""

    def __init__(self, port: int, server: tuple[str, int], known: dict[int, str]) -> None:
        self.callers: list[str] = []
        self.gone = 0
        self._port, self._server, self._known = port, server, known
        self._listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, address = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer, address[1]), daemon=True).start()

    def _who(self, port: int) -> str | None:
        for _ in range(20):  # a reading of the system's tables may miss an entry
            inode = _inode(port, self._port)
            if inode is not None:
                for pid, name in self._known.items():
                    if _holds(str(pid), inode):
                        return name
                if any(_holds(entry.name, inode) for entry in Path("/proc").iterdir() if entry.name.isdecimal()):
                    return ""  # seen at somebody else, not merely seen nowhere
            time.sleep(0.05)
        return None

    def _serve(self, peer: socket.socket, port: int) -> None:
        caller = self._who(port)
        if caller is None:
            self.gone += 1
            peer.close()
            return
        self.callers.append(caller)
        with suppress(OSError), peer, socket.create_connection(self._server) as there:
            back = threading.Thread(target=_pump, args=(there, peer), daemon=True)
            back.start()
            _pump(peer, there)
            back.join()


def _inode(port: int, there: int) -> str | None:
    """The socket of this machine that speaks from 127.0.0.1:`port` to 127.0.0.1:`there`, while its connection stands:
    others may speak from the same port to other servers."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[1:4] == [f"0100007F:{port:04X}", f"0100007F:{there:04X}", "01"]:
            return columns[9]
    return None


def _holds(pid: str, inode: str) -> bool:
    """Return whether a process has that socket open."""
    with suppress(OSError):
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if os.readlink(handle) == f"socket:[{inode}]":
                    return True
    return False


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


# --- starting it ------------------------------------------------------------------------------------------


def _authority_lines(authorities: list[Node]) -> Iterator[str]:
    """Make the authorities' keys, and say how the others know them."""
    made = [_certified(node) for node in authorities]
    for node, process in zip(authorities, made, strict=True):
        _, words = process.communicate(b"test\n", timeout=300)
        if process.returncode:
            raise RuntimeError(f"tor-gencert failed: {words.decode(errors='replace')[-400:]}")
        certificate = (node.folder / "keys" / "authority_certificate").read_text()
        identity = re.search(r"^fingerprint (\w+)", certificate, re.MULTILINE)
        nobody = f"DirAuthority nobody orport=1 127.0.0.1:1 {'F' * 40}\n"  # it asks for one before it tells its own
        listed = subprocess.run(
            ["tor", "-f", str(node.configure(nobody)), "--defaults-torrc", os.devnull, "--list-fingerprint", "--quiet"],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        fingerprint = re.search(rf"^{node.name} ([0-9A-F ]+)$", listed, re.MULTILINE)
        assert identity, certificate
        assert fingerprint, listed
        yield (
            f"DirAuthority {node.name} orport={node.ports['relay']} no-v2 v3ident={identity[1]} "
            f"127.0.0.1:{node.ports['directory']} {fingerprint[1].replace(' ', '')}\n"
        )


def _certified(node: Node) -> subprocess.Popen[bytes]:
    keys = node.folder / "keys"
    keys.mkdir(mode=0o700)
    files = {"-i": "authority_identity_key", "-s": "authority_signing_key", "-c": "authority_certificate"}
    where = [part for option, name in files.items() for part in (option, str(keys / name))]
    address = f"127.0.0.1:{node.ports['directory']}"
    return subprocess.Popen(
        ["tor-gencert", "--create-identity-key", "--passphrase-fd", "0", *where, "-m", "12", "-a", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
