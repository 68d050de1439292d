"""SmartCache (chapters 7 to 11 of the thesis on LEAP): what answers that are kept and guessed save of a budget."""

PAPER = "SmartCache"
