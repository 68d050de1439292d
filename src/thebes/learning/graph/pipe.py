"""Messages between parent and child over two pipes: lengths known to both sides, raw little-endian numbers.

First START, answered by one byte of confinement; then DOCUMENTS and their texts, answered by DONE; then any number of
REQUESTs, each answered by DONE and float32, or by FAILED alone: rows x P where EACH row's gradient is wanted, P where
their MEAN is, rows x (P + 1) for gradients and losses APART (see `lanes`), and what the model SAID of each row, in one
line of all its numbers.
"""

import struct

START = struct.Struct("<QQ")  # memory_bytes, cpu_seconds
DOCUMENTS = struct.Struct("<QQQ")  # lengths of the texts of model, loss and backbone (0: none)
REQUEST = struct.Struct("<QQ")  # rows, and what is wanted of them; then weights, inputs and targets as float32
EACH, MEAN, APART, SAID = 0, 1, 2, 3
DONE, FAILED = b"\x01", b"\x00"
CONFINEMENT_BYTES = 1  # one bit for each of thebes.confinement.measures.MEASURES
