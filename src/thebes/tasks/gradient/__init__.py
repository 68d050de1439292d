"""gradient: a network learned from gradients that their owners perturb, over as many rounds as the document says."""
