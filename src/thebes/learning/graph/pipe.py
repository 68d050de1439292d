"""What parent and child say to each other over two pipes: lengths known to both sides, raw little-endian numbers.

First START, answered by one byte of confinement; then DOCUMENTS and their texts, answered by DONE; then any number of
REQUESTs, each answered by DONE and rows x P (or, averaged, P) float32, or by FAILED alone.
"""

import struct

START = struct.Struct("<QQ")  # memory_bytes, cpu_seconds
DOCUMENTS = struct.Struct("<QQQ")  # lengths of the texts of model, loss and backbone (0: none)
REQUEST = struct.Struct("<QQ")  # rows, and 1 to have their mean; then weights, inputs and targets as float32
DONE, FAILED = b"\x01", b"\x00"
CONFINEMENT_BYTES = 1  # one bit for each of thebes.confinement.measures.MEASURES
