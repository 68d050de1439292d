"""JSON and XML of any size, read piece by piece.

What must stay true: memory is bounded by one element, whatever the file; no entity is expanded and nothing is fetched;
what is not well-formed ends in a Mistake that names file and line.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from thebes.collectors.sources import LONGEST_TEXT, broken
from thebes.privacy.faults import Mistake

LARGEST_ITEM = 2**24  #: characters of one element
DEEPEST = 60


def items(stream: IO[bytes], name: str | Path) -> Iterator[tuple[str, Any, int]]:
    """Every element of every array at the top of a JSON file, as (key, element, line); key "" where the file is one
    array. Other values at the top come as they are. The file may be larger than memory, an element may not."""
    reader = _Json(io.TextIOWrapper(stream, "utf-8-sig", errors="strict"), name)
    first = reader.peek()
    if first == "[":
        yield from reader.array("")
    elif first == "{":
        yield from reader.object()
    else:
        raise reader.wrong("is not a JSON array or object")
    if reader.peek():
        raise reader.wrong("goes on after its end")


def elements(
    stream: IO[bytes], name: str | Path, *, doctype: bool = True
) -> Iterator[tuple[tuple[str, ...], dict[str, str], str, int]]:
    """Every element of an XML file when it ends, as (path of names, attributes, text, line). Entities are refused, and,
    for formats that have none, any document type."""
    found: list[tuple[tuple[str, ...], dict[str, str], str, int]] = []
    open_: list[tuple[str, dict[str, str], list[str]]] = []
    # defusedxml is this: expat without entities. External ones are never fetched, since no handler resolves any.
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_) >= DEEPEST:
            raise broken(name, parser.CurrentLineNumber, "is nested too deeply")
        open_.append((tag.rpartition(":")[2], attributes, []))

    def text(data: str) -> None:
        if open_ and len(open_[-1][2]) < 1000:
            open_[-1][2].append(data[:LONGEST_TEXT])

    def end(_: str) -> None:
        path = tuple(tag for tag, _, _ in open_)
        _, attributes, said = open_.pop()
        found.append((path, attributes, "".join(said).strip(), parser.CurrentLineNumber))

    def entity(*_: Any) -> int:
        raise broken(name, parser.CurrentLineNumber, "defines entities, which no export needs")

    def declared(*_: Any) -> None:
        raise broken(name, parser.CurrentLineNumber, "has a document type, which this format does not have")

    if not doctype:
        parser.StartDoctypeDeclHandler = declared
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.EntityDeclHandler = parser.ExternalEntityRefHandler = entity
    taken = 0
    try:
        while True:
            piece = stream.read(2**16)
            parser.Parse(piece, not piece)
            taken += len(piece)
            if taken - parser.CurrentByteIndex > LARGEST_ITEM:
                raise broken(name, parser.CurrentLineNumber, "has an element that is too large")
            yield from found
            found.clear()
            if not piece:
                return
    except expat.ExpatError as error:
        raise broken(name, error.lineno, "is not well-formed XML") from None
    except Mistake:
        raise
    except (ValueError, LookupError):
        raise broken(name, parser.CurrentLineNumber, "is in an encoding that cannot be read") from None


class _Json:
    """A window over a JSON text, moved on as elements are read."""

    def __init__(self, text: io.TextIOWrapper, name: str | Path) -> None:
        self._text, self._name = text, name
        self._window, self._at, self._line = "", 0, 1
        self._decoder = json.JSONDecoder()

    def wrong(self, why: str) -> Mistake:
        return broken(self._name, self._line, why)

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._at < len(self._window):
                character = self._window[self._at]
                if character not in " \t\r\n":
                    return character
                self._line += character == "\n"
                self._at += 1
            if not self._more():
                return ""

    def object(self) -> Iterator[tuple[str, Any, int]]:
        self._expect("{")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            key = self._value()
            if not isinstance(key, str):
                raise self.wrong("has a key that is not text")
            self._expect(":")
            if self.peek() == "[":
                yield from self.array(key)
            else:
                line = self._line
                yield key, self._value(), line
            if self._next_or("}"):
                return

    def array(self, key: str) -> Iterator[tuple[str, Any, int]]:
        self._expect("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            self.peek()
            line = self._line
            yield key, self._value(), line
            if self._next_or("]"):
                return

    def _value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._window, self._at)
                if end < len(self._window) or not self._more():
                    self._line += self._window.count("\n", self._at, end)
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                pos = error.pos - self._at
                if not self._more():
                    self._line += self._window.count("\n", 0, pos)
                    raise self.wrong("is not JSON") from None
            except (ValueError, RecursionError):
                raise self.wrong("is nested too deeply, or has a number that is too long") from None
            if len(self._window) - self._at > LARGEST_ITEM:
                raise self.wrong("has an element that is too large, or is not JSON")

    def _expect(self, character: str) -> None:
        if self.peek() != character:
            raise self.wrong("is not JSON")
        self._at += 1

    def _next_or(self, end: str) -> bool:
        """Past a comma, or past the end of what is being read: True."""
        found = self.peek()
        if found not in (",", end) or not found:
            raise self.wrong("is not JSON, or ends too early")
        self._at += 1
        return found == end

    def _more(self) -> bool:
        # twice as much each time, so that a large element is not decoded over and over again
        waiting = len(self._window) - self._at
        try:
            piece = self._text.read(max(2**16, waiting))
        except UnicodeDecodeError:
            raise self.wrong("is not text in UTF-8") from None
        self._window, self._at = self._window[self._at :] + piece, 0
        return bool(piece)
