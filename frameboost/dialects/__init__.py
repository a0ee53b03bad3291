"""What differs between the databases that a model's SQL is written for."""
