"""`frameboost.auto`: a good model by one call.

- `auto`: the public function
- `recipes`: the settings that are tried, by quality
- `facts`: the number of rows, whether a target is of two classes, and checks of it
- `deadline`: how much time is left
- `trials`: a recipe trained on each fold
- `held_out`: the margins of a model on the fold that it held out
- `blending`: the weights of recipes, by their margins on held-out rows
- `leaderboard`: what was tried, as a frame
"""
