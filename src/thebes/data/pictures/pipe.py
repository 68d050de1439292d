"""Messages between an owner's process and the one that decodes its pictures.

START once; then for each picture its LENGTH and content, answered by DONE and the pixels, or by one byte alone. Between
that process and the one that it forks for a picture, HEARD goes before the answer. A picture of no bytes is answered by
CONFINED where the system granted all that a decoder gives up.
"""

import struct

START = struct.Struct("<IIIQQ")  # height, width, channels; bytes of memory and seconds of the processor for a picture
LENGTH = struct.Struct("<Q")
FAILED, DONE, HUGE, CONFINED, HEARD = b"\x00", b"\x01", b"\x02", b"\x03", b"\x04"
