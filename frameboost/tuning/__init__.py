"""`frameboost.auto`: a good model by one call.

- `auto`: the public function, what it asks of the data, and what was tried as a frame
- `recipes`: the settings that are tried, by quality
- `trials`: a recipe trained on each fold, until the time is over
- `blending`: the weights of recipes, by their margins on held-out rows
"""
