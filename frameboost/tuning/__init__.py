"""`frameboost.auto`: a good model by one call.

- `auto`: the public function, checks of the data, and the leaderboard
- `recipes`: the settings that are tried, by quality
- `trials`: recipes trained on each fold, up to the time limit
- `sharpening`: the factor of the margins of classes
- `blending`: the weights of recipes, by their margins on held-out rows
"""
