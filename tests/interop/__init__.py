"""Models of other libraries, held to what those libraries predict."""
