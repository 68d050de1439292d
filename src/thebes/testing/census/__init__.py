"""An example kind that institutions answer, for tests of whoever carries asks and answers: whole numbers are added up,
phase after phase, and nothing protects them. It is no kind of the registry; a test puts it there."""

ANSWERED_BY = "sites"
