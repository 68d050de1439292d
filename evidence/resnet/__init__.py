"""ResNet-18 with group norm (11.2 million weights) trained by two sites on columns of real pictures, with and without
noise: that it goes, and what a step costs.

`python -m evidence.resnet --people 20 --rounds 2 --epsilon 8`. The sites' halves are those that sites run, with their
confined children and decoders; what travels between site and coordinator is handed over in one process.
"""
