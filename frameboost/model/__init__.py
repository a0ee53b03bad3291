"""The public model: an ensemble, its history, and the methods that users call."""
