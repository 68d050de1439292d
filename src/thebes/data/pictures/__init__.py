"""Pictures and arrays as columns: opened where the steward said, decoded in confinement, kept as tensors.

`folder` opens files and follows no link, `decoder` is the owner's side of the process that reads a picture and `child`
that process, `kept` holds what was read, `column` ties them together for one column of one question.
"""
